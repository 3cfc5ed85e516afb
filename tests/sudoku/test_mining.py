"""Mining: every puzzle has one solution and cannot lose a given, walks never get worse, and a block is made once."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.sudoku.test_puzzles import assert_unique
from tokenloom.sudoku import collection
from tokenloom.sudoku.collection import CollectionConfig, mined_block, write_collection
from tokenloom.sudoku.data import SudokuSource, random_grids
from tokenloom.sudoku.mining import Aim, Walks, mine
from tokenloom.sudoku.mixture import check_shares, kinds_of, mixed_rows
from tokenloom.sudoku.search import guesses
from tokenloom.sudoku.singles import candidates
from tokenloom.sudoku.solver import BLANK, solve
from tokenloom.sudoku.text import read_puzzles


def walks_of(side: int, count: int, aim: Aim, seed: int = 0) -> Walks:
    return Walks(random_grids(side, count, seed).numpy().astype(np.uint8), aim, np.random.default_rng(seed))


@pytest.mark.parametrize(("side", "steps"), [(4, 60), (6, 120), (9, 150)])
def test_mined_puzzles_have_one_solution_and_cannot_lose_a_given(side: int, steps: int) -> None:
    found = mine(walks_of(side, 4, "hard").solutions, "hard", steps, np.random.default_rng(1))
    solutions, given = torch.from_numpy(found.solutions), torch.from_numpy(found.given)
    assert len({tuple(row) for row in torch.cat([solutions, given], 1).tolist()}) == len(solutions) >= 4
    assert_unique(solutions[:12], given[:12], side, minimal=True)
    posed = torch.where(given, solutions.long(), BLANK)
    assert guesses(candidates(posed, side)).tolist() == found.guesses.tolist()


@pytest.mark.parametrize("aim", ["few", "hard"])
def test_a_walk_never_gets_worse_and_gets_better_on_average(aim: Aim) -> None:
    walks, scores = walks_of(6, 16, aim), list[np.ndarray]()
    for _ in range(300):
        walks.take_step()
        if not walks.best.all(1).any():
            scores.append(walks.best.sum(1) if aim == "few" else -walks.best_guesses)
    table = np.stack(scores)
    assert (np.diff(table, axis=0) <= 0).all()
    assert table[-1].mean() < table[0].mean() - 0.5


def test_a_known_set_is_one_that_another_solution_leaves_open() -> None:
    """Whatever a walk remembers, its solution with these cells left open has another solution."""
    walks = walks_of(6, 4, "few")
    for _ in range(40):
        walks.take_step()
    for walk in range(4):
        for flags in walks.sets[walk][walks.sets[walk].any(1)][:5]:
            solution = torch.from_numpy(walks.solutions[walk].astype(np.int64))
            posed = torch.where(torch.from_numpy(flags), BLANK, solution)
            assert len(solve(posed.tolist(), 6)) == 2


def test_a_block_depends_on_the_seed_and_its_number_alone_and_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "WALKS", 6)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    few, hard = (mined_block(6, 3, block, 80) for block in (0, 1))
    assert torch.equal(mined_block(6, 3, 1, 80, tmp_path / "other"), hard)
    assert not torch.equal(mined_block(6, 4, 1, 80)[:6, :36], hard[:6, :36])
    monkeypatch.delattr(collection, "mine")
    out = tmp_path / "mined.csv.gz"
    write_collection(CollectionConfig(out, blocks=2, seed=3, questions=80, side=6))
    read = read_puzzles(out)
    assert torch.equal(read.solutions.int(), torch.cat([few, hard])[:, :36])
    assert torch.equal(read.given.int(), torch.cat([few, hard])[:, 36:-1])


def test_a_mixture_has_its_shares_of_every_kind_and_all_of_their_puzzles() -> None:
    kinds = torch.tensor([0] * 500 + [1] * 300 + [2] * 150 + [3] * 50)
    rows = mixed_rows(kinds, (0.1, 0.2, 0.3, 0.4), 0)
    assert len(rows) == 1000
    assert kinds[rows].bincount().tolist() == [100, 200, 300, 400]
    assert set(rows.bincount(minlength=1000)[800:950].tolist()) == {2}
    assert set(rows.bincount(minlength=1000)[950:].tolist()) == {8}
    assert torch.equal(rows, mixed_rows(kinds, (0.1, 0.2, 0.3, 0.4), 0))
    assert not torch.equal(rows, mixed_rows(kinds, (0.1, 0.2, 0.3, 0.4), 1))
    with pytest.raises(
        ValueError, match=r"none of the 20 training puzzles have 20 givens or fewer, but mixture asks for"
    ):
        mixed_rows(torch.zeros(20, dtype=torch.long), (0.5, 0.0, 0.0, 0.5), 0)
    with pytest.raises(ValueError, match=r"mixture must be four shares of at least 0 with sum 1, got 1 1 0 0"):
        check_shares((1, 1, 0, 0))


def test_a_mixture_trains_on_its_kinds_and_leaves_the_validation_alone(cache: Path) -> None:
    source = SudokuSource(side=6, rows=40, givens=(8, 20), puzzles="unique")
    mixed = SudokuSource(side=6, rows=40, givens=(8, 20), puzzles="unique", mixture=(0.0, 0.0, 0.0, 1.0))
    plain, data = source.load(cache=cache), mixed.load(cache=cache)
    assert plain.puzzles is not None
    assert data.puzzles is not None
    assert torch.equal(plain.valid, data.valid)
    assert plain.fingerprint != data.fingerprint
    assert (plain.bare, data.bare) == (0, 1)
    kinds = kinds_of(torch.where(data.puzzles[0], data.train.long(), BLANK), 6, cache)
    assert set(kinds.tolist()) == {3}
    with pytest.raises(ValueError, match=r"a mixture needs unique puzzles, and takes the place of hard, got hard 0.5"):
        replace(mixed, hard=0.5).load(cache=cache)
