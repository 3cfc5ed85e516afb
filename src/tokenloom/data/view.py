"""Sequences in the terminal, with the tokens that just changed in colour and the given ones bold."""

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from tokenloom.data.base import source_of
from tokenloom.data.decoder import Decoder, numbers, text
from tokenloom.models.model import DiffusionModel


def draw(
    decoder: Decoder,
    tokens: Sequence[int],
    changed: Sequence[bool] | None = None,
    given: Sequence[bool] | None = None,
) -> Text:
    """One sequence."""
    drawn = Text()
    for position, token in enumerate(tokens):
        style = ""
        if given is not None and given[position]:
            style = "bold"
        elif changed is not None and changed[position]:
            style = "black on yellow"
        drawn.append(decoder.piece(token), style)
        drawn.append(decoder.after(position))
    return drawn


def frame(title: str, *parts: Text) -> Group:
    """A title over some sequences."""
    return Group(Text(title, style="dim"), Text(), *parts)


def decoder_of(model: DiffusionModel) -> Decoder:
    """How the sequences of a model are written: as text, as its data source writes them, else as numbers."""
    size = model.process.vocab_size
    if model.tokenizer is not None:
        return text(model.tokenizer)
    source = None if model.about.source is None else source_of(model.about.source)
    found = None if source is None else source.decoder(size, model.length or 0)
    return numbers(size) if found is None else found
