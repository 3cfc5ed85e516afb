"""`tokenloom bench sampling`: every case and peer runs, and the ratio is step over forward."""

import json
from pathlib import Path

import pytest

from benchmarks.bench_sampling import CASES
from benchmarks.peers import PEERS
from tokenloom.cli import main

SMALL = ["--size.width", "16", "--size.depth", "1", "--size.heads", "2", "--size.vocab", "600", "--size.length", "8"]


def test_every_sampler_and_peer_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    main(["bench", "sampling", *SMALL, "--steps", "4", "--no-growth", "--no-memory", "--json"])
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert set(CASES) <= set(rows)
    assert {name for name in PEERS if name.startswith("dense")} <= set(rows)
    for row in rows.values():
        assert row["ratio"] == pytest.approx(row["step_seconds"] / row["forward_seconds"], rel=0.6)
        assert row["evaluations"] <= 4


def test_memory_is_measured_in_a_process_of_its_own_wherever_the_command_is_started_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["bench", "sampling", *SMALL, "--only", "ReAUDM", "--steps", "2", "--no-growth", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert 0 <= row["gigabytes"] < 1


def test_a_name_that_matches_nothing_gets_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "sampling", "--only", "telepathy"])
    assert "no sampler contains 'telepathy'" in capsys.readouterr().err.replace("\n", " ")


def test_help_lists_the_benchmarks_and_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    for command, word in ((["bench"], "training"), (["bench", "sampling"], "--no-growth")):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--help"])
        assert ended.value.code == 0
        assert word in capsys.readouterr().out
