"""One point of a generative frontier: a model, a sampler with its settings, a seed and a judge; one file a point.

A point's file is named after everything that decides its content, the weights included, and is written under a
temporary name and renamed: a sweep that was killed goes on with the points that are missing.
"""

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from tokenloom import __version__
from tokenloom.data.base import Dataset, Decode
from tokenloom.data.text import RowDecoder
from tokenloom.evaluation.judges import Judge, load_judge, rate
from tokenloom.evaluation.metrics import distinct
from tokenloom.evaluation.records import write_whole
from tokenloom.evaluation.runs import Run, model_folder, open_run
from tokenloom.posteriors import Denoiser, LeaveOneOut
from tokenloom.randomness import RowGenerators, derive_seed
from tokenloom.samplers import run_sampler
from tokenloom.training.build import build_data
from tokenloom.truncation import Truncation

BATCH = 16

Source = Literal["model", "data", "shuffled data"]


@dataclass(frozen=True)
class Point:
    """Everything that decides a figure but the weights."""

    run: str
    judge: str
    source: Source = "model"
    """Samples of the model; or, for comparison, held-out data, as it is or with the tokens of each row shuffled."""
    sampler: str = "ancestral"
    corrector: str | None = None
    steps: int = 128
    temperature: float = 1.0
    top_p: float = 1.0
    on: Literal["loo", "denoiser"] = "loo"
    seed: int = 0
    num: int = 64

    @property
    def family(self) -> str:
        """What a curve is drawn through: everything but temperature, top-p and seed."""
        if self.source != "model":
            return self.source
        corrected = "" if self.corrector is None else f" + {self.corrector}"
        return f"{Path(self.run).name} {self.sampler}{corrected}, {self.steps} steps"

    def file(self, folder: Path) -> Path:
        """Where its record lies."""
        key = json.dumps([asdict(self), weights_digest(self.run)], sort_keys=True)
        return folder / "points" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


@lru_cache(maxsize=8)
def weights_digest(run: str) -> str:
    """What tells one model's weights from another's."""
    folder = model_folder(run)
    if folder is None:
        raise ValueError(f"{run} is no run: neither it nor its model/ has config.json and model.safetensors")
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@lru_cache(maxsize=4)
def opened(run: str) -> Run:
    """A run, kept open between points."""
    return open_run(run)


@lru_cache(maxsize=1)
def judged_by(judge: str, run: str) -> Judge:
    """A judge, kept between points."""
    return load_judge(judge, opened(run).data)


@lru_cache(maxsize=2)
def held_out(run: str) -> Dataset:
    """The data a run was trained on."""
    data = opened(run).data
    if data is None:
        raise ValueError(f"{run} does not say what it was trained on, so there is no held-out data to compare with")
    return build_data(data)


def decoder(run: Run) -> Decode:
    """Tokens as text; as numbers where there is no tokenizer."""
    if run.tokenizer is not None:
        return RowDecoder(run.tokenizer)
    return lambda tokens: [" ".join(str(token) for token in row) for row in tokens.tolist()]


def measure(point: Point, folder: Path) -> dict[str, Any]:
    """The record of a point, from its file or computed and written."""
    path = point.file(folder)
    if path.is_file():
        record: dict[str, Any] = json.loads(path.read_text())
        return record
    run, start = opened(point.run), time.perf_counter()
    tokens, evaluations = _tokens(point, run)
    seconds = time.perf_counter() - start
    rating = rate(judged_by(point.judge, point.run), tokens, decoder(run))
    record = (
        asdict(point)
        | asdict(rating)
        | {
            "family": point.family,
            "distinct_1": distinct(tokens, 1),
            "distinct_3": distinct(tokens, min(3, tokens.shape[1])),
            "evaluations": evaluations,
            "seconds_per_sample": seconds / point.num,
            "length": tokens.shape[1],
            "process": type(run.model.process).__name__,
            "predicts": run.model.predicts.__name__,
            "weights_sha256": weights_digest(point.run),
            "trained_steps": run.step,
            "tokenloom": __version__,
            "torch": torch.__version__,
            "examples": decoder(run)(tokens[:2]),
        }
    )
    write_whole(path, lambda partial: partial.write_text(json.dumps(record, indent=2)))
    return record


def _tokens(point: Point, run: Run) -> tuple[Tensor, float]:
    """Sequences, and network evaluations of each."""
    if point.source != "model":
        rows = held_out(point.run).valid
        generator = torch.Generator().manual_seed(derive_seed(point.seed, "rows"))
        chosen = rows[torch.randperm(len(rows), generator=generator)[: point.num]].long()
        if point.source == "shuffled data":
            order = torch.rand(chosen.shape, generator=generator).argsort(1)
            chosen = chosen.gather(1, order)
        return chosen, 0.0
    on = LeaveOneOut if point.on == "loo" else Denoiser
    truncation = Truncation(point.temperature, point.top_p, on=on)
    parts, evaluations = [], 0
    for first in range(0, point.num, BATCH):
        size = min(BATCH, point.num - first)
        samples = run_sampler(
            run.model,
            size,
            None,
            point.steps,
            point.sampler,
            point.corrector,
            None if truncation == Truncation(on=on) else truncation,
            generator=RowGenerators([derive_seed(point.seed, "row", first + row) for row in range(size)]),
        )
        parts.append(samples.tokens)
        evaluations += int(samples.evaluations.sum())
    return torch.cat(parts), evaluations / point.num
