"""Frontiers: comparison at the data's entropy, points that survive a kill, and exact sampling under an exact judge."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import tokenloom as tl
from tests.evaluation.helpers import NO_TEXT
from tokenloom.cli.frontier import frontier
from tokenloom.cli.ranks import spread
from tokenloom.data.markov import markov_chain
from tokenloom.evaluation.frontier import Sweep, matched, nats_at_entropy, warnings
from tokenloom.evaluation.judges import OracleJudge, rate
from tokenloom.evaluation.points import Point, evaluate_point, opened, run_points
from tokenloom.samplers.options import SamplerOptions


def record(family: str, entropy: float, perplexity: float, source: str = "model") -> dict[str, Any]:
    nats = math.log(perplexity)
    return {"family": family, "entropy": entropy, "perplexity": perplexity, "nats_per_token": nats, "source": source}


def test_perplexity_between_points_is_geometric_in_entropy() -> None:
    members = [record("a", 4.0, 10.0), record("a", 5.0, 40.0)]
    assert nats_at_entropy(members, 4.5) == pytest.approx(math.log(20.0))
    assert nats_at_entropy(members, 5.0) == pytest.approx(math.log(40.0))
    assert nats_at_entropy(members, 5.1) is None


def test_curves_are_ranked_at_the_entropy_of_the_data_and_low_entropy_wins_are_flagged() -> None:
    records = [
        record("data", 4.5, 15.0, "data"),
        record("shuffled data", 4.5, 300.0, "shuffled data"),
        *(record("repeats", entropy, perplexity) for entropy, perplexity in ((3.0, 2.0), (5.0, 90.0))),
        *(record("honest", entropy, perplexity) for entropy, perplexity in ((4.0, 12.0), (5.0, 30.0))),
    ]
    assert [row[0] for row in matched(records)] == ["honest", "repeats"]
    (sentence,) = warnings(records)
    assert "repeats has the lowest perplexity, 2.0, only at entropy 3.00, below the data's 4.50" in sentence
    assert "honest is best with 19.0" in sentence
    assert warnings([item for item in records if item["family"] != "repeats"]) == []


@pytest.mark.parametrize(("shuffled", "told"), [(4.6, 1), (9.0, 1), (80.0, 0)])
def test_a_judge_that_hardly_tells_shuffled_data_from_data_is_warned_of(shuffled: float, told: int) -> None:
    data, other = record("data", 1.0, 4.8, "data"), record("shuffled data", 1.0, shuffled, "shuffled data")
    found = warnings([data, other, record("a", 1.2, 5.0)])
    assert len(found) == told
    assert all("so it hardly tells them apart" in sentence for sentence in found)


@pytest.mark.parametrize("process", ["", "@uniform"])
def test_an_impossible_pair_is_refused_by_the_config_alone(untrained: Path, tmp_path: Path, process: str) -> None:
    """The weights are damaged, which only who reads them would notice."""
    shutil.copytree(untrained, tmp_path / "run")
    (tmp_path / "run" / "model" / "model.safetensors").write_bytes(b"damaged")
    sweep = Sweep((f"{tmp_path / 'run'}{process}",), "oracle", steps=(4,), num=4)
    for wrong in ({"samplers": ("confidence",)}, {"correctors": ("random-scan", "scan"), "samplers": ("remasking",)}):
        with pytest.raises(ValueError, match=r"(confidence|remasking) needs a process whose lost tokens"):
            frontier(replace(sweep, **wrong), tmp_path / "out")
    with pytest.raises(ValueError, match="does not match the checksum"):
        frontier(sweep, tmp_path / "out")


def test_what_cannot_be_swept_gets_a_sentence_before_anything_is_drawn(
    untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, out = Sweep((str(untrained),), "oracle", steps=(2,), num=4), tmp_path / "out"
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"judge": "no-such/model"}, "no-such/model is a language model and judges text, which these samples are"),
        ({"num": 10**15}, r"drawing 1,000,000,000,000,000 sequences of .* this machine has"),
        ({"steps": ()}, "a sweep without steps has no points"),
        ({"num": 1}, "at least 2, got 1"),
        ({"samplers": ("ancestral", "confidence")}, "confidence needs a process whose lost tokens become the mask"),
        ({"correctors": ("none", "scan:parallel=0")}, "parallel must be at least 1, got 0"),
        ({"grids": ("uniform", "powr:2")}, "there is no grid 'powr:2'"),
        ({"grids": ("uniform", "fitted")}, "no grid has been fitted to this model"),
    )
    for change, sentence in wrong:
        with pytest.raises(ValueError, match=sentence):
            frontier(replace(sweep, **change), out)
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        frontier(sweep, out, workers=0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="slurm needs Slurm's srun"):
        frontier(sweep, out, cluster="slurm")
    assert not out.exists()


def test_a_point_is_written_once_and_says_how_it_was_made(untrained: Path, tmp_path: Path) -> None:
    sampling = SamplerOptions(steps=4, temperature=0.9, corrector="informed")
    point = Point(str(untrained), "oracle", sampling=sampling, num=8)
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


def test_a_judge_or_data_that_changed_is_another_point(untrained: Path, tmp_path: Path) -> None:
    judge, data = tmp_path / "judge", tmp_path / "data.txt"
    judge.mkdir()
    for path in (judge / "weights", data):
        path.write_text("one")
    point = Point(str(untrained), str(judge), "data", str(data))
    names = {point.file(tmp_path)}
    for path in (judge / "weights", data):
        path.write_text("another")
        names.add(point.file(tmp_path))
        assert point.file(tmp_path) in names
    assert len(names) == 3


def test_grids_are_curves_of_their_own_and_a_fitted_one_makes_other_points(untrained: Path, tmp_path: Path) -> None:
    sweep = Sweep((str(untrained),), "oracle", steps=(4,), grids=("auto", "power:3"), temperature=(1.0,), num=8)
    records = run_points(sweep.points()[2:], tmp_path)
    assert [record["family"].partition("steps")[2] for record in records] == ["", ", power:3"]
    assert records[0]["nats_per_token"] != records[1]["nats_per_token"]
    shutil.copytree(untrained, tmp_path / "run")
    point = Point(str(tmp_path / "run"), "oracle", sampling=SamplerOptions(steps=4), num=8)
    before = point.file(tmp_path)
    model = tl.load(tmp_path / "run")
    model.describe(grids={model.process.name: {"4": [1, 0.9, 0.8, 0.7, 0]}})
    model.save(tmp_path / "run" / "model")
    opened.cache_clear()
    assert point.file(tmp_path) != before


def test_a_killed_sweep_resumes_with_what_is_missing(untrained: Path, tmp_path: Path) -> None:
    temperatures = tuple(0.5 + index / 100 for index in range(60))
    sweep = Sweep((str(untrained),), "oracle", steps=(2, 4, 8), temperature=temperatures, num=8)
    options = ["--steps", "2", "4", "8", "--num", "8", "--temperature", *map(str, temperatures), "--out", str(tmp_path)]
    command = [sys.executable, "-m", "tokenloom", "frontier", str(untrained), "--judge", "oracle", *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    points = tmp_path / "points"
    deadline = time.monotonic() + 120
    while (not points.is_dir() or len(list(points.glob("[!.]*.json"))) < 3) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = {path: path.stat().st_mtime_ns for path in points.glob("[!.]*.json")}
    assert 3 <= len(finished) < len(sweep.points())
    records = run_points(replace(sweep, temperature=temperatures[:2]).points(), tmp_path)
    assert len(records) == 8
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in finished.items())


def test_workers_on_this_machine_measure_the_same_points(untrained: Path, tmp_path: Path) -> None:
    points = Sweep((str(untrained),), "oracle", steps=(2,), top_p=(0.9, 1.0), num=4).points()
    shares = spread(partial(run_points, folder=tmp_path / "spread"), points, tmp_path / "jobs", 2, "local")
    assert sum(map(len, shares)) == len(points)
    for point, mine in zip(points, run_points(points, tmp_path / "alone"), strict=True):
        theirs = json.loads(point.file(tmp_path / "spread").read_text())
        assert theirs | {"seconds_per_sample": 0} == mine | {"seconds_per_sample": 0}


def test_the_command_draws_and_compares(untrained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    frontier(Sweep((str(untrained),), "oracle", steps=(2, 4), top_p=(0.8, 1.0), num=8, data="markov"), out)
    output = capsys.readouterr().out
    assert "6 points, 0 of them already" in output
    assert "shuffled data (markov chain of" in output
    names = {"points", "frontier.csv", "frontier.json", "frontier.png", "frontier.html"}
    assert {path.name for path in out.iterdir()} == names
    assert len((out / "frontier.csv").read_text().splitlines()) == 7
    points = json.loads((out / "frontier.json").read_text())["points"]
    assert points[0]["data"].startswith("markov chain of")  # what --data names


def test_without_the_libraries_of_pictures_the_table_is_there(
    untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tokenloom.cli.frontier.find_spec", lambda name: None)
    frontier(Sweep((str(untrained),), "oracle", steps=(2,), top_p=(1.0,), num=2, data="markov"), tmp_path / "out")
    output = " ".join(capsys.readouterr().out.split())
    assert "perplexity at the data's entropy" in output
    assert 'no frontier.png: it needs pip install "tokenloom[evaluate]"' in output
    assert not list(tmp_path.glob("out/*.png"))


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
