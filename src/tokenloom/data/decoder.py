"""Tokens for people: as text, as a grid, as a picture, or as numbers; plain, or in colour for a terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

from tokenloom.models.tokenizer import Tokenizer
from tokenloom.types import Tokens

SHADES = " .:-=+*#%@"


@dataclass(frozen=True)
class Decoder:
    """Writes sequences for people: one string per token, and what stands between positions.

    A tokenizer decodes whole sequences, which is not always what its tokens spell one by one.
    """

    piece: Callable[[int], str]
    after: Callable[[int], str]
    """The text after position l."""
    tokenizer: Tokenizer | None = None
    """The one of text; None for what is not text."""
    side: int | None = None
    """The side of the square picture of grey levels that a sequence is; None for what is not a picture."""

    def __call__(self, tokens: Tokens) -> list[str]:
        """Return one string per sequence."""
        return [self.plain(row) for row in tokens.tolist()]

    def plain(self, tokens: Sequence[int]) -> str:
        """Return one sequence as a string."""
        if self.tokenizer is not None and all(token < self.tokenizer.vocab_size for token in tokens):
            return self.tokenizer.decode(tokens)
        pieces = [self.piece(token) + self.after(position) for position, token in enumerate(tokens)]
        return "".join(pieces).rstrip("\n" if self.tokenizer is None else "")

    def shown(self, tokens: Sequence[int]) -> str:
        """Return one sequence as a string, up to its end token."""
        return self.plain(self.until_end(tokens))

    def until_end(self, tokens: Sequence[int]) -> Sequence[int]:
        """Return a sequence up to its end token, without the special tokens that it begins with."""
        return tokens if self.tokenizer is None else self.tokenizer.until_end(tokens)

    def coloured(self, tokens: Sequence[int], changed: Sequence[bool] = (), given: Sequence[bool] = ()) -> Text:
        """Return one sequence for a terminal: given tokens bold, and those that just changed in colour."""
        drawn = Text()
        for position, token in enumerate(tokens):
            style = "bold" if given and given[position] else "black on yellow" if changed and changed[position] else ""
            drawn.append(self.piece(token), style).append(self.after(position))
        return drawn


def frame(title: str, drawn: Text) -> Group:
    """Put a title over a sequence."""
    return Group(Text(title, style="dim"), Text(), drawn)


def numbers(vocab_size: int) -> Decoder:
    """Write token ids with spaces between them; what is not a token (a mask) is an underscore."""
    return Decoder(lambda token: str(token) if token < vocab_size else "_", lambda position: " ")


def text(tokenizer: Tokenizer) -> Decoder:
    """Write what the tokens spell."""
    known = tokenizer.vocab_size
    return Decoder(lambda token: tokenizer.decode([token]) if token < known else "_", lambda position: "", tokenizer)


def shades(vocab_size: int, side: int) -> Decoder:
    """Draw a square picture of grey levels, two characters per pixel."""
    return Decoder(
        lambda token: 2 * (SHADES[token * (len(SHADES) - 1) // (vocab_size - 1)] if token < vocab_size else "?"),
        lambda position: "\n" if (position + 1) % side == 0 else "",
        side=side,
    )
