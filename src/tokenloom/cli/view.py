"""Sequences in the terminal: text, grids or pictures, with the tokens that just changed in colour."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

from tokenloom.data.sudoku_solver import box_shape
from tokenloom.evaluation.runs import Run

SHADES = " .:-=+*#%@"


@dataclass(frozen=True)
class Canvas:
    """How the tokens of a run are written: a string a token, and what stands between positions."""

    piece: Callable[[int], str]
    after: Callable[[int], str]
    """What follows position l."""

    def draw(
        self, tokens: Sequence[int], changed: Sequence[bool] | None = None, given: Sequence[bool] | None = None
    ) -> Text:
        """One sequence."""
        text = Text()
        for position, token in enumerate(tokens):
            style = ""
            if given is not None and given[position]:
                style = "bold"
            elif changed is not None and changed[position]:
                style = "black on yellow"
            text.append(self.piece(token), style)
            text.append(self.after(position))
        return text

    def plain(self, tokens: Sequence[int]) -> str:
        """One sequence without colour."""
        return self.draw(tokens).plain.rstrip("\n")


def canvas_of(run: Run) -> Canvas:
    """Text where there is a tokenizer, a grid for Sudoku, shades for digits, else numbers."""
    vocab_size, tokenizer = run.model.process.vocab_size, run.tokenizer
    kind = None if run.data is None else run.data.kind
    if tokenizer is not None:
        known = tokenizer
        return Canvas(lambda token: known.decode([token]) if token < vocab_size else "_", lambda position: "")
    if kind == "sudoku":
        return grid_canvas(vocab_size)
    if kind == "digits":
        side = 8 if vocab_size == 17 else 28
        return Canvas(
            lambda token: 2 * (SHADES[token * (len(SHADES) - 1) // (vocab_size - 1)] if token < vocab_size else "?"),
            lambda position: "\n" if (position + 1) % side == 0 else "",
        )
    return Canvas(lambda token: str(token) if token < vocab_size else "_", lambda position: " ")


def grid_canvas(side: int) -> Canvas:
    """A Sudoku with its boxes set apart."""
    height, width = box_shape(side)

    def after(position: int) -> str:
        row, column = divmod(position, side)
        if column < side - 1:
            return "  " if (column + 1) % width == 0 else " "
        return "\n\n" if (row + 1) % height == 0 and row < side - 1 else "\n"

    return Canvas(lambda token: str(token + 1) if token < side else ".", after)


def frame(title: str, *parts: Text) -> Group:
    """A title over some sequences."""
    return Group(Text(title, style="dim"), Text(), *parts)
