"""`tokenloom bench peers`: every sampler runs, and the stored result is of the same ones."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import bench_peers, step_costs
from benchmarks.bench_correctors import seeded
from benchmarks.schedulers import DISCRETE_DDIM, KINDS, SAMPLERS, Setting
from tests.cli.helpers import Shell

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*:DeprecationWarning")  # what transformers imports
STORED: dict[str, Any] = json.loads((Path(bench_peers.__file__).parent / "results" / "peers.json").read_text())
THEIRS, OURS = SAMPLERS["diffusers"], SAMPLERS["tokenloom"]


@pytest.fixture
def packages() -> None:
    """They take seconds to import, and diffusers needs Python 3.11."""
    pytest.importorskip("diffusers", reason="the extra diffusers is not installed")
    pytest.importorskip("transformers", reason="the extra diffusers is not installed")


@pytest.mark.usefixtures("packages")
def test_a_leave_one_out_network_is_off_under_their_scheduler_and_not_under_ours() -> None:
    def off(build: Any, predicts: str) -> float:
        return bench_peers.distance_to_law(build, predicts, rows=4000, steps=16)

    assert off(THEIRS[DISCRETE_DDIM], "leave-one-out") > 0.1
    assert max(off(OURS["ancestral"], kind) for kind in KINDS) < 0.05
    assert off(THEIRS[DISCRETE_DDIM], "denoiser") < 0.05


@pytest.mark.usefixtures("packages")
def test_transformers_sampler_ends_with_the_most_probable_tokens() -> None:
    (build,) = SAMPLERS["transformers"].values()
    logits, tokens = torch.randn(2, 5, 7, generator=seeded(0)), torch.zeros(2, 5, dtype=torch.int64)
    driven = build(Setting(vocab=7, length=5, steps=3))
    with torch.random.fork_rng(devices=[]):
        first, last = (driven.step(logits, index, tokens, seeded(0)) for index in (0, 2))
    assert torch.equal(last, logits.argmax(-1))
    assert not torch.equal(first, last)


@pytest.mark.usefixtures("packages", "as_a_user")
def test_a_small_run_measures_law_and_cost_of_every_sampler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench_peers, "CASES", ((60, 8),))
    monkeypatch.setattr(step_costs, "GRID", 8)
    bench_peers.main(rows=50, steps=2, rounds=1, out=tmp_path / "kept.json")
    found = json.loads((tmp_path / "kept.json").read_text())
    assert names(found["law"]["rows"]) == names(STORED["law"]["rows"])
    assert [case["law"] for case in found["cost"]["cases"]] == list(step_costs.SHAPES)
    for case in found["cost"]["cases"]:
        assert case["rounds"] == 1
        for row in case["rows"]:
            assert row["last"]["predicted"] == 1
            lazy = row["name"].startswith("ancestral")
            assert (row["mean"]["predicted"] < 1) == lazy
            assert all(0 < row[part]["ratio"]["low"] <= row[part]["ratio"]["high"] for part in ("middle", "mean"))
    peaked, flat = found["cost"]["cases"]
    assert peaked["kept"] <= step_costs.RAISED < flat["kept"]


def names(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["package"], row["name"]) for row in rows]


def test_what_is_stored_is_of_the_samplers_and_sizes_of_today() -> None:
    every = [(package, name) for package, samplers in SAMPLERS.items() for name in samplers]
    assert names(STORED["law"]["rows"]) == every
    timed = [(each.package, each.name) for each in step_costs.timed()]
    cases = STORED["cost"]["cases"]
    assert [((case["vocab"], case["length"]), case["law"]) for case in cases] == list(
        product(step_costs.CASES, step_costs.SHAPES)
    )
    assert all(names(case["rows"]) == timed for case in cases)


def test_ours_keep_the_law_of_either_network_and_theirs_of_a_denoiser() -> None:
    rows = {row["name"]: row for row in STORED["law"]["rows"]}
    limit = 1.5 * STORED["law"]["chance"]["quantile"]  # the grid adds its error to chance
    for name in OURS:
        if not rows[name]["heuristic"]:
            assert max(rows[name][kind] for kind in KINDS) < limit, name
    assert rows[DISCRETE_DDIM]["denoiser"] < limit
    assert rows[DISCRETE_DDIM]["leave-one-out"] > 10 * limit


@pytest.mark.parametrize("option", ["rows", "steps", "rounds", "threads"])
def test_a_number_below_one_gets_a_sentence(option: str, shell: Shell) -> None:
    assert "threads must be at least 1, got" in shell.refusal("bench", "peers", f"--{option}", "0")
