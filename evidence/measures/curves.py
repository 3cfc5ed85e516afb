"""Quality against diversity: nats per token under a judge and unigram entropy, over one knob of a sampler.

The judge of Markov data is its exact likelihood; that of text8 the autoregressive network of the first seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from evidence.measures.base import Measure
from evidence.runs import Place, Run
from tokenloom.evaluation.points import Point, evaluate_point
from tokenloom.samplers.options import SamplerOptions

BATCH = 256
TOP_P = (0.5, 0.65, 0.8, 0.9, 1.0)
TEMPERATURE = (0.4, 0.55, 0.7, 0.85, 1.0, 1.1)
AMOUNTS = (0.02, 0.05, 0.1, 0.2)
PARALLEL = {"markov": (1, 2, 4), "text8": (1, 4, 8)}
"""Positions that a corrector step redraws, k; the paper has up to 16 of 1,024."""
CORRECTIONS = (1, 2)
"""Corrector steps after each step of the sampler, m."""

Points = Callable[[str, int], Sequence[SamplerOptions]]


def _temperatures(sampler: str) -> Points:
    return lambda setting, steps: [
        SamplerOptions(steps, sampler, temperature=value, grid="uniform") for value in TEMPERATURE
    ]


def _top_ps(on: Any) -> Points:
    return lambda setting, steps: [SamplerOptions(steps, top_p=value, on=on, grid="uniform") for value in TOP_P]


def _gibbs(corrector: str) -> Points:
    return lambda setting, steps: [
        SamplerOptions(steps, corrector=f"{corrector}:steps={m},parallel={k}", grid="uniform")
        for m, k in product(CORRECTIONS, PARALLEL[setting])
    ]


def _forward_backward(setting: str, steps: int) -> Sequence[SamplerOptions]:
    return [SamplerOptions(steps, corrector=f"forward-backward:amount={value}", grid="uniform") for value in AMOUNTS]


CURVES: dict[str, Points] = {
    "temperature": _temperatures("ancestral"),
    "top-p on the leave-one-out posterior": _top_ps("loo"),
    "top-p on the denoiser": _top_ps("denoiser"),
    "informed corrector": _gibbs("informed"),
    "random scan": _gibbs("random-scan"),
    "forward-backward": _forward_backward,
    "mudm with redrawn times": _temperatures("mudm:resample=true"),
    "mudm": _temperatures("mudm"),
    "remasking": _temperatures("remasking"),
}
KEPT = ("sampler", "corrector", "temperature", "top_p", "on", "entropy", "entropy_error", "nats_per_token",
        "nats_error", "distinct_2", "evaluations")  # fmt: skip


@dataclass(frozen=True)
class Curve(Measure):
    """The points of a curve, and the held-out data under the same judge."""

    curve: str = ""

    def _options(self, run: Run, place: Place) -> Sequence[SamplerOptions]:
        chosen = place.setting(run.setting)
        points = CURVES[self.curve](run.setting, chosen.evaluations[-1])
        return points if place.scale == "full" else points[:: max(1, len(points) - 1)]

    def settings(self, run: Run, place: Place) -> dict[str, Any]:
        chosen, options = place.setting(run.setting), self._options(run, place)
        kernels = [[item.kernels, item.temperature, item.top_p, item.on] for item in options]
        return {"samples": chosen.samples, "evaluations": chosen.evaluations[-1], "points": kernels}

    def of(self, run: Run, place: Place) -> dict[str, Any]:
        chosen, folder = place.setting(run.setting), place.folder / "points"
        judge = "oracle" if run.setting == "markov" else str(place.run_folder(Run(run.setting, "ar", 1)))
        name = str(place.run_folder(run))
        points = [
            Point(name, judge, sampling=item, seed=run.seed, num=chosen.samples) for item in self._options(run, place)
        ]
        data = Point(name, judge, "data", num=min(chosen.scored, 512))
        records = [evaluate_point(point, folder, BATCH) for point in (data, *points)]
        kept = [{key: record[key] for key in KEPT} for record in records]
        return {"points": kept[1:], "data": {key: kept[0][key] for key in ("entropy", "nats_per_token", "nats_error")}}
