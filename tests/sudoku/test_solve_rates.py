"""The Sudoku task: what counts as solved, the interval, and a model that copies or cannot."""

import math

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tokenloom.samplers.options import SamplerOptions
from tokenloom.sudoku.difficulty import DEEP
from tokenloom.sudoku.puzzles import Puzzles
from tokenloom.sudoku.solve_rates import solve_rate, wilson
from tokenloom.sudoku.solver import BLANK
from tokenloom.sudoku.solving import obeys

SOLUTION = torch.tensor([[0, 1, 2, 3, 2, 3, 0, 1, 1, 0, 3, 2, 3, 2, 1, 0]])
OTHER = torch.tensor([[1, 0, 2, 3, 2, 3, 0, 1, 0, 1, 3, 2, 3, 2, 1, 0]])  # digits 1 and 2 of two columns exchanged


def puzzle(given: list[int]) -> Tensor:
    posed = torch.full_like(SOLUTION, BLANK)
    posed[0, given] = SOLUTION[0, given]
    return posed


def test_a_solution_obeys_every_rule_and_keeps_the_givens() -> None:
    assert obeys(SOLUTION, puzzle([0, 5])).tolist() == [True]
    assert obeys(OTHER, puzzle([5])).tolist() == [True]
    assert obeys(OTHER, puzzle([0])).tolist() == [False], "a given is changed"
    broken = SOLUTION + torch.eye(16, dtype=torch.long)  # the next digit in one cell, or a mask where there is none
    assert not obeys(torch.cat([broken, broken % 4]), puzzle([]).expand(32, -1)).any()
    with pytest.raises(ValueError, match=r"shape \[1, 16\], got \[1, 15\]"):
        obeys(SOLUTION[:, :15], puzzle([]))


def test_wilson_interval_by_hand() -> None:
    """Of 10 hits in 10 trials: from 1 / (1 + z^2/10) to 1."""
    low, high = wilson(10, 10)
    assert low == pytest.approx(1 / (1 + 1.96**2 / 10))
    assert high == 1.0
    low, high = wilson(50, 100)
    assert low + high == pytest.approx(1.0)
    assert (high - low) / 2 == pytest.approx(1.96 * math.sqrt(0.25 / 100 + 1.96**2 / 40000) / (1 + 1.96**2 / 100))


def knows(tokens: Tensor, time: Tensor) -> Tensor:
    return 50.0 * torch.nn.functional.one_hot(SOLUTION.expand(len(tokens), -1), 4).float()


def test_a_model_that_knows_the_solution_solves_and_one_that_guesses_does_not() -> None:
    puzzles = Puzzles(4, SOLUTION.repeat(6, 1).to(torch.int8), torch.arange(16).lt(torch.arange(6)[:, None]))
    sure = tl.DiffusionModel(knows, tl.Masked(4), predicts=tl.Denoiser)
    blind = tl.DiffusionModel(lambda tokens, time: torch.zeros(*tokens.shape, 4), tl.Masked(4), predicts=tl.Denoiser)
    found = solve_rate("sure", sure, puzzles, SamplerOptions(steps=4), repeats=2)
    assert (found.solve_rate, found.cell_accuracy, found.puzzles, found.repeats) == (1.0, 1.0, 6, 2)
    assert found.by_givens == dict.fromkeys(range(6), (1.0, 1))
    assert found.by_difficulty == {DEEP: (1.0, 6)}  # so few givens leave several solutions
    assert 1 < found.evaluations <= 4  # the sampler alone: it does not stop where it could
    guessed = solve_rate("blind", blind, puzzles, SamplerOptions(steps=4))
    assert guessed.solve_rate == 0.0
    assert 0 < guessed.cell_accuracy < 0.6
    with pytest.raises(ValueError, match="fills grids with 5 digits"):
        solve_rate("wrong", tl.DiffusionModel(knows, tl.Masked(5), predicts=tl.Denoiser), puzzles, SamplerOptions())
