"""The training loop, on one process or many (Lightning Fabric), and never a lost step.

A run is a folder: config.json, metrics.jsonl, checkpoints/ (the newest two, each complete), best/ and, at the end,
model/ (the averaged weights, for `tokenloom.load`).  Interrupting it (Ctrl-C, SIGTERM) writes a checkpoint first.
A disk that refuses does not end it: it says so, trains on and tries again.  A run at an address is trained in a folder
of this machine, and what changed there is uploaded whenever something was written.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from tokenloom.data.base import Dataset
from tokenloom.drawing.randomness import derive_seed
from tokenloom.models.adapter import Adapter
from tokenloom.models.checkpoint import Checkpoint, write_checkpoint
from tokenloom.models.model import DiffusionModel
from tokenloom.models.network import unwrapped
from tokenloom.models.store import save_model
from tokenloom.objectives.likelihood import Likelihood, Workers
from tokenloom.support.addresses import is_address
from tokenloom.support.files import tidy, write_json
from tokenloom.support.uploads import upload
from tokenloom.support.words import counted
from tokenloom.training.batches import training_batch, validate
from tokenloom.training.build import adapter_of, check_batch
from tokenloom.training.config import TrainConfig
from tokenloom.training.ending import Clock, Stopping, ended
from tokenloom.training.fitting import fitted
from tokenloom.training.folder import State, catch_up, find_checkpoint, locked
from tokenloom.training.rates import learning_rate
from tokenloom.training.reporting import Reporter
from tokenloom.training.setup import Learner, batch_loss, gather, launch, whole

PATIENCE = 5  # steps in a row whose loss is not finite before the run stops


Observe = Callable[[DiffusionModel, Dataset], dict[str, Any]]
"""Returns figures of a model by their names, and texts as lists."""


@dataclass(frozen=True)
class Result:
    """The outcome of a run."""

    steps: int
    resumed_at: int  # the step this part of the run began at; `minutes` counts from there
    tokens: int
    minutes: float
    figures: dict[str, Likelihood]
    """The bound under each process that the network was trained with, by name; the model is saved with the first."""
    characters: float | None  # per token of text
    entropy: float | None
    parameters: int
    trained: int  # of these, fewer with adapters
    network: str  # the kind of network
    predicts: str
    folder: Path
    stopped_by: int | None = None  # the signal that ended it before its time, if one did


def train(config: TrainConfig, resume: bool, reporter: Reporter, observe: Observe | None = None) -> Result | None:
    """Train as the (resolved) config says, or `resume` from the newest intact checkpoint; None if that is the end.

    `observe` is called with the averaged model every `run.sample_every` steps; what it returns is logged.
    """
    clock, fabric, folder = Clock(config.max_minutes), launch(config), config.folder
    with locked(folder, fabric.global_rank, fabric.world_size):
        if fabric.is_global_zero:
            tidy(folder)
        check_batch(config, config.data.outline().length or 1, fabric.world_size)
        if resume and is_address(config.out):
            catch_up(folder, config.out)
        adapter = adapter_of(config)
        saved = find_checkpoint(folder, config, adapter, reporter) if resume else None
        if saved is not None:
            clock.before = 60 * float(saved.state["minutes"])
            over = ended(config, saved.step, clock.before / 60)
            if over is not None and saved.state["done"]:
                reporter.say(over)
                return None
        with reporter.doing("loading the data"):
            data = config.data.load()
        for note in data.notes:
            reporter.say(note)
        if saved is None:
            config = fitted(config, data, fabric, clock, reporter)
        with reporter.doing("building the network"):
            learner = Learner(config, data, fabric, saved)
        start, best = (0, None) if saved is None else (saved.step, saved.state["best"])
        stopping = Stopping(reporter.say)
        best = math.inf if best is None else best
        run = _Run(config, fabric, data, learner, folder, reporter, clock, stopping, best, adapter, observe)
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
    stopping: Stopping
    best: float
    adapter: Adapter | None
    observe: Observe | None = None
    not_finite: int = 0
    refused: str | None = None
    latest: tuple[int, dict[str, Likelihood]] | None = None

    @cached_property
    def characters(self) -> float | None:
        """The characters that a token of the validation text spells, on average."""
        rows = self.data.valid[: self.config.run.valid_rows]
        found = self.data.characters(rows)
        return found and found / rows.numel()

    def loop(self, start: int) -> Result:
        config, step = self.config, start
        if self.fabric.is_global_zero:
            write_json(self.folder / "config.json", config.record())
        with self.reporter.running(config, start, self.clock):
            while not self._finished(step, start):
                with self.clock.timing("step"):
                    self._take(step)
                step += 1
                if self.observe is not None and step % (config.run.sample_every or math.inf) == 0:
                    self._observe(self.observe, step)
                if step % config.run.validate_every == 0:
                    self._validate(step)
                if step % config.run.checkpoint_every == 0:
                    self._save(step)
            figures = self._end(step)
        model, minutes = self.learner.model, self.clock.minutes - self.clock.before / 60
        return Result(
            step, start, step * config.optimiser.batch * self.data.length, minutes, figures,
            self.characters, self.data.entropy, sum(parameter.numel() for parameter in model.parameters()),
            sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
            unwrapped(model.network).name, "the next token" if model.causal else str(config.predicts),
            self.folder, self.stopping.number,
        )  # fmt: skip

    def _end(self, step: int) -> dict[str, Likelihood]:
        """Take the last figure and write model and checkpoint; only now does a disk that refuses end the run."""
        if self.stopping.number is not None:
            self._save(step)  # before the validation, in which a second signal may come
        self.refused = None
        figures = self.latest[1] if self.latest is not None and self.latest[0] == step else self._validate(step)
        self._save(step, done=self.stopping.number is None)
        if self.refused is not None:
            raise ValueError(self.refused)
        return figures

    def _take(self, step: int) -> None:
        """Take one optimiser step; a loss or gradient that is not finite is reported and skipped."""
        options, fabric, learner, seed = self.config.optimiser, self.fabric, self.learner, self.config.run.seed
        batch = training_batch(self.data, options.batch, step, seed, self.config.floor, self.config.time_power)
        rate = self._rate(step)
        for group in learner.optimiser.param_groups:
            group["lr"] = rate
        torch.manual_seed(derive_seed(seed, step, fabric.global_rank))  # dropout
        learner.root.train()
        total = torch.zeros((), device=fabric.device)
        size = options.batch // (fabric.world_size * options.accumulate)
        for piece in range(options.accumulate):
            begin = (fabric.global_rank * options.accumulate + piece) * size
            part = batch.part(slice(begin, begin + size))
            with fabric.no_backward_sync(learner.root, enabled=piece + 1 < options.accumulate):  # the last exchanges
                loss = learner.root(partial(batch_loss, batch=part, method=learner.method, objective=learner.objective))
                fabric.backward(loss * fabric.world_size)
            total += loss.detach() * fabric.world_size
        loss = float(fabric.all_reduce(total, reduce_op="mean"))
        clip = partial(fabric.clip_gradients, max_norm=options.clip, error_if_nonfinite=False)
        norm = float(whole(clip(learner.root, learner.optimiser)))
        if math.isfinite(loss) and math.isfinite(norm):
            learner.optimiser.step()
            learner.averaged.update_parameters(learner.model)
            self.not_finite = 0
        else:
            self.not_finite += 1
            self.reporter.say(f"step {step}: the loss is {loss} and its gradient {norm}; the step is skipped")
        if self.not_finite >= PATIENCE:
            raise ValueError(
                f"the loss was not finite {PATIENCE} times in a row, last at step {step}; the run stops and "
                f"{self.folder / 'checkpoints'} holds the last good checkpoint; try a smaller --optimiser.lr"
                + (
                    ", or import the model with --allow for tokens of the data it never predicts"
                    if self.config.begin
                    else ""
                )
            )
        learner.optimiser.zero_grad()
        self.reporter.step(step + 1, loss, rate, options.batch * self.data.length)

    def _rate(self, step: int) -> float:
        """Return the learning rate of a step, the same on every rank: clocks differ, so all follow the first."""

        def share() -> float:
            return float(self.fabric.broadcast(self.clock.share()))

        return learning_rate(self.config.optimiser, step, self.config.max_steps, share)

    def _finished(self, step: int, start: int) -> bool:
        batches = self.config.run.valid_rows / self.config.optimiser.batch
        over = step >= (self.config.max_steps or math.inf) or (step > start and self.clock.over(batches))
        return bool(self.fabric.broadcast(over or self.stopping.number is not None))

    def _validate(self, step: int) -> dict[str, Likelihood]:
        """Return the bound under each process, and save the model with the first."""
        run, fabric, root = self.config.run, self.fabric, self.learner.averaged_root
        workers = Workers(fabric.global_rank, fabric.world_size, partial(fabric.all_reduce, reduce_op="sum"), root)
        rows = min(run.valid_rows, len(self.data.valid))
        others = self.learner.method.processes[1:]
        models = [root.model, *(root.model.with_process(process) for process in others)]
        with self.reporter.doing(f"step {step:,}: validating {counted(rows, 'sequence')}"), self.clock.timing("figure"):
            figures = {model.process.name: validate(model, self.data, rows, run.seed, workers) for model in models}
        self.reporter.validated(step, figures, self.data.entropy, self.characters)
        records = {name: figure.record() for name, figure in figures.items()}
        validation = records[root.model.process.name] | ({"processes": records} if others else {})
        model = root.model.describe(step=step, validation=validation)
        weights = gather(self.learner.kept(unwrapped(model.network)), fabric.is_global_zero)
        mean = sum(figure.per_token for figure in figures.values()) / len(figures)
        if fabric.is_global_zero:
            with self._writing(step):
                for name in ("best", "model") if mean < self.best else ("model",):
                    save_model(model, self.folder / name, weights, self.adapter)
                self.best = min(self.best, mean)
        self.latest = (step, figures)
        return figures

    def _observe(self, observe: Observe, step: int) -> None:
        """Log samples, on the first rank: a step seeds what it draws, so none notices, and no failure ends a run."""
        if self.fabric.is_global_zero:
            with self.reporter.doing(f"step {step:,}: drawing samples"):
                try:
                    self.reporter.observed(step, observe(self.learner.averaged_root.model, self.data))
                except (ValueError, RuntimeError) as error:
                    self.reporter.say(f"step {step:,}: no samples were drawn: {error}")

    def _save(self, step: int, done: bool = False) -> None:
        """Write a checkpoint; the one of a run that is `done`, its model written, says so and that its time is used."""
        config, learner = self.config, self.learner
        by_time = done and step < (config.max_steps or math.inf)
        minutes = max(self.clock.minutes, (config.max_minutes or 0.0) if by_time else 0.0)
        averaged, base = int(learner.averaged.n_averaged), None if self.adapter is None else self.adapter.sha256
        state = State(self.best, averaged, step * config.optimiser.batch, minutes, done, config.record(), base)
        tensors = learner.tensors(self.fabric.is_global_zero)
        with self.reporter.doing(f"step {step:,}: writing a checkpoint"), self.clock.timing("saving"):
            if self.fabric.is_global_zero:
                with self._writing(step):
                    write_checkpoint(self.folder / "checkpoints", Checkpoint(step, tensors, asdict(state)))
        self.fabric.barrier()

    @contextmanager
    def _writing(self, step: int) -> Iterator[None]:
        """Upload what is written, and say it if a disk refuses; the next checkpoint, or the end, tries again."""
        try:
            yield
            if is_address(self.config.out):
                upload(self.folder, self.config.out)
        except (OSError, ValueError) as error:
            self.refused = str(error)
            self.reporter.say(f"step {step:,}: {error}; it is tried again at the next checkpoint or at the end")
