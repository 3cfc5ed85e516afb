"""One point of a generative frontier: a model, a sampler with its settings, a seed and a judge; one file per point.

A point's file is named after everything that decides its content, weights and fitted grids included, and is written
whole: a sweep that was killed resumes with the points that are missing.
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from tokenloom.data.base import decoder_of, trained_on
from tokenloom.drawing.randomness import derive_seed, seeded
from tokenloom.evaluation.held_out import HeldOut, held_out
from tokenloom.evaluation.judges import Judge, check_judge, load_judge, rate
from tokenloom.evaluation.metrics import distinct
from tokenloom.models.opening import Run, open_run, placed
from tokenloom.models.store import outline
from tokenloom.samplers.options import SamplerOptions
from tokenloom.support.addresses import is_address, listing, version
from tokenloom.support.files import write_json
from tokenloom.support.reading import read_json

BATCH = 16

Origin = Literal["model", "data", "shuffled data"]
Record = dict[str, Any]

NUMBERS = (
    *("perplexity", "nats_per_token", "nats_error", "entropy", "entropy_error", "samples", "judged_tokens"),
    *("distinct_1", "distinct_2", "distinct_3", "evaluations", "seconds_per_sample", "length"),
)
"""Figures that every record must hold; null stands for a value that is not finite."""


@dataclass(frozen=True)
class Point:
    """Everything that decides a figure except the weights."""

    run: str
    judge: str
    source: Origin = "model"
    """Samples of the model; or, for comparison, held-out data, unchanged or with the tokens of each row shuffled."""
    data: str | None = None
    """Source of held-out data; None for what the run held out, and for samples of the model."""
    sampling: SamplerOptions = field(default_factory=SamplerOptions)
    seed: int = 0
    num: int = 64

    @property
    def family(self) -> str:
        """The curve that the point lies on: everything except temperature, top-p and seed."""
        if self.source != "model":
            return self.source
        grid = "" if self.sampling.grid == "auto" else f", {self.sampling.grid}"
        return f"{Path(self.run).name} {self.sampling.kernels}, {self.sampling.steps} steps{grid}"

    def file(self, folder: Path) -> Path:
        """Return the path of the point's record."""
        run, stamps = opened(self.run), [_stamp(self.judge), _stamp(self.data)]
        key = json.dumps([asdict(self), run.weights_digest, run.model.about.grids, *stamps], sort_keys=True)
        return folder / "points" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


def _stamp(name: str | None) -> list[tuple[str, int, int]]:
    """Return the files of a judge or of data with their sizes and times; none for a name."""
    if is_address(name):
        return [(version(listing(name)), 0, 0)]
    path = Path(name or "\0")
    files = sorted(path.rglob("*")) if os.path.isdir(path) else [path]
    found = [(file, file.stat()) for file in files if os.path.isfile(file)]
    return [(str(file), status.st_size, status.st_mtime_ns) for file, status in found]


@lru_cache(maxsize=8)
def opened(run: str) -> Run:
    """Open a run and keep it between points."""
    return placed(open_run(run))


@lru_cache(maxsize=1)
def judged_by(judge: str, run: str) -> Judge:
    """Load a judge and keep it between points."""
    return load_judge(judge, trained_on(opened(run).model))


@lru_cache(maxsize=2)
def data_of(run: str, source: str | None) -> HeldOut:
    """Read held-out data to compare with and keep it between points."""
    return held_out(opened(run), source)


def check_points(points: Sequence[Point]) -> None:
    """Raise, before a judge is loaded or anything is drawn, if a sampler cannot run a model, samples would not fit into
    memory, or the judge cannot read them."""
    for point in points:  # first by the configs alone: a large model takes long to load
        known = outline(point.run) if point.source == "model" else None
        if known is not None:
            point.sampling.sampler_value().check(known)
    for point in points:
        model = opened(point.run).model
        check_judge(point.judge, decoder_of(model))
        if point.source == "model":
            point.sampling.sampler_value().steps(model, 0)  # a run of no sequence makes all its checks
            point.sampling.check_memory(model, point.num, BATCH)


def run_points(points: Sequence[Point], folder: Path) -> list[Record]:
    """Measure the points that are missing, one after the other, and return all records."""
    return [evaluate_point(point, folder) for point in points]


def evaluate_point(point: Point, folder: Path, batch: int = BATCH) -> Record:
    """Return the record of a point, from its file or computed, `batch` samples at a time, and written."""
    path = point.file(folder)
    settings = asdict(point)
    settings |= settings.pop("sampling")
    kept = _kept(path, settings)
    if kept is not None:
        return kept
    run, start = opened(point.run), time.perf_counter()
    tokens, evaluations = _tokens(point, run, batch)
    seconds, decode = time.perf_counter() - start, decoder_of(run.model)
    record = settings | asdict(rate(judged_by(point.judge, point.run), tokens, decode)) | run.provenance()
    record |= {
        "family": point.family,
        "data": None if point.source == "model" else data_of(point.run, point.data).data.name,
        "distinct_1": distinct(tokens, 1),
        "distinct_3": distinct(tokens, min(3, tokens.shape[1])),
        "evaluations": evaluations,
        "seconds_per_sample": seconds / point.num,
        "length": tokens.shape[1],
        "examples": decode(tokens[:2]),
    }
    write_json(path, record)
    return record


def _kept(path: Path, settings: Record) -> Record | None:
    """Return the record of a point that was measured before; None if there is none or its file is damaged."""
    try:
        record: Any = read_json(path)
    except ValueError:  # absent or damaged
        return None
    own = settings.keys() - {"data", "judge"}  # in the record these two are the names of what was found
    same = isinstance(record, dict) and all(record.get(key) == settings[key] for key in own)
    kinds = dict.fromkeys(NUMBERS, int | float | None) | dict.fromkeys(("judge", "family", "model"), str)
    whole = same and all(key in record and isinstance(record[key], kind) for key, kind in kinds.items())
    return record if whole and isinstance(record.get("examples"), list) else None


def _tokens(point: Point, run: Run, batch: int) -> tuple[Tensor, float]:
    """Return the sequences of a point, and the network evaluations per sequence."""
    if point.source != "model":
        rows = data_of(point.run, point.data).data.valid
        generator = seeded(point.seed, "rows")
        chosen = rows[torch.randperm(len(rows), generator=generator)[: point.num]].long()
        if point.source == "shuffled data":
            chosen = chosen.gather(1, torch.rand(chosen.shape, generator=generator).argsort(1))
        return chosen, 0.0
    sampler, parts, evaluations = point.sampling.sampler_value(), [], 0
    for first in range(0, point.num, batch):
        seeds = [derive_seed(point.seed, "row", row) for row in range(point.num)[first : first + batch]]
        samples = sampler.run(run.model, len(seeds), generator=run.randomness(seeds))
        parts.append(samples.tokens.cpu())
        evaluations += int(samples.evaluations.sum())
    return torch.cat(parts), evaluations / point.num
