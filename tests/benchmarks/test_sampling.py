"""`tokenloom bench sampling`: every case and peer runs, and a step is body, head and the sampler."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.account import Account, Clock, Spread
from benchmarks.bench_sampling import FEW
from benchmarks.cases import CASES
from benchmarks.peers import PEERS
from tests.cli.helpers import Shell
from tokenloom.models import compiled

SMALL = ["--size.width", "16", "--size.depth", "1", "--size.heads", "2", "--size.vocab", "600", "--size.length", "8"]


def measured(shell: Shell, *options: str) -> Any:
    return shell.json("bench", "sampling", *SMALL, "--steps", "6", "--no-growth", "--no-memory", *options)["rows"]


@pytest.mark.usefixtures("as_a_user")
def test_every_sampler_and_peer_is_measured(shell: Shell, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    rows = measured(shell, "--batches", "1", "--out", str(kept))
    assert json.loads(kept.read_text())["rows"] == rows
    names = [row["name"] for row in rows]
    assert names == [name for name in [*CASES, *PEERS] if name in names]
    assert {*CASES, *(name for name in PEERS if name.startswith("dense"))} <= set(names)
    for row in rows:
        if "corrector" not in row["name"]:
            assert row["steps"] == (6 if row["name"] in CASES else FEW)
        for part in ("body", "head", "sampler"):
            assert 0 <= row[part]["low"] <= row[part]["median"] <= row[part]["high"] <= 1
        assert row["ratio"]["median"] > 0
        assert row["over_body"]["median"] >= 1


@pytest.mark.usefixtures("as_a_user")
def test_larger_batches_take_a_few_steps_of_the_same_grid_plain_and_compiled(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tests show that code is generated."""
    monkeypatch.setattr(compiled, "_compiled", lambda backend: compiled.run)
    rows = measured(shell, "--batches", "3", "--only", "MDM, top", "--compile")
    assert [(row["batch"], row["steps"], row["compiled"]) for row in rows] == [(3, 3, False), (3, 3, True)]


def test_a_step_is_cut_into_body_head_and_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("benchmarks.account.time.perf_counter", lambda: now[0])

    def spend(seconds: float) -> None:
        now[0] += seconds

    clock = Clock()
    body, head = clock.timed("body", spend), clock.timed("head", spend)  # type: ignore[arg-type]
    account = Account(clock, lambda: spend(100))
    account.start()
    for _ in range(2):
        spend(1)
        body(5)
        head(2)
        spend(3)
        account.step()
    first, second = account.steps
    assert first == second  # the reference between them counts for neither
    assert (first.whole, first.body, first.head, first.sampler) == (11, 5, 2, 4)
    assert account.forwards == [100]


def test_a_spread_is_the_median_and_the_range_of_most() -> None:
    assert Spread.of([float(value) for value in range(101)]) == Spread(50, 10, 90)


def test_growth_is_measured_to_the_largest_vocabulary_and_length(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    from benchmarks import bench_sampling

    assert max(vocab for vocab, _ in bench_sampling.GROWTH) == 262_144
    assert max(length for _, length in bench_sampling.GROWTH) == 4_096
    monkeypatch.setattr(bench_sampling, "GROWTH", ((300, 8), (600, 16)))
    options = ("--only", "MUDM resampled", "--steps", "2", "--batches", "1", "--no-memory")
    out = shell("bench", "sampling", *SMALL, *options).out
    assert "Growth" in out
    assert "600" in out


def test_memory_is_measured_in_a_process_of_its_own_wherever_the_command_is_started_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shell: Shell
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--only", "ReAUDM", "--steps", "2", "--batches", "1", "--no-growth")
    (row,) = shell.json("bench", "sampling", *SMALL, *options)["rows"]
    assert 0 <= row["gigabytes"] < 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sampling", "--only", "telepathy"], "no sampler contains 'telepathy'"),
        (["sampling", "--batches", "0"], "steps and batches must be at least 1, got 64 and [0]"),
        (["training", "--only", "telepathy"], "no case contains 'telepathy'"),
        (["loading", "--megabytes", "0.01", "--tokenizer", "bytes"], "compared on subwords, got the tokenizer bytes"),
    ],
)
def test_a_wrong_option_gets_a_sentence(arguments: list[str], sentence: str, shell: Shell) -> None:
    assert sentence in shell.refusal("bench", *arguments)


def test_help_lists_the_benchmarks(shell: Shell) -> None:
    assert "loading" in shell.ends(0, "bench", "--help").out
