"""--prompt and --infill: what is given of sequences, as token ids with None for what is to be drawn."""

from collections.abc import Sequence

from tokenloom.models.model import DiffusionModel
from tokenloom.samplers.templates import Cells, template_cells

BLANKS = "._0"


def read_given(
    model: DiffusionModel, prompts: Sequence[str], templates: Sequence[str], length: int | None
) -> list[tuple[Cells, int | None]]:
    """Return the cells of each prompt or template with the length of its sequences; of neither, one without cells.

    A template of text keeps its own length, unless the user asks for a `length`.
    """
    if prompts and templates:
        raise ValueError("give --prompt or --infill, not both")
    most, tokenizer = model.length if length is None else length, model.tokenizer
    found: list[tuple[Cells, int | None]] = []
    for text in (*prompts, *templates):
        if tokenizer is None:
            cells = _cells(text, model.process.vocab_size)
        else:
            cells = template_cells(tokenizer, text) if templates else list(tokenizer.encode(text))
        own = len(cells) if templates and tokenizer is not None and length is None else most
        if own is None:
            raise ValueError("the model does not say how long its sequences are; pass --length")
        if len(cells) > (most or own):
            raise ValueError(f"the given text has {len(cells)} tokens, but a sequence has {most}; shorten it")
        if templates and tokenizer is None and len(cells) < own:
            raise ValueError(f"--infill has {len(cells)} cells, but a sequence has {own}; write blanks for the rest")
        found.append((cells, own))
    return found or [([], most)]


def _cells(text: str, size: int) -> Cells:
    """Return the cells of a grid, None for a blank."""
    symbols = "".join(text.split())
    for place, symbol in enumerate(symbols, 1):
        if symbol not in "123456789"[:size] + BLANKS:
            raise ValueError(f"symbol {place} is {symbol!r}; a grid has the digits 1..{size} and {' '.join(BLANKS)}")
    return [None if symbol in BLANKS else int(symbol) - 1 for symbol in symbols]
