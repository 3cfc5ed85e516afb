"""One point of a generative frontier: a model, a sampler with its settings, a seed and a judge; one file per point.

A point's file is named after everything that decides its content, the weights included, and is written whole: a sweep
that was killed resumes with the points that are missing.
"""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from tokenloom.drawing.randomness import derive_seed
from tokenloom.evaluation.held_out import HeldOut, held_out
from tokenloom.evaluation.judges import Judge, check_judge, load_judge, rate
from tokenloom.evaluation.metrics import distinct
from tokenloom.evaluation.runs import Run, open_run, placed
from tokenloom.evaluation.sizes import check_sampling
from tokenloom.samplers.options import SamplerOptions
from tokenloom.support.files import write_json
from tokenloom.support.reading import read_json

BATCH = 16

Origin = Literal["model", "data", "shuffled data"]

NUMBERS = (
    *("perplexity", "nats_per_token", "nats_error", "entropy", "entropy_error", "samples", "judged_tokens"),
    *("distinct_1", "distinct_2", "distinct_3", "evaluations", "seconds_per_sample", "length"),
)
TEXTS = ("judge", "family", "model")
"""What tables and pictures ask of every record."""


@dataclass(frozen=True)
class Point:
    """Everything that decides a figure except the weights."""

    run: str
    judge: str
    source: Origin = "model"
    """Samples of the model; or, for comparison, held-out data, unchanged or with the tokens of each row shuffled."""
    data: str | None = None
    """Where held-out data comes from; None for what the run held out, and for samples of the model."""
    sampling: SamplerOptions = field(default_factory=SamplerOptions)
    seed: int = 0
    num: int = 64

    @property
    def family(self) -> str:
        """What a curve is drawn through: everything except temperature, top-p and seed."""
        if self.source != "model":
            return self.source
        return f"{Path(self.run).name} {self.sampling.kernels}, {self.sampling.steps} steps"

    def file(self, folder: Path) -> Path:
        """Where its record lies."""
        key = json.dumps([asdict(self), opened(self.run).weights_digest], sort_keys=True)
        return folder / "points" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


@lru_cache(maxsize=8)
def opened(run: str) -> Run:
    """A run, kept open between points."""
    return placed(open_run(run))


@lru_cache(maxsize=1)
def judged_by(judge: str, run: str) -> Judge:
    """A judge, kept between points."""
    return load_judge(judge, opened(run).source)


@lru_cache(maxsize=2)
def data_of(run: str, source: str | None) -> HeldOut:
    """Held-out data to compare with."""
    return held_out(opened(run), source)


def check_points(points: Sequence[Point]) -> None:
    """Raise before anything is drawn where samples would not fit into memory or the judge cannot read them."""
    for point in points:
        run = opened(point.run)
        check_judge(point.judge, run.decoder)
        if point.source == "model":
            check_sampling(run.model, point.num, BATCH, point.sampling.steps)


def evaluate_point(point: Point, folder: Path, batch: int = BATCH) -> dict[str, Any]:
    """The record of a point, from its file or computed, `batch` samples at a time, and written."""
    path = point.file(folder)
    settings: dict[str, Any] = {**asdict(point.sampling), **asdict(point)}
    del settings["sampling"]
    kept = _kept(path, settings)
    if kept is not None:
        return kept
    run, start = opened(point.run), time.perf_counter()
    tokens, evaluations = _tokens(point, run, batch)
    seconds = time.perf_counter() - start
    rating = rate(judged_by(point.judge, point.run), tokens, run.decoder)
    record = settings | asdict(rating) | run.provenance()
    record |= {
        "family": point.family,
        "data": None if point.source == "model" else data_of(point.run, point.data).name,
        "distinct_1": distinct(tokens, 1),
        "distinct_3": distinct(tokens, min(3, tokens.shape[1])),
        "evaluations": evaluations,
        "seconds_per_sample": seconds / point.num,
        "length": tokens.shape[1],
        "examples": run.decoder(tokens[:2]),
    }
    write_json(path, record)
    return record


def _kept(path: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The record of a point that was measured before; None where there is none, or where its file is damaged."""
    if not path.exists():
        return None
    try:
        record: Any = read_json(path)
    except ValueError:
        return None
    own = settings.keys() - {"data", "judge"}  # in the record these two are the names of what was found
    same = isinstance(record, dict) and all(record.get(key) == settings[key] for key in own)
    kinds = [(NUMBERS, int | float | None), (TEXTS, str), (("examples",), list)]  # null stands for what is not finite
    whole = same and all(key in record and isinstance(record[key], kind) for keys, kind in kinds for key in keys)
    return dict(record) if whole else None


def _tokens(point: Point, run: Run, batch: int) -> tuple[Tensor, float]:
    """Sequences, and network evaluations of each."""
    if point.source != "model":
        rows = data_of(point.run, point.data).rows
        generator = torch.Generator().manual_seed(derive_seed(point.seed, "rows"))
        chosen = rows[torch.randperm(len(rows), generator=generator)[: point.num]].long()
        if point.source == "shuffled data":
            order = torch.rand(chosen.shape, generator=generator).argsort(1)
            chosen = chosen.gather(1, order)
        return chosen, 0.0
    sampler, parts, evaluations = point.sampling.sampler_value(), [], 0
    for first in range(0, point.num, batch):
        rows_here = range(first, min(first + batch, point.num))
        seeds = [derive_seed(point.seed, "row", row) for row in rows_here]
        samples = sampler.run(run.model, len(seeds), generator=run.randomness(seeds))
        parts.append(samples.tokens.cpu())
        evaluations += int(samples.evaluations.sum())
    return torch.cat(parts), evaluations / point.num
