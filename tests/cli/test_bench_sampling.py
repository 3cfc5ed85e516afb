"""`tokenloom bench sampling`: every case and peer runs, and the ratio is step over forward."""

import json

import pytest

from tokenloom.cli import main
from tokenloom.cli.bench_peers import PEERS
from tokenloom.cli.bench_sampling import CASES

SMALL = ["--size.width", "16", "--size.depth", "1", "--size.heads", "2", "--size.vocab", "600", "--size.length", "8"]


def test_every_sampler_and_peer_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    main(["bench", "sampling", *SMALL, "--steps", "4", "--no-growth", "--no-memory", "--json"])
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert set(CASES) <= set(rows)
    assert {name for name in PEERS if name.startswith("dense")} <= set(rows)
    for row in rows.values():
        assert row["ratio"] == pytest.approx(row["step_seconds"] / row["forward_seconds"], rel=0.6)
        assert row["evaluations"] <= 4


def test_a_name_that_matches_nothing_gets_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "sampling", "--only", "telepathy"])
    assert "no sampler contains 'telepathy'" in capsys.readouterr().err.replace("\n", " ")
