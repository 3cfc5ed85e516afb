r"""Generative frontiers: perplexity under a judge against entropy, over temperature, top-p, steps, samplers, models.

Lower perplexity is better only at equal entropy: repetitive samples are easy to predict.  So a curve (one model, one
sampler, one number of steps) is compared with another by its perplexity *at the entropy of the data*, interpolated
between its points, and a curve that only wins below that entropy gets a warning.
"""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from tokenloom.evaluation.points import Origin, Point, Record
from tokenloom.samplers.options import CORRECTOR, GRID, ON, SAMPLER, STEPS, SamplerOptions
from tokenloom.support.checks import check_least
from tokenloom.support.files import replacing, write_json

TOP_P = (0.80, 0.85, 0.90, 0.92, 0.94, 0.96, 0.98, 1.00)  # the paper's grids
BUDGETS = (8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Sweep:
    """All combinations of runs, samplers, correctors, steps, grids, temperatures, top-p and seeds."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Run folders, model folders or names of bundled models."""
    judge: str = "smollm2"
    """smollm2, a Hugging Face folder, a GGUF file, a Hub name such as gpt2-large, an autoregressive run, or oracle."""
    samplers: Annotated[tuple[str, ...], SAMPLER] = ("ancestral",)
    correctors: Annotated[tuple[str, ...], CORRECTOR] = ("none",)
    steps: Annotated[tuple[int, ...], STEPS] = BUDGETS
    grids: Annotated[tuple[str, ...], GRID] = ("auto",)
    top_p: tuple[float, ...] | None = None
    """By default the paper's grid, or 1 where temperatures are given."""
    temperature: tuple[float, ...] | None = None
    """By default 1."""
    on: Annotated[Literal["loo", "denoiser"], ON] = "loo"
    seeds: tuple[int, ...] = (0,)
    """Seeds of the samples; each makes a point of its own at every setting."""
    num: int = 64
    """Samples per point."""
    data: str | None = None
    """Held-out data to compare with: a path, a Hub name or a kind such as markov; by default what the first run held
    out."""

    def __post_init__(self) -> None:
        for name in ("runs", "samplers", "correctors", "steps", "grids", "seeds"):
            if not getattr(self, name):
                raise ValueError(f"a sweep without {name} has no points; name at least one")
        check_least(self, num=2)  # an error needs two samples

    def points(self) -> list[Point]:
        """Return the points of held-out data, unchanged and shuffled, then those of the models."""
        temperatures = self.temperature or (1.0,)
        top_ps = self.top_p or ((1.0,) if self.temperature else TOP_P)
        every = product(self.samplers, self.correctors, self.steps, self.grids, temperatures, top_ps)
        settings = [
            SamplerOptions(steps, sampler, corrector, temperature=temperature, top_p=top_p, on=self.on, grid=grid)
            for sampler, corrector, steps, grid, temperature, top_p in every
        ]
        for setting in settings:
            setting.sampler_value()  # a wrong name or number is refused before anything is drawn
        drawn = product(self.runs, settings, self.seeds)
        ours = [Point(run, self.judge, "model", None, setting, seed, self.num) for run, setting, seed in drawn]
        origins: tuple[Origin, ...] = ("data", "shuffled data")
        return [*(Point(self.runs[0], self.judge, origin, self.data, num=self.num) for origin in origins), *ours]


def nats_at_entropy(records: Iterable[Mapping[str, Any]], entropy: float) -> float | None:
    """Interpolate a curve's nats per token linearly at an entropy; None outside its points."""
    entropies, values = zip(*sorted((record["entropy"], record["nats_per_token"]) for record in records), strict=True)
    nats = float(np.interp(entropy, entropies, values, left=math.nan, right=math.nan))
    return None if math.isnan(nats) else nats


def curves(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group the models' records by family, each in the order of entropy."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record["source"] == "model":
            found.setdefault(record["family"], []).append(record)
    return {family: sorted(members, key=lambda record: float(record["entropy"])) for family, members in found.items()}


def data_entropy(records: Sequence[Record]) -> float:
    """Return the mean unigram entropy of held-out rows."""
    return next(float(record["entropy"]) for record in records if record["source"] == "data")


def matched(records: Sequence[Record]) -> list[tuple[str, float | None, float]]:
    """Rank the curves by their perplexity at the data's entropy (None where not reached), each with its lowest."""
    rows = []
    for family, members in curves(records).items():
        nats = nats_at_entropy(members, data_entropy(records))
        lowest = min(record["perplexity"] for record in members)
        rows.append((family, None if nats is None else math.exp(nats), lowest))
    return sorted(rows, key=lambda row: (row[1] is None, row[1] or row[2]))


def warnings(records: Sequence[Record]) -> list[str]:
    """Warn of a judge that cannot tell data from shuffled data, and of a curve that wins only at low entropy."""
    sentences = []
    found = {record["source"]: record["perplexity"] for record in records if record["source"] != "model"}
    data, shuffled = found["data"], found["shuffled data"]
    if shuffled < 2 * data:  # a judge that knows the language gives shuffled data a far larger one
        sentences.append(
            f"the judge gives shuffled data perplexity {shuffled:.1f} and data {data:.1f}, so it hardly tells them "
            "apart: its figures say little about these samples; name another --judge"
        )
    entropy, (winner, at_data, _) = data_entropy(records), matched(records)[0]
    lowest = min((item for item in records if item["source"] == "model"), key=lambda item: item["perplexity"])
    if lowest["entropy"] < entropy and (at_data is None or lowest["family"] != winner):
        sentences.append(
            f"{lowest['family']} has the lowest perplexity, {lowest['perplexity']:.1f}, only at entropy "
            f"{lowest['entropy']:.2f}, below the data's {entropy:.2f}"
            + ("" if at_data is None else f"; at the data's entropy {winner} is best with {at_data:.1f}")
        )
    return sentences


def write_table(records: Sequence[Record], folder: Path) -> None:
    """Write all records as CSV, one row per point, and as JSON with examples, comparison and warnings."""
    names = sorted({key for record in records for key in record if key != "examples"})
    with replacing(folder / "frontier.csv") as unfinished, unfinished.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(records)
    summary = {"points": list(records), "matched": matched(records), "warnings": warnings(records)}
    write_json(folder / "frontier.json", summary)
