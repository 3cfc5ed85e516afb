"""Samples in shards, and figures: the same whatever the number of processes, the batch and interruptions."""

import json
from pathlib import Path

import pytest

from tests.cli.helpers import Shell, content
from tokenloom.cli import main

DRAW = ("sample", "sudoku4-udm-loo", "--steps", "2", "--shard", "4")


def drawn(folder: Path, *options: str) -> dict[str, str]:
    main([*DRAW, "--out", str(folder), *options])
    return content(folder)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return drawn(tmp_path_factory.mktemp("alone") / "samples", "--num", "10")


def test_rows_are_numbered_and_repeat_what_a_file_of_all_holds(alone: dict[str, str], tmp_path: Path) -> None:
    lines = [json.loads(line) for text in alone.values() for line in text.splitlines()]
    assert [line["row"] for line in lines] == list(range(10))
    whole = tmp_path / "all.json"
    main([*DRAW, "--num", "10", "--out", str(whole)])
    assert [line["tokens"] for line in lines] == json.loads(whole.read_text())["tokens"]


@pytest.mark.parametrize("count", [2, 3])
def test_any_number_of_processes_draws_the_same_shards(
    count: int, alone: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", str(count))
    for rank in range(count):
        monkeypatch.setenv("RANK", str(rank))
        main([*DRAW, "--num", "10", "--batch", str(rank + 1), "--out", str(tmp_path)])
    assert content(tmp_path) == alone


def test_what_is_there_is_not_drawn_again_and_what_is_missing_is(alone: dict[str, str], tmp_path: Path) -> None:
    drawn(tmp_path, "--num", "6")  # the second shard has two rows
    first = (tmp_path / "samples-00000.jsonl").stat().st_mtime_ns
    assert drawn(tmp_path, "--num", "10", "--batch", "3") == alone
    assert (tmp_path / "samples-00000.jsonl").stat().st_mtime_ns == first


def test_samples_of_other_settings_are_not_mixed(tmp_path: Path, shell: Shell) -> None:
    drawn(tmp_path, "--num", "4")
    said = shell.refusal(*DRAW, "--num", "4", "--seed", "1", "--out", str(tmp_path))
    assert "holds samples with other settings (provenance.options.seed (0 -> 1)); choose another --out" in said


def test_wrong_input_gets_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    folder = ("--out", str(tmp_path))
    assert "shard must be at least 1, got 0" in shell.refusal(*DRAW[:-1], "0", *folder)
    assert "leave out --watch and --json" in shell.refusal(*DRAW, "--json", *folder)
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = shell.refusal(*DRAW, "--num", "2")
    assert "several processes write their samples to a folder; name one with --out" in said
    for rank, sentence in (
        ("2", "RANK must be in 0..1, got 2; start processes with torchrun"),
        ("first", "RANK must be a whole number, as torchrun sets it, got 'first'"),
    ):
        monkeypatch.setenv("RANK", rank)
        assert sentence in shell.refusal(*DRAW, "--num", "2")
