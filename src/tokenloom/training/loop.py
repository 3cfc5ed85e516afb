"""The training loop, on one process or many (Lightning Fabric), and never a lost step.

A run is a folder: config.json, metrics.jsonl, checkpoints/ (the newest two, each complete), best/ and, at the end,
model/ (the averaged weights, for `tokenloom.load`).  Interrupting it (Ctrl-C, SIGTERM) writes a checkpoint first.
"""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from tokenloom.data.base import Dataset
from tokenloom.models.checkpoint import Checkpoint, write_checkpoint
from tokenloom.models.model import DiffusionModel
from tokenloom.models.network import unwrapped
from tokenloom.models.store import save_model
from tokenloom.objectives.base import Objective
from tokenloom.objectives.head_loss import training_loss
from tokenloom.objectives.likelihood import Likelihood, Workers
from tokenloom.support.files import write_json
from tokenloom.training.batches import Batch, training_batch
from tokenloom.training.build import build_model, objective_of
from tokenloom.training.config import TrainConfig
from tokenloom.training.reporting import Reporter
from tokenloom.training.setup import adam, launch, place_average, warm_average
from tokenloom.training.sharding import Root, gather, whole
from tokenloom.training.snapshot import find_checkpoint, restore_moments, restore_weights, tensors_of
from tokenloom.training.validation import validate

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
    figure: Likelihood
    entropy: float | None
    parameters: int
    folder: Path


def train(config: TrainConfig, resume: bool, reporter: Reporter) -> Result:
    """Train as the (resolved) config says; `resume` continues from the newest intact checkpoint."""
    fabric = launch(config)
    pieces = fabric.world_size * config.optimiser.accumulate
    if config.optimiser.batch % pieces:
        raise ValueError(
            f"--optimiser.batch must be a multiple of processes x accumulate = {pieces}, got {config.optimiser.batch}"
        )
    folder = Path(config.out or "")
    data = config.data.load()
    with fabric.init_module():
        torch.manual_seed(config.run.seed)
        model = build_model(config, data)
    averaged = AveragedModel(model, multi_avg_fn=warm_average(config.optimiser.ema))
    saved = find_checkpoint(folder, reporter) if resume else None
    if saved is not None:
        if config.max_steps is not None and saved.step >= config.max_steps:
            reporter.say(f"the run is at step {saved.step}, past --max-steps {config.max_steps}: nothing to do")
        restore_weights(saved, model, averaged)
    root, averaged_root = fabric.setup_module(Root(model)), place_average(averaged, fabric)
    optimiser = fabric.setup_optimizers(adam(model, config))
    if saved is not None:
        restore_moments(saved, model, optimiser)
    start, best = (0, math.inf) if saved is None else (saved.step, saved.state["best"])
    run = _Run(config, fabric, data, model, averaged, optimiser, root, averaged_root, folder, reporter, best)
    with run.listening():
        return run.loop(start)


class _Run:
    """The state of a loop."""

    def __init__(
        self,
        config: TrainConfig,
        fabric: Any,
        data: Dataset,
        model: DiffusionModel,
        averaged: AveragedModel,
        optimiser: Any,
        root: Any,
        averaged_root: Root,
        folder: Path,
        reporter: Reporter,
        best: float,
    ) -> None:
        self.config, self.fabric, self.data, self.model = config, fabric, data, model
        self.averaged, self.optimiser, self.root, self.averaged_root = averaged, optimiser, root, averaged_root
        self.folder, self.reporter, self.best = folder, reporter, best
        self.objective = objective_of(config)
        self.started, self.not_finite, self.stopping = time.monotonic(), 0, False
        self.latest: tuple[int, Likelihood] | None = None

    def loop(self, start: int) -> Result:
        config, fabric = self.config, self.fabric
        if fabric.is_global_zero:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / "config.json", config.record())
        step = start
        with self.reporter.running(config, start):
            while not self._finished(step):
                self._take(step)
                step += 1
                if step % config.run.validate_every == 0:
                    self._validate(step)
                if step % config.run.checkpoint_every == 0:
                    self._save(step)
        figure = self.latest[1] if self.latest is not None and self.latest[0] == step else self._validate(step)
        self._save(step)
        minutes = (time.monotonic() - self.started) / 60
        tokens = step * config.optimiser.batch * self.data.length
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        return Result(step, start, tokens, minutes, figure, self.data.entropy, parameters, self.folder)

    def _take(self, step: int) -> None:
        """One optimiser step; a loss or gradient that is not finite is reported and skipped."""
        config, fabric = self.config, self.fabric
        batch = training_batch(self.data, config.optimiser.batch, step, config.run.seed, config.floor)
        mine, pieces = config.optimiser.batch // fabric.world_size, config.optimiser.accumulate
        rate = self._rate(step)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        torch.manual_seed(config.run.seed * 1_000_003 + step * fabric.world_size + fabric.global_rank)  # dropout
        self.root.train()
        total = torch.zeros((), device=fabric.device)
        for piece in range(pieces):
            begin = fabric.global_rank * mine + piece * mine // pieces
            end = fabric.global_rank * mine + (piece + 1) * mine // pieces
            part = batch.part(slice(begin, end))
            with fabric.no_backward_sync(self.root, enabled=piece + 1 < pieces):
                loss = self.root(partial(_mean_loss, self.objective, part)) * fabric.world_size
                fabric.backward(loss)
            total += loss.detach()
        mean = float(fabric.all_reduce(total, reduce_op="mean"))
        clip = config.optimiser.clip
        norm = float(whole(fabric.clip_gradients(self.root, self.optimiser, max_norm=clip, error_if_nonfinite=False)))
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
        assert self.config.max_minutes is not None
        share = min(1.0, (time.monotonic() - self.started) / 60 / self.config.max_minutes)
        return float(self.fabric.broadcast(share))  # clocks differ, and all processes must take the same step

    def _finished(self, step: int) -> bool:
        over = self.config.max_steps is not None and step >= self.config.max_steps
        if self.config.max_minutes is not None:
            over = over or (time.monotonic() - self.started) / 60 >= self.config.max_minutes
        return bool(self.fabric.broadcast(over or self.stopping))

    def _validate(self, step: int) -> Likelihood:
        run, fabric = self.config.run, self.fabric
        add = partial(fabric.all_reduce, reduce_op="sum")
        workers = Workers(fabric.global_rank, fabric.world_size, add, self.averaged_root)
        figure = validate(self.averaged_root.model, self.data, run.valid_rows, run.seed, workers)
        self.reporter.validated(step, figure, self.data.entropy)
        model = self.averaged_root.model.describe(step=step, validation=figure.record())
        weights = gather(unwrapped(model.network).state_dict(), fabric.is_global_zero)
        if fabric.is_global_zero:
            for name in ("best", "model") if figure.per_token < self.best else ("model",):
                save_model(model, self.folder / name, weights)
        self.best = min(self.best, figure.per_token)
        self.latest = (step, figure)
        return figure

    def _save(self, step: int) -> None:
        tensors = tensors_of(self.model, self.averaged, self.optimiser, self.fabric.is_global_zero)
        if self.fabric.is_global_zero:
            state = {
                "best": self.best,
                "averaged": int(self.averaged.n_averaged),
                "rows_seen": step * self.config.optimiser.batch,
            }
            write_checkpoint(self.folder / "checkpoints", Checkpoint(step, tensors, state))
        self.fabric.barrier()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Until it is saved, an interrupted run ends after the step at hand; then signals mean what they did before."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.reporter.say("stopping after this step, with a checkpoint")
            self.stopping = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)


def _mean_loss(objective: Objective, batch: Batch, model: DiffusionModel) -> Tensor:
    return training_loss(model, objective, batch.x_0, batch.t, batch.randomness, batch.given, batch.weights).mean
