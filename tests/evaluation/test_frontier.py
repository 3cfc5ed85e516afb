"""Frontiers: comparison at the data's entropy, points that survive a kill, and exact sampling under an exact judge."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tokenloom as tl
from tests.evaluation.helpers import NO_TEXT
from tests.training.helpers import saved, tiny
from tokenloom.cli.frontier import FrontierConfig, frontier
from tokenloom.data.markov import markov_chain
from tokenloom.evaluation.frontier import (
    Sweep,
    at_entropy,
    data_entropy,
    matched,
    run_points,
    submit_points,
    warnings,
)
from tokenloom.evaluation.judges import OracleJudge, rate
from tokenloom.evaluation.points import Point, evaluate_point
from tokenloom.samplers.options import SamplerOptions


def record(family: str, entropy: float, perplexity: float, source: str = "model") -> dict[str, Any]:
    nats = math.log(perplexity)
    return {"family": family, "entropy": entropy, "perplexity": perplexity, "nats_per_token": nats, "source": source}


def test_perplexity_between_points_is_geometric_in_entropy() -> None:
    members = [record("a", 4.0, 10.0), record("a", 5.0, 40.0)]
    assert at_entropy(members, 4.5) == pytest.approx(20.0)
    assert at_entropy(members, 5.0) == pytest.approx(40.0)
    assert at_entropy(members, 5.1) is None


def test_curves_are_ranked_at_the_entropy_of_the_data_and_low_entropy_wins_are_flagged() -> None:
    records = [
        record("data", 4.5, 15.0, "data"),
        *(record("repeats", entropy, perplexity) for entropy, perplexity in ((3.0, 2.0), (5.0, 90.0))),
        *(record("honest", entropy, perplexity) for entropy, perplexity in ((4.0, 12.0), (5.0, 30.0))),
    ]
    assert data_entropy(records) == 4.5
    assert [row[0] for row in matched(records)] == ["honest", "repeats"]
    (sentence,) = warnings(records)
    assert "repeats has the lowest perplexity, 2.0, only at entropy 3.00, below the data's 4.50" in sentence
    assert "honest is best with 19.0" in sentence
    assert warnings([item for item in records if item["family"] != "repeats"]) == []


@pytest.mark.parametrize(("shuffled", "told"), [(4.6, 1), (9.0, 1), (80.0, 0)])
def test_a_judge_that_hardly_tells_shuffled_data_from_data_is_warned_of(shuffled: float, told: int) -> None:
    found = warnings(
        [{"source": "data", "perplexity": 4.8, "entropy": 1.0}, {"source": "shuffled data", "perplexity": shuffled}]
    )
    assert len(found) == told
    assert all("so it hardly tells them apart" in sentence for sentence in found)


def test_a_language_model_is_refused_as_judge_of_what_is_not_text(run: Path, tmp_path: Path) -> None:
    """Before it is loaded, and before anything is drawn."""
    config = FrontierConfig((str(run),), "no-such/model", steps=(2,), num=4, out=tmp_path / "out")
    with pytest.raises(
        ValueError, match="no-such/model is a language model and judges text, which these samples are not"
    ):
        frontier(config)
    assert not (tmp_path / "out").exists()


def test_a_sweep_without_steps_or_beyond_memory_gets_a_sentence(run: Path, tmp_path: Path) -> None:
    config = FrontierConfig((str(run),), "oracle", steps=(2,), num=4, out=tmp_path / "out")
    with pytest.raises(ValueError, match="a sweep without steps has no points; name at least one"):
        frontier(replace(config, steps=()))
    with pytest.raises(ValueError, match=r"drawing 1,000,000,000,000,000 sequences of .* this machine has"):
        frontier(replace(config, num=10**15))


def test_a_sweep_compares_with_the_data_that_it_is_given(run: Path, tmp_path: Path) -> None:
    config = FrontierConfig((str(run),), "oracle", steps=(2,), top_p=(1.0,), num=4, data="markov", out=tmp_path / "out")
    frontier(config)
    points = json.loads((tmp_path / "out" / "frontier.json").read_text())["points"]
    assert points[0]["data"].startswith("markov chain of")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the tiny markov recipe whose network was not trained."""
    folder = tmp_path_factory.mktemp("runs") / "markov"
    saved(tiny(folder), folder)
    return folder


def test_a_point_is_written_once_and_says_how_it_was_made(run: Path, tmp_path: Path) -> None:
    sampling = SamplerOptions(steps=4, temperature=0.9, corrector="informed")
    point = Point(str(run), "oracle", sampling=sampling, num=8)
    first = evaluate_point(point, tmp_path)
    path = point.file(tmp_path)
    before = path.stat().st_mtime_ns
    assert evaluate_point(point, tmp_path) == first == json.loads(path.read_text())
    assert path.stat().st_mtime_ns == before
    for key in ("perplexity", "entropy", "distinct_2", "evaluations", "seconds_per_sample", "judge", "samples", "seed"):
        assert key in first
    assert (first["corrector"], first["temperature"], first["steps"]) == ("informed", 0.9, 4)
    assert first["evaluations"] <= 4
    assert replace(point, seed=1).file(tmp_path) != path


def test_a_killed_sweep_resumes_with_what_is_missing(run: Path, tmp_path: Path) -> None:
    arguments = [
        "frontier",
        str(run),
        "--judge",
        "oracle",
        "--steps",
        "2",
        "4",
        "8",
        "--num",
        "8",
        "--out",
        str(tmp_path),
    ]
    temperatures = ["--temperature", *(str(0.5 + index / 100) for index in range(60))]
    command = [sys.executable, "-m", "tokenloom", *arguments, *temperatures]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    points = tmp_path / "points"
    deadline = time.monotonic() + 120
    while (not points.is_dir() or len(list(points.glob("[!.]*.json"))) < 3) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = {path: path.stat().st_mtime_ns for path in points.glob("[!.]*.json")}
    assert 3 <= len(finished) < 182
    sweep = Sweep([str(run)], "oracle", steps=(2, 4, 8), temperatures=(0.5, 0.51), top_ps=(1.0,), num=8)
    records = run_points(sweep.points(), tmp_path, lambda item: None)
    assert len(records) == 8
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in finished.items())


def test_workers_on_this_machine_measure_the_same_points(run: Path, tmp_path: Path) -> None:
    sweep = Sweep([str(run)], "oracle", steps=(2,), top_ps=(0.9, 1.0), num=4)
    points = sweep.points()
    assert sum(job.result() for job in submit_points(points, tmp_path / "spread", 2, "local")) == len(points)
    alone = run_points(points, tmp_path / "alone", lambda item: None)
    timed = ("seconds_per_sample",)
    for point, mine in zip(points, alone, strict=True):
        theirs = json.loads(point.file(tmp_path / "spread").read_text())
        assert {key: theirs[key] for key in theirs if key not in timed} == {
            key: mine[key] for key in mine if key not in timed
        }


def test_the_command_draws_and_compares(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = FrontierConfig((str(run),), "oracle", steps=(2, 4), top_p=(0.8, 1.0), num=8, out=tmp_path / "out")
    frontier(config)
    output = capsys.readouterr().out
    assert "6 points, 0 of them already" in output
    assert "shuffled data (markov chain of" in output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "points", "frontier.csv", "frontier.json", "frontier.png", "frontier.html",
    }  # fmt: skip
    table = (tmp_path / "out" / "frontier.csv").read_text().splitlines()
    assert len(table) == 7


def test_exact_sampling_in_many_steps_has_the_perplexity_of_the_entropy_rate(generator: torch.Generator) -> None:
    """Mean nats within 5 standard errors of the exact entropy (false alarm 6e-7); at 2 steps it is far above."""
    initial, transition = markov_chain(5, 0)
    oracle = tl.MarkovOracle(initial, transition, 16, tl.Uniform(5))
    judge = OracleJudge(oracle)
    exact = oracle.entropy() / 16

    def rating(steps: int) -> Any:
        tokens = tl.sample(oracle, 1000, steps=steps, generator=generator)
        return rate(judge, tokens, NO_TEXT)

    many, few = rating(128), rating(2)
    assert abs(many.nats_per_token - exact) < 5 * many.nats_error
    assert few.nats_per_token > exact + 20 * few.nats_error
