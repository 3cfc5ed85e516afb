"""Quality against diversity: nats per token under a judge and unigram entropy, over one knob of a sampler.

All points of all curves have the same number of network evaluations, counted (`budget.py`).  The judge of Markov data
is its exact likelihood; that of stories an autoregressive network with four times the width of the others'.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from evidence.measures.base import Measure, opened
from evidence.measures.budget import counted_on, spending
from evidence.runs import Place, Run
from tokenloom.evaluation.points import Point, evaluate_point
from tokenloom.samplers.options import SamplerOptions

BATCH = 256
TOP_P = (0.80, 0.85, 0.90, 0.92, 0.94, 0.96, 0.98, 1.00)
"""The paper's grid."""
TEMPERATURE = (0.60, 0.70, 0.80, 0.86, 0.92, 0.98, 1.04, 1.10)
"""The paper's range, 0.8 to 1.1, and below it, where correctors lead."""
SELECTION = (0.0, 1.0)
"""Temperatures at which an informed corrector chooses its positions: the paper's algorithm, and its code."""
PARALLEL = (1, 2, 4)
"""Positions that a corrector step redraws, k."""
CORRECTIONS = (1, 2)
"""Corrector steps after each step of the sampler, m."""


def _options(**chosen: Any) -> SamplerOptions:
    return SamplerOptions(grid="uniform", **chosen)


def _temperatures(
    sampler: str = "ancestral", on: Literal["loo", "denoiser"] = "loo", grid: str = "uniform"
) -> Sequence[SamplerOptions]:
    return [SamplerOptions(sampler=sampler, temperature=value, on=on, grid=grid) for value in TEMPERATURE]


def _top_ps(on: Literal["loo", "denoiser"]) -> Sequence[SamplerOptions]:
    return [_options(top_p=value, on=on) for value in TOP_P]


def _correctors(text: str, *values: Sequence[Any]) -> Sequence[SamplerOptions]:
    return [_options(corrector=text.format(*chosen)) for chosen in product(*values)]


CURVES: dict[str, Sequence[SamplerOptions]] = {
    "temperature": _temperatures(),
    "temperature on the denoiser": _temperatures(on="denoiser"),
    "temperature, power:1.5": _temperatures(grid="power:1.5"),
    "top-p on the leave-one-out posterior": _top_ps("loo"),
    "top-p on the denoiser": _top_ps("denoiser"),
    "informed corrector": _correctors("informed:steps={},parallel={},temperature={}", CORRECTIONS, PARALLEL, SELECTION),
    "random scan": _correctors("random-scan:steps={},parallel={}", CORRECTIONS, PARALLEL),
    "balanced corrector": _correctors("balanced:parallel=true,time={}", (0.5, 1, 2, 4)),
    "mudm with redrawn times": _temperatures("mudm:resample=true"),
    "mudm": _temperatures("mudm"),
    "remasking": _temperatures("remasking"),
}
BUDGETS = (6, 16, 32, 48, 64, 128, 256)
KEPT = ("sampler", "corrector", "temperature", "top_p", "on", "grid", "entropy", "entropy_error", "nats_per_token",
        "nats_error", "distinct_2", "steps", "evaluations")  # fmt: skip


def curve_name(curve: str, budget: int) -> str:
    """The name of the measure of a curve at a budget of evaluations."""
    return f"curve: {curve}, {budget} evaluations"


@dataclass(frozen=True)
class Curve(Measure):
    """The points of a curve, and the held-out data under the same judge, as they are and with their tokens shuffled."""

    curve: str = ""
    budget: int = 0

    def _points(self, place: Place) -> Sequence[SamplerOptions]:
        points = CURVES[self.curve]
        return points if place.scale == "full" else points[:: len(points) - 1]

    def settings(self, run: Run, place: Place) -> dict[str, Any]:
        kernels = [[item.kernels, item.temperature, item.top_p, item.on, item.grid] for item in self._points(place)]
        return {
            "samples": place.setting(run.setting).samples,
            "evaluations": place.budget(self.budget),
            "points": kernels,
        }

    def of(self, run: Run, place: Place) -> dict[str, Any]:
        chosen, folder = place.setting(run.setting), place.folder / "points"
        judge = str(place.run_folder(Run("stories", "judge", 1))) if run.setting == "stories" else "oracle"
        name, counted = str(place.run_folder(run)), counted_on(opened(run, place).model)
        sampled = [spending(item, place.budget(self.budget), counted) for item in self._points(place)]
        points = [Point(name, judge, sampling=item, seed=run.seed, num=chosen.samples) for item in sampled]
        held_out = [Point(name, judge, source, num=min(chosen.scored, 512)) for source in ("data", "shuffled data")]
        records = [evaluate_point(point, folder, BATCH) for point in (*points, *held_out)]
        *kept, data, shuffled = [{key: record[key] for key in KEPT} for record in records]
        beside = ("entropy", "nats_per_token", "nats_error")
        return {
            "points": kept,
            "data": {key: data[key] for key in beside},
            "shuffled": {key: shuffled[key] for key in beside},
        }
