"""A sweep trains every combination once, in this process or spread over others, and the same command again adds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.helpers import Shell
from tests.training.helpers import TINY, tiny, train, weights
from tokenloom.cli.sweeping import train_each
from tokenloom.nn.size import count_parameters
from tokenloom.training.build import resolve, task_of
from tokenloom.training.recipes import recipe
from tokenloom.training.sweep import members

FEW = ["--max-steps", "2", "--run.valid-rows", "8"]


def test_a_sweep_is_the_product_of_its_options(tmp_path: Path) -> None:
    config = replace(tiny(tmp_path), sweep=("optimiser.lr=1e-4,3e-4", "run.seed=1,2", "method=udm"))
    found = members(config)
    assert list(found)[:2] == ["lr=1e-4,seed=1,method=udm", "lr=1e-4,seed=2,method=udm"]
    assert [(run.optimiser.lr, run.run.seed) for run in found.values()] == [
        (1e-4, 1), (1e-4, 2), (3e-4, 1), (3e-4, 2)
    ]  # fmt: skip
    assert all(run.sweep == () and run.out == str(tmp_path / name) for name, run in found.items())


@pytest.mark.parametrize(
    ("sweep", "sentence"),
    [
        (("optimiser.l=1",), "--sweep: there is no option 'optimiser.l'"),
        (("method.x=1",), "there is no option 'method.x'"),
        (("optimiser.lr",), "--sweep takes an option and its values"),
        (("optimiser.lr=1,,2",), "--sweep takes an option and its values"),
        (("run.seed=1", "run.seed=2"), "--sweep names an option twice"),
        (("run.seed=x",), "the option seed of the config's run must be a whole number"),
        (("optimiser.lr=-1",), "--optimiser.lr must be positive"),
    ],
)
def test_a_wrong_sweep_gets_a_sentence(sweep: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        members(replace(tiny(tmp_path), sweep=sweep))


def test_the_command_trains_what_is_missing_and_says_what_was_best(tmp_path: Path, shell: Shell) -> None:
    out = tmp_path / "sweep"
    printed = shell("train", *TINY, *FEW, "--sweep", "optimiser.lr=1e-3,1e-2", "--out", str(out)).out
    assert "lr=1e-2" in printed
    assert printed.count("(lowest)") == 1
    before = weights(out / "lr=1e-3", 2)
    shell("train", *TINY, *FEW, "--sweep", "optimiser.lr=1e-3,1e-1", "--out", str(out))
    assert weights(out / "lr=1e-3", 2) == before
    assert [run["run"] for run in json.loads((out / "sweep.json").read_text())["runs"]] == ["lr=1e-3", "lr=1e-1"]
    sweep = ["--sweep", "run.seed=1", "--out", str(out)]
    assert "--workers must be at least 1, got 0" in shell.refusal("train", *TINY, *FEW, *sweep, "--workers", "0")
    assert "spread the runs of a --sweep" in shell.refusal("train", *TINY, *FEW, "--workers", "2")


def test_a_run_of_a_sweep_is_the_run_alone_and_resumes(tmp_path: Path) -> None:
    runs = members(replace(tiny(tmp_path / "sweep", max_steps=4, run={"valid_rows": 8}), sweep=("run.seed=3",)))
    first = replace(runs["seed=3"], max_steps=2)
    train_each([first])
    train_each(list(runs.values()))
    alone = tiny(tmp_path / "alone", max_steps=4, run={"valid_rows": 8, "seed": 3})
    train(alone)
    assert weights(tmp_path / "sweep" / "seed=3", 4) == weights(tmp_path / "alone", 4)


def test_the_recipe_of_the_paper_has_its_size_and_runs_in_miniature(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = recipe("sudoku-paper")
    assert round(0.95 * paper.data.rows) == 50_000  # type: ignore[attr-defined]
    assert len(members(replace(paper, out=str(tmp_path)))) == 5
    assert 5.9e6 < count_parameters(paper.network, task_of(resolve(paper), paper.data.outline())) < 6.1e6
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    small = ["--data.side", "4", "--data.givens", "4", "12", "--data.rows", "40", "--network.width", "16"]
    small += ["--network.depth", "1", "--network.heads", "2", "--optimiser.batch", "8", "--run.precision", "32-true"]
    out = tmp_path / "sweep"
    options = ["--recipe", "sudoku-paper", *small, *FEW, "--sweep", "optimiser.lr=1e-4,1e-3", "--out", str(out)]
    shell("train", *options)
    runs = [str(out / f"lr={rate}") for rate in ("1e-4", "1e-3")]
    task = ["--task", "sudoku", "--sudoku.count", "4", "--sudoku.steps", "2", "--out", str(tmp_path / "rates")]
    assert "violations" in shell("evaluate", *runs, *task).out
