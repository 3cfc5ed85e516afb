r"""Generative frontiers: perplexity under a judge against entropy, over temperature, top-p, steps, samplers, models.

Lower perplexity is better only at equal entropy: repetitive samples are easy to predict.  So a curve (one model, one
sampler, one number of steps) is compared with another by its perplexity *at the entropy of the data*, interpolated
between its points, and a curve that only wins below that entropy gets a warning.
"""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Literal

from tokenloom.evaluation.points import Origin, Point, evaluate_point
from tokenloom.evaluation.spreading import spread
from tokenloom.samplers.options import SamplerOptions
from tokenloom.support.files import replacing, write_json

TOP_P = (0.80, 0.85, 0.90, 0.92, 0.94, 0.96, 0.98, 1.00)
TELLS_APART = 2.0
"""How many times the perplexity of data that of shuffled data is at least, under a judge that knows the language."""
STEPS = (8, 16, 32, 64, 128, 256, 512, 1024)
"""The paper's grids."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """All combinations of these."""

    runs: Sequence[str]
    judge: str
    samplers: Sequence[str] = ("ancestral",)
    correctors: Sequence[str] = ("none",)
    steps: Sequence[int] = STEPS
    temperatures: Sequence[float] = (1.0,)
    top_ps: Sequence[float] = TOP_P
    on: Literal["loo", "denoiser"] = "loo"
    seeds: Sequence[int] = (0,)
    num: int = 64
    data: str | None = None

    def points(self) -> list[Point]:
        """The points of held-out data, unchanged and shuffled, and the model's."""
        for name in ("runs", "samplers", "correctors", "steps", "temperatures", "top_ps", "seeds"):
            if not getattr(self, name):
                raise ValueError(f"a sweep without {name} has no points; name at least one")
        settings = [
            SamplerOptions(steps, sampler, corrector, temperature=temperature, top_p=top_p, on=self.on)
            for sampler, corrector, steps, temperature, top_p in product(
                self.samplers, self.correctors, self.steps, self.temperatures, self.top_ps
            )
        ]
        for setting in settings:
            setting.sampler_value()  # a wrong name or number is refused before anything is drawn
        ours = [
            Point(run, self.judge, "model", None, setting, seed, self.num)
            for run, setting, seed in product(self.runs, settings, self.seeds)
        ]
        origins: tuple[Origin, ...] = ("data", "shuffled data")
        first, *_ = self.runs
        return [*(Point(first, self.judge, origin, self.data, num=self.num) for origin in origins), *ours]


def run_points(points: Sequence[Point], folder: Path, done: Callable[[Record], None]) -> list[Record]:
    """Measure what is missing, here, one after the other."""
    records = []
    for point in points:
        records.append(evaluate_point(point, folder))
        done(records[-1])
    return records


def submit_points(points: Sequence[Point], folder: Path, workers: int, cluster: str) -> list[Any]:
    """Spread what is missing over processes on this machine (`local`) or jobs of a Slurm cluster (`slurm`)."""
    missing = [point for point in points if not point.file(folder).is_file()]
    return spread(partial(_work, folder=folder), missing, folder / "jobs", workers, cluster)


def _work(points: Sequence[Point], folder: Path) -> int:
    return len(run_points(points, folder, lambda record: None))


def nats_at_entropy(records: Iterable[Mapping[str, Any]], entropy: float) -> float | None:
    """A curve's nats per token at an entropy, linear between its points; None outside them."""
    points = sorted((record["entropy"], record["nats_per_token"]) for record in records)
    for (left, low), (right, high) in pairwise(points):
        if left <= entropy <= right:
            share = 0.0 if right == left else (entropy - left) / (right - left)
            return float(low + share * (high - low))
    return None


def at_entropy(records: Iterable[Record], entropy: float) -> float | None:
    """A curve's perplexity at an entropy; None outside its points."""
    nats = nats_at_entropy(records, entropy)
    return None if nats is None else math.exp(nats)


def curves(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The model's records by family."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record["source"] == "model":
            found.setdefault(record["family"], []).append(record)
    return found


def data_entropy(records: Sequence[Record]) -> float | None:
    """The mean unigram entropy of held-out rows."""
    return next((record["entropy"] for record in records if record["source"] == "data"), None)


def matched(records: Sequence[Record]) -> list[tuple[str, float | None, float]]:
    """Each curve with its perplexity at the data's entropy (None where it does not reach it) and its lowest."""
    entropy = data_entropy(records)
    rows = [
        (
            family,
            None if entropy is None else at_entropy(members, entropy),
            min(record["perplexity"] for record in members),
        )
        for family, members in curves(records).items()
    ]
    return sorted(rows, key=lambda row: (row[1] is None, row[1] or row[2]))


def warnings(records: Sequence[Record]) -> list[str]:
    """What the figures do not say: a judge that cannot tell, and curves that win only by poorer samples."""
    return _blind_judge(records) + _poor_winner(records)


def _blind_judge(records: Sequence[Record]) -> list[str]:
    """A judge to whom the order of the tokens hardly matters."""
    found = {record["source"]: record["perplexity"] for record in records if record["source"] != "model"}
    data, shuffled = found.get("data"), found.get("shuffled data")
    if data is None or shuffled is None or shuffled >= TELLS_APART * data:
        return []
    return [
        f"the judge gives shuffled data perplexity {shuffled:.1f} and data {data:.1f}, so it hardly tells them apart: "
        "its figures say little about these samples; name another --judge"
    ]


def _poor_winner(records: Sequence[Record]) -> list[str]:
    """Curves whose lowest perplexity is the lowest of all, but only where their samples are poorer than the data."""
    entropy, found = data_entropy(records), curves(records)
    if entropy is None or not found:
        return []
    sentences = []
    best = min(found, key=lambda family: min(record["perplexity"] for record in found[family]))
    lowest = min(found[best], key=lambda record: record["perplexity"])
    at_data = {family: at_entropy(members, entropy) for family, members in found.items()}
    known = {family: value for family, value in at_data.items() if value is not None}
    winner = min(known, key=lambda family: known[family]) if known else None
    if lowest["entropy"] < entropy and winner != best:
        sentences.append(
            f"{best} has the lowest perplexity, {lowest['perplexity']:.1f}, only at entropy {lowest['entropy']:.2f}, "
            f"below the data's {entropy:.2f}"
            + ("" if winner is None else f"; at the data's entropy {winner} is best with {known[winner]:.1f}")
        )
    return sentences


def write_table(records: Sequence[Record], folder: Path) -> None:
    """All records as CSV, one row per point, and as JSON with examples, comparison and warnings."""
    names = sorted({key for record in records for key in record if key != "examples"})
    with replacing(folder / "frontier.csv") as unfinished, unfinished.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(records)
    summary = {"points": list(records), "matched": matched(records), "warnings": warnings(records)}
    write_json(folder / "frontier.json", summary)
