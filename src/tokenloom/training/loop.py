"""The training loop, on one process or many (Lightning Fabric), and never a lost step.

A run is a folder: config.json, metrics.jsonl, checkpoints/ (the newest two, each complete), best/ and, at the end,
model/ (the averaged weights, for `tokenloom.load`).  Interrupting it (Ctrl-C, SIGTERM) writes a checkpoint first.
A disk that refuses does not end it: it says so, trains on and tries again.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tokenloom.data.base import Dataset
from tokenloom.models.checkpoint import Checkpoint, write_checkpoint
from tokenloom.models.model import DiffusionModel
from tokenloom.models.network import unwrapped
from tokenloom.models.store import save_model
from tokenloom.objectives.likelihood import Likelihood, Workers
from tokenloom.support.files import write_json
from tokenloom.support.temporary import tidy
from tokenloom.support.words import counted
from tokenloom.training.batches import training_batch
from tokenloom.training.build import objective_of
from tokenloom.training.clock import Clock, ended
from tokenloom.training.config import TrainConfig
from tokenloom.training.fitting import fitted
from tokenloom.training.lock import locked
from tokenloom.training.ranges import check_batch
from tokenloom.training.reporting import Reporter
from tokenloom.training.setup import Learner, launch
from tokenloom.training.sharding import gather, whole
from tokenloom.training.snapshot import find_checkpoint, tensors_of
from tokenloom.training.stopping import Stopping
from tokenloom.training.validation import each_process, validate

PATIENCE = 5
"""Steps in a row whose loss is not finite before the run stops."""


@dataclass(frozen=True)
class Result:
    """What a run reached."""

    steps: int
    resumed_at: int
    """The step this part of the run began at; `minutes` counts from there."""
    tokens: int
    minutes: float
    figures: dict[str, Likelihood]
    """The bound, by the name of the process; of several for a network that serves several."""
    entropy: float | None
    parameters: int
    network: str
    """The kind of network."""
    predicts: str
    """What it predicts."""
    folder: Path
    stopped_by: int | None = None
    """The signal that ended it before its time, if one did."""

    @property
    def figure(self) -> Likelihood:
        """The bound under the process that the model is saved with."""
        return next(iter(self.figures.values()))


def train(config: TrainConfig, resume: bool, reporter: Reporter) -> Result | None:
    """Train as the (resolved) config says; `resume` continues from the newest intact checkpoint.

    None is returned, after a sentence, where the resumed run is finished already.
    """
    clock, fabric, folder = Clock(config.max_minutes), launch(config), Path(config.out or "")
    with locked(folder, fabric.global_rank, fabric.world_size):
        if fabric.is_global_zero:
            tidy(folder)
        return _train(config, resume, reporter, clock, fabric, folder)


def _train(
    config: TrainConfig, resume: bool, reporter: Reporter, clock: Clock, fabric: Any, folder: Path
) -> Result | None:
    """The same, in a folder that is locked."""
    check_batch(config, config.data.outline().length or 1, fabric.world_size)
    saved = find_checkpoint(folder, config, reporter) if resume else None
    if saved is not None:
        clock.before = 60 * float(saved.state.get("minutes", 0.0))
        over = ended(config, saved.step, clock.before / 60)
        if over is not None and saved.state["done"]:
            reporter.say(over)
            return None
    with reporter.doing("loading the data"):
        data = config.data.load()
    if saved is None:
        config = fitted(config, data, fabric, clock, reporter)
    with reporter.doing("building the network"):
        learner = Learner.build(config, data, fabric, saved)
    start, best = (0, math.inf) if saved is None else (saved.step, saved.state["best"])
    run = _Run(config, fabric, data, learner, folder, reporter, clock, best)
    with run.stopping.listening():
        return run.loop(start)


@dataclass
class _Run:
    """The state of a loop."""

    config: TrainConfig
    fabric: Any
    data: Dataset
    learner: Learner
    folder: Path
    reporter: Reporter
    clock: Clock
    best: float

    def __post_init__(self) -> None:
        self.objective, self.stopping = objective_of(self.config), Stopping(self.reporter.say)
        self.model, self.averaged, self.optimiser = self.learner.model, self.learner.averaged, self.learner.optimiser
        self.not_finite = 0
        self.refused: str | None = None
        self.latest: tuple[int, dict[str, Likelihood]] | None = None

    def loop(self, start: int) -> Result:
        config, step = self.config, start
        if self.fabric.is_global_zero:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / "config.json", config.record())
        with self.reporter.running(config, start, self.clock):
            while not self._finished(step, start):
                with self.clock.timing("step"):
                    self._take(step)
                step += 1
                if step % config.run.validate_every == 0:
                    self._validate(step)
                if step % config.run.checkpoint_every == 0:
                    self._save(step)
            figures = self._end(step)
        tokens = step * config.optimiser.batch * self.data.length
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        return Result(
            step, start, tokens, self.clock.here() / 60, figures, self.data.entropy, parameters,
            unwrapped(self.model.network).name,
            "the next token" if self.model.causal else str(config.predicts),
            self.folder, self.stopping.number,
        )  # fmt: skip

    def _end(self, step: int) -> dict[str, Likelihood]:
        """The last figure, model and checkpoint; only now does a disk that refuses end the run."""
        if self.stopping.number is not None:
            self._save(step)  # before the validation, in which a second signal may come
        self.refused = None
        figures = self.latest[1] if self.latest is not None and self.latest[0] == step else self._validate(step)
        self._save(step, done=self.stopping.number is None)
        if self.refused is not None:
            raise ValueError(self.refused)
        return figures

    def _take(self, step: int) -> None:
        """One optimiser step; a loss or gradient that is not finite is reported and skipped."""
        config, fabric = self.config, self.fabric
        size, seed = config.optimiser.batch, config.run.seed
        batch = training_batch(self.data, size, step, seed, config.floor, config.time_power)
        mine, pieces = config.optimiser.batch // fabric.world_size, config.optimiser.accumulate
        rate = self._rate(step)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        torch.manual_seed(config.run.seed * 1_000_003 + step * fabric.world_size + fabric.global_rank)  # dropout
        self.learner.root.train()
        total = torch.zeros((), device=fabric.device)
        for piece in range(pieces):
            begin = fabric.global_rank * mine + piece * mine // pieces
            end = fabric.global_rank * mine + (piece + 1) * mine // pieces
            part = batch.part(slice(begin, end))
            total += self.learner.backward(self.objective, part, fabric, last=piece + 1 == pieces)
        mean = float(fabric.all_reduce(total, reduce_op="mean"))
        clip = config.optimiser.clip
        norm = float(
            whole(fabric.clip_gradients(self.learner.root, self.optimiser, max_norm=clip, error_if_nonfinite=False))
        )
        if math.isfinite(mean) and math.isfinite(norm):
            self.optimiser.step()
            self.averaged.update_parameters(self.model)
            self.not_finite = 0
        else:
            self._report_not_finite(step, mean, norm)
        self.optimiser.zero_grad()
        self.reporter.step(step + 1, mean, rate, config.optimiser.batch * self.data.length)

    def _report_not_finite(self, step: int, loss: float, norm: float) -> None:
        self.not_finite += 1
        self.reporter.say(f"step {step}: the loss is {loss} and its gradient {norm}; the step is skipped")
        if self.not_finite >= PATIENCE:
            raise ValueError(
                f"the loss was not finite {PATIENCE} times in a row, last at step {step}; the run stops and "
                f"{self.folder / 'checkpoints'} holds the last good checkpoint; try a smaller --optimiser.lr"
            )

    def _rate(self, step: int) -> float:
        options = self.config.optimiser
        rate = options.lr * min(1.0, (step + 1) / max(1, options.warmup))
        return rate * (1 - self._progress(step)) if options.decay == "linear" else rate

    def _progress(self, step: int) -> float:
        """How much of the run is over; by steps where they are limited, else by the clock."""
        if self.config.max_steps is not None:
            return min(1.0, step / self.config.max_steps)
        return float(self.fabric.broadcast(self.clock.share()))  # clocks differ, and all must take the same step

    def _finished(self, step: int, start: int) -> bool:
        over = self.config.max_steps is not None and step >= self.config.max_steps
        if self.config.max_minutes is not None and step > start:
            rows = min(self.config.run.valid_rows, len(self.data.valid))
            over = over or self.clock.over(rows / self.config.optimiser.batch)
        return bool(self.fabric.broadcast(over or self.stopping.number is not None))

    def _validate(self, step: int) -> dict[str, Likelihood]:
        """The bound under each process; the model is saved with the first."""
        run, fabric = self.config.run, self.fabric
        add = partial(fabric.all_reduce, reduce_op="sum")
        workers = Workers(fabric.global_rank, fabric.world_size, add, self.learner.averaged_root)
        rows = min(run.valid_rows, len(self.data.valid))
        models = each_process(self.learner.averaged_root.model, self.learner.method)
        with self.reporter.doing(f"step {step:,}: validating {counted(rows, 'sequence')}"), self.clock.timing("figure"):
            figures = {
                model.process.name: validate(model, self.data, run.valid_rows, run.seed, workers) for model in models
            }
        self.reporter.validated(step, figures, self.data.entropy)
        records = [figure.record() for figure in figures.values()]
        several = {} if len(records) == 1 else {"processes": dict(zip(figures, records, strict=True))}
        model = models[0].describe(step=step, validation=records[0] | several)
        weights = gather(unwrapped(model.network).state_dict(), fabric.is_global_zero)
        mean = sum(figure.per_token for figure in figures.values()) / len(figures)
        self._write(step, partial(self._keep_model, model, weights, mean))
        self.latest = (step, figures)
        return figures

    def _keep_model(self, model: DiffusionModel, weights: dict[str, Tensor], figure: float) -> None:
        for name in ("best", "model") if figure < self.best else ("model",):
            save_model(model, self.folder / name, weights)
        self.best = min(self.best, figure)

    def _save(self, step: int, done: bool = False) -> None:
        """Write a checkpoint; the one of a run that is `done`, its model written, says so and that its time is used."""
        by_steps = self.config.max_steps is not None and step >= self.config.max_steps
        used = (self.config.max_minutes or 0.0) if done and not by_steps else 0.0
        tensors = tensors_of(self.model, self.averaged, self.optimiser, self.fabric.is_global_zero)
        state = {
            "best": self.best,
            "averaged": int(self.averaged.n_averaged),
            "rows_seen": step * self.config.optimiser.batch,
            "minutes": max(self.clock.minutes, used),
            "done": done,
            "config": self.config.record(),
        }
        with self.reporter.doing(f"step {step:,}: writing a checkpoint"), self.clock.timing("saving"):
            self._write(step, partial(write_checkpoint, self.folder / "checkpoints", Checkpoint(step, tensors, state)))
        self.fabric.barrier()

    def _write(self, step: int, work: Callable[[], object]) -> None:
        """Write on the first process; what the disk refuses is said, and tried again when its turn comes."""
        if not self.fabric.is_global_zero:
            return
        try:
            work()
        except (OSError, ValueError) as error:
            self.refused = str(error)
            self.reporter.say(f"step {step:,}: {error}; it is tried again at the next checkpoint or at the end")
