"""The training loop, on one process or many (Lightning Fabric), and never a lost step.

A run is a folder: config.json, metrics.jsonl, checkpoints/ (the newest two, each complete), best/ and, at the end,
model/ (the averaged weights, for `tokenloom.load`).  Interrupting it (Ctrl-C, SIGTERM) writes a checkpoint first.
"""

import json
import math
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from tokenloom.data.base import Dataset
from tokenloom.model import DiffusionModel
from tokenloom.objectives.base import Objective
from tokenloom.objectives.head_loss import loss_at
from tokenloom.store import save_model
from tokenloom.training.batches import Batch, training_batch
from tokenloom.training.build import build_bound, build_data, build_model, build_objective
from tokenloom.training.checkpoint import Checkpoint, newest_intact, read_checkpoint, write_checkpoint
from tokenloom.training.config import TrainConfig
from tokenloom.training.reporting import Reporter
from tokenloom.training.setup import adam, launch, warm_average
from tokenloom.training.validation import Figure, validate

PATIENCE = 5
"""Steps in a row whose loss is not finite before the run stops."""


@dataclass(frozen=True)
class Result:
    """What a run reached."""

    steps: int
    tokens: int
    minutes: float
    figure: Figure
    entropy: float | None
    parameters: int
    folder: Path


class TrainingStep(nn.Module):
    """The weighted loss of a batch as a module, so that a strategy can wrap it."""

    def __init__(self, model: DiffusionModel, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Callable[[], Batch]) -> Tensor:
        """`batch` comes as a function, which no strategy converts or copies."""
        content = batch()
        return loss_at(self.model, self.objective, content.x_0, content.noisy, content.weights).mean


def train(config: TrainConfig, resume: bool, reporter: Reporter) -> Result:
    """Train as the (resolved) config says; `resume` goes on from the newest intact checkpoint."""
    fabric = launch(config)
    pieces = fabric.world_size * config.optimiser.accumulate
    if config.optimiser.batch % pieces:
        raise ValueError(
            f"--optimiser.batch must be a multiple of processes x accumulate = {pieces}, got {config.optimiser.batch}"
        )
    folder = Path(config.out or "")
    data, objective = build_data(config.data), build_objective(config)
    with fabric.init_module():
        torch.manual_seed(config.run.seed)
        model = build_model(config, data)
    averaged = AveragedModel(model, multi_avg_fn=warm_average(config.optimiser.ema))
    optimiser = adam(model, config)
    start, best = _restore(folder, model, averaged, optimiser, reporter) if resume else (0, math.inf)
    step_module, optimiser = fabric.setup(TrainingStep(model, objective), optimiser)
    averaged.to(fabric.device)
    run = _Run(config, fabric, data, model, averaged, optimiser, step_module, objective, folder, reporter, best)
    return run.loop(start)


def _restore(
    folder: Path, model: DiffusionModel, averaged: AveragedModel, optimiser: torch.optim.Adam, reporter: Reporter
) -> tuple[int, float]:
    path, damaged = newest_intact(folder / "checkpoints")
    for sentence in damaged:
        reporter.say(sentence)
    if path is None:
        raise ValueError(f"{folder} holds no intact checkpoint to resume from")
    saved = read_checkpoint(path)
    model.load_state_dict(saved.tensors["model"])
    averaged.module.load_state_dict(saved.tensors["ema"])
    averaged.n_averaged.fill_(saved.state["averaged"])
    names = [name for name, _ in model.named_parameters()]
    state = {
        index: {key: saved.tensors["optimiser"][f"{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
        for index, name in enumerate(names)
    }
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    reporter.say(f"resuming from step {saved.step}")
    return saved.step, saved.state["best"]


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
        step_module: Any,
        objective: Objective,
        folder: Path,
        reporter: Reporter,
        best: float,
    ) -> None:
        self.config, self.fabric, self.data, self.model = config, fabric, data, model
        self.averaged, self.optimiser, self.step_module, self.objective = averaged, optimiser, step_module, objective
        self.folder, self.reporter, self.best = folder, reporter, best
        self.bound = build_bound(config)
        self.started, self.not_finite, self.stopping = time.monotonic(), 0, False
        self.latest: tuple[int, Figure] | None = None

    def loop(self, start: int) -> Result:
        config, fabric = self.config, self.fabric
        if fabric.is_global_zero:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "config.json").write_text(json.dumps(asdict(config), indent=2))
        self._listen()
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
        return Result(step, tokens, minutes, figure, self.data.entropy, parameters, self.folder)

    def _take(self, step: int) -> None:
        """One optimiser step; a loss or gradient that is not finite is reported and skipped."""
        config, fabric = self.config, self.fabric
        batch = training_batch(
            self.data, self.model.process, self.objective, config.optimiser.batch, step, config.run.seed, config.floor
        )
        mine, pieces = config.optimiser.batch // fabric.world_size, config.optimiser.accumulate
        rate = self._rate(step)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        torch.manual_seed(config.run.seed * 1_000_003 + step * fabric.world_size + fabric.global_rank)  # dropout
        self.step_module.train()
        total = torch.zeros((), device=fabric.device)
        for piece in range(pieces):
            begin = fabric.global_rank * mine + piece * mine // pieces
            end = fabric.global_rank * mine + (piece + 1) * mine // pieces
            part = batch.part(slice(begin, end)).to(fabric.device)
            with fabric.no_backward_sync(self.step_module, enabled=piece + 1 < pieces):
                loss = self.step_module(lambda part=part: part) * fabric.world_size
                fabric.backward(loss)
            total += loss.detach()
        mean = float(fabric.all_reduce(total, reduce_op="mean"))
        norm = float(
            fabric.clip_gradients(
                self.step_module, self.optimiser, max_norm=config.optimiser.clip, error_if_nonfinite=False
            )
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
        assert self.config.max_minutes is not None
        return min(1.0, (time.monotonic() - self.started) / 60 / self.config.max_minutes)

    def _finished(self, step: int) -> bool:
        over = self.config.max_steps is not None and step >= self.config.max_steps
        if self.config.max_minutes is not None:
            over = over or (time.monotonic() - self.started) / 60 >= self.config.max_minutes
        return bool(self.fabric.broadcast(over or self.stopping))

    def _validate(self, step: int) -> Figure:
        figure = None
        if self.fabric.is_global_zero:
            figure = validate(
                self._averaged_model, self.bound, self.data, self.config.run.valid_rows, self.config.run.seed
            )
            self.reporter.validated(step, figure, self.data.entropy)
            if figure.nats < self.best:
                self.best = figure.nats
                self._export(self.folder / "best", step, figure)
            self._export(self.folder / "model", step, figure)
        figure = self.fabric.broadcast(figure)
        assert isinstance(figure, Figure)
        self.latest = (step, figure)
        return figure

    def _export(self, folder: Path, step: int, figure: Figure) -> None:
        tokenizer = getattr(self.data.decode, "tokenizer", None)
        about = {
            "step": step,
            "data": self.data.name,
            "fingerprint": self.data.fingerprint,
            "validation": asdict(figure),
            "entropy": self.data.entropy,
            "tokenizer": None if tokenizer is None else json.loads(tokenizer.to_json()),
            "config": asdict(self.config),
        }
        save_model(self._averaged_model, folder, about)

    @property
    def _averaged_model(self) -> DiffusionModel:
        model = self.averaged.module
        assert isinstance(model, DiffusionModel)
        return model

    def _save(self, step: int) -> None:
        if self.fabric.is_global_zero:
            optimiser = self.optimiser.state_dict()["state"]
            moments = {
                f"{key}.{name}": value.contiguous()
                for index, (name, _) in enumerate(self.model.named_parameters())
                for key, value in optimiser.get(index, {}).items()
            }
            tensors = {
                "model": {name: value.contiguous() for name, value in self.model.state_dict().items()},
                "ema": {name: value.contiguous() for name, value in self.averaged.module.state_dict().items()},
                "optimiser": moments,
            }
            state = {
                "best": self.best,
                "averaged": int(self.averaged.n_averaged),
                "rows_seen": step * self.config.optimiser.batch,
            }
            write_checkpoint(self.folder / "checkpoints", Checkpoint(step, tensors, state))
        self.fabric.barrier()

    def _listen(self) -> None:
        def stop(number: int, frame: FrameType | None) -> None:
            self.reporter.say("stopping after this step, with a checkpoint")
            self.stopping = True

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
