"""Sudoku in the playground: a grid with its boxes, puzzles to load by difficulty, and solving by the rules."""

import random
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from tokenloom.drawing.randomness import derive_seed
from tokenloom.models.model import DiffusionModel
from tokenloom.samplers import Sampler
from tokenloom.samplers.given import GivenTokens
from tokenloom.samplers.run import OnStep
from tokenloom.sudoku.difficulty import DEEP, difficulty
from tokenloom.sudoku.solver import BLANK, BOXES, SIDES, box_shape, random_puzzle
from tokenloom.sudoku.solving import Solver, solve_puzzles
from tokenloom.sudoku.text import format_grid
from tokenloom.web.requests import Draw
from tokenloom.web.views import VIEWS, OnTry, View

LEVELS = {"easy": (0, 0), "medium": (1, 2), "hard": (3, DEEP)}
"""The least and the greatest difficulty of each level."""
GIVENS = {4: 6, 6: 14, 9: 32}
"""Givens of an easy puzzle of each side; the others have as few as they can."""
ATTEMPTS = 60


@dataclass(frozen=True)
class Puzzle:
    """A request for an example."""

    side: int = 9
    level: Literal["easy", "medium", "hard"] = "easy"
    seed: int = 0


def example(asked: Puzzle) -> dict[str, Any]:
    """Return a puzzle with one solution, of the level that is asked for."""
    box_shape(asked.side)  # raises for a side without boxes
    order = random.Random(derive_seed(asked.seed, "example", asked.side, asked.level))
    low, high = LEVELS[asked.level]
    for _ in range(ATTEMPTS):
        puzzle, _ = random_puzzle(asked.side, GIVENS[asked.side] if asked.level == "easy" else 0, order, attempts=1)
        depth = int(difficulty(torch.tensor([puzzle]), asked.side)[0])
        if low <= depth <= high:
            cells = [None if cell == BLANK else cell for cell in puzzle]
            givens = len(cells) - cells.count(None)
            return {"cells": cells, "text": format_grid(puzzle), "depth": depth, "givens": givens}
    raise ValueError(f"no {asked.level} grid of side {asked.side} was found in {ATTEMPTS}; load an easy one")


@VIEWS.register("sudoku")
class SudokuView(View):
    """A grid with its boxes."""

    questions = (("puzzle", Puzzle, example),)

    def layout(self, length: int | None) -> dict[str, Any] | None:
        if length not in SIDES:
            return None
        height, width = BOXES[SIDES[length]]
        return {"kind": "sudoku", "side": SIDES[length], "height": height, "width": width}

    def solve(
        self, model: DiffusionModel, sampler: Sampler, request: Draw, given: GivenTokens, on_step: OnStep, on_try: OnTry
    ) -> dict[str, Any]:
        tokens, flags = given
        if request.begin is not None:
            raise ValueError("a puzzle is solved from its givens; draw once to continue from a step")
        model.process.check_clean(tokens[None])
        puzzle, solver = torch.where(flags, tokens, BLANK)[None], Solver(sampler, request.tries, request.seed)
        outcomes = solve_puzzles(model, puzzle, solver, on_step, lambda drawn: on_try(1 + drawn[0].tries))
        found = asdict(outcomes[0])
        return found | {"tokens": found.pop("grid")}

    def program(self, request: Draw, settings: str, name: str, length: int) -> str:
        held = dict(request.held)
        puzzle = format_grid([held.get(position, BLANK) for position in range(length)])
        lines = [
            "import tokenloom as tl",
            "from tokenloom.sudoku.solving import Solver, solve_puzzles",
            "from tokenloom.sudoku.text import parse_puzzles",
            f"model, puzzle = tl.load({name!r}), parse_puzzles([{puzzle!r}])",
            f"solver = Solver(tl.Sampler.parse({settings}), tries={request.tries}, seed={request.seed})",
            "tokens = solve_puzzles(model, puzzle, solver)[0].grid",
        ]
        return "\n".join(lines) + "\n"
