"""Sequences in the terminal, with the tokens that just changed in colour and the given ones bold."""

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from tokenloom.data.base import Source, source_of
from tokenloom.data.decoder import Decoder, numbers, text
from tokenloom.models.model import DiffusionModel


def draw(
    decoder: Decoder,
    tokens: Sequence[int],
    changed: Sequence[bool] | None = None,
    given: Sequence[bool] | None = None,
) -> Text:
    """Write one sequence."""
    drawn = Text()
    for position, token in enumerate(tokens):
        bold = given is not None and given[position]
        marked = changed is not None and changed[position]
        drawn.append(decoder.piece(token), "bold" if bold else "black on yellow" if marked else "")
        drawn.append(decoder.after(position))
    return drawn


def frame(title: str, *parts: Text) -> Group:
    """Put a title over some sequences."""
    return Group(Text(title, style="dim"), Text(), *parts)


def trained_on(model: DiffusionModel) -> Source | None:
    """Return the data source that a model was trained on, if the model records it."""
    return None if model.about.source is None else source_of(model.about.source)


def decoder_of(model: DiffusionModel) -> Decoder:
    """Return how a model's sequences are written: as text, as its data source writes them, else as numbers."""
    size = model.process.vocab_size
    if model.tokenizer is not None:
        return text(model.tokenizer)
    source = trained_on(model)
    return (source and source.decoder(size, model.length or 0)) or numbers(size)
