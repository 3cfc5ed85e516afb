"""Sudoku puzzles to load, by how deep logic must look (`sudoku/difficulty.py`)."""

import random
from typing import Any

import torch

from tokenloom.drawing.randomness import derive_seed
from tokenloom.sudoku.difficulty import DEEP, difficulty
from tokenloom.sudoku.solver import BLANK, BOXES, random_puzzle
from tokenloom.sudoku.text import format_grid
from tokenloom.web.requests import Puzzle

LEVELS = {"easy": (0, 0), "medium": (1, 2), "hard": (3, DEEP)}
"""The difficulties that each level stands for."""
GIVENS = {4: 6, 6: 14, 9: 32}
"""Givens of an easy puzzle of each side; the others have as few as they can."""
ATTEMPTS = 60


def example(asked: Puzzle) -> dict[str, Any]:
    """A puzzle with one solution, of the level that is asked for."""
    if asked.side not in BOXES:
        raise ValueError(f"a grid has side 4, 6 or 9, got {asked.side}")
    order = random.Random(derive_seed(asked.seed, "example", asked.side, asked.level))
    low, high = LEVELS[asked.level]
    for _ in range(ATTEMPTS):
        puzzle, _ = random_puzzle(asked.side, GIVENS[asked.side] if asked.level == "easy" else 0, order, attempts=1)
        depth = int(difficulty(torch.tensor([puzzle]), asked.side)[0])
        if low <= depth <= high:
            cells = [None if cell == BLANK else cell for cell in puzzle]
            return {
                "cells": cells,
                "text": format_grid(puzzle),
                "depth": depth,
                "givens": len(cells) - cells.count(None),
            }
    raise ValueError(f"no {asked.level} grid of side {asked.side} was found in {ATTEMPTS}; load an easy one")
