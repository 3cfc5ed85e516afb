"""Fit a run to its time and its machine: choose the largest network that the time allowed can train.

A network of N parameters is worth its size once it has seen some `TOKENS_PER_PARAMETER` N tokens; with fewer, a smaller
one ends lower.  So a few steps of each size are timed, from the smallest up, and the largest that comes that far in the
time left is taken.  Only the options that the config names in `fit` are chosen; the others are kept.  The same timing
chooses the number of threads (`models/threads.py`).
"""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from statistics import median
from typing import Any, NamedTuple

import torch

from tokenloom.data.base import Dataset
from tokenloom.models.threads import fastest_threads
from tokenloom.nn.size import count_parameters, heads_for
from tokenloom.support.words import counted
from tokenloom.training.batches import training_batch
from tokenloom.training.build import build_model, method_in, objective_of, task_of
from tokenloom.training.config import TrainConfig
from tokenloom.training.ending import FORWARD, Clock
from tokenloom.training.muon import FASTER
from tokenloom.training.reporting import Reporter
from tokenloom.training.setup import batch_loss, optimiser_of, prepare

TOKENS_PER_PARAMETER = 6.0
TIMED_STEPS, TIMED_SHARE = 3, 0.003
"""The most steps that are timed after the first, and the part of the time left after which no further one is."""
VALIDATIONS, VALIDATING = 8, 0.05  # about how many validations a run has, and the most of its time they may take
AVERAGED = 0.03  # the part of a run that its average reaches back


class Size(NamedTuple):
    """A network, the tokens of a step that suit it, and a learning rate."""

    width: int
    depth: int
    tokens: int
    lr: float


SIZES = (
    Size(64, 2, 2048, 3e-3),
    Size(96, 3, 2048, 2e-3),
    Size(128, 4, 2048, 2e-3),
    Size(192, 5, 4096, 1.5e-3),
    Size(256, 6, 4096, 1e-3),
    Size(384, 8, 8192, 7e-4),
    Size(512, 10, 16384, 5e-4),
    Size(768, 12, 32768, 3e-4),
)


def fitted(config: TrainConfig, data: Dataset, fabric: Any, clock: Clock, reporter: Reporter) -> TrainConfig:
    """Return the config with the options of `fit` chosen, and none left to choose; unchanged where no time is set."""
    if not config.fit or config.max_minutes is None:
        return replace(config, fit=())
    width = getattr(config.network, "width", SIZES[0].width)
    sizes = SIZES if "network.width" in config.fit else (min(SIZES, key=lambda size: abs(size.width - width)),)
    shown = [name for name in config.fit if name.startswith(("network", "optimiser.batch"))]
    best = None
    for size in sizes:
        trial = _Trial(_sized(config, size, data.length, fabric.world_size), data, clock.left())
        if best is not None and not replace(trial, seconds=best.seconds * trial.work / best.work / 2).enough:
            break  # not even if it were twice as fast as expected
        with reporter.doing(f"timing {_options(trial.config, shown)}"):
            threads, seconds = fastest_threads(partial(_step_seconds, trial.config, data, fabric, trial.left))
        trial = replace(trial, threads=threads, seconds=seconds)
        if best is not None and not trial.enough:
            break
        best = trial
    assert best is not None
    torch.set_num_threads(best.threads)
    chosen = _paced(best)
    reporter.say(
        f"sized to this machine and the time: {best.parameters:,.0f} parameters, {best.seconds:.2f} s per step on "
        f"{counted(best.threads, 'thread')}, about {counted(best.steps, 'step')}; "
        f"chosen are {_options(chosen, config.fit)}"
    )
    return replace(chosen, fit=())


@dataclass(frozen=True)
class _Trial:
    """A config, the seconds that a step of it takes on so many threads, and how far it comes in `left` seconds."""

    config: TrainConfig
    data: Dataset
    left: float
    threads: int = 1
    seconds: float = math.inf

    @property
    def parameters(self) -> float:
        return count_parameters(self.config.network, task_of(self.config, self.data.outline))

    @property
    def work(self) -> float:
        return self.parameters * self.config.optimiser.batch

    @property
    def steps(self) -> int:
        return max(1, int(min(self.left / self.seconds, self.config.max_steps or math.inf)))

    @property
    def enough(self) -> bool:
        """True if the network would see enough tokens."""
        tokens = self.steps * self.config.optimiser.batch * self.data.length
        return tokens >= TOKENS_PER_PARAMETER * self.parameters


def _step_seconds(config: TrainConfig, data: Dataset, fabric: Any, left: float) -> float:
    """Return the median of a few steps after the first, or of fewer once `TIMED_SHARE` of the time left is over."""
    with fabric.init_module():  # compiling would take longer than what is timed
        model = prepare(build_model(config, data), replace(config, run=replace(config.run, compile=False)))
    optimiser, objective = optimiser_of(model, config), objective_of(config)
    method = method_in(config, model.process.vocab_size, data)
    rows, took, begin = slice(0, config.optimiser.batch // fabric.world_size), [0.0], time.perf_counter()
    while len(took) <= 1 + TIMED_STEPS and sum(took) <= TIMED_SHARE * left:
        batch = training_batch(data, config.optimiser.batch, len(took), config.run.seed, config.floor).part(rows)
        with fabric.autocast():
            loss = batch_loss(model, batch, method, objective)
        fabric.backward(loss)
        optimiser.step()
        optimiser.zero_grad()
        loss.item()  # on a GPU, wait for it
        took.append(time.perf_counter() - begin - sum(took))
    # Processes do not wait for each other, as each may take another number of steps; all follow the first.
    return float(fabric.broadcast(median(took[2:] or took[1:])))


def _sized(config: TrainConfig, size: Size, length: int, processes: int) -> TrainConfig:
    pieces = processes * config.optimiser.accumulate
    batch = pieces * max(1, round(size.tokens / length / pieces))
    config = _choose(config, {"network.width": size.width, "network.depth": size.depth})
    heads = heads_for(getattr(config.network, "width", size.width))
    rate = size.lr * (FASTER if config.optimiser.kind == "muon" else 1)
    return _choose(config, {"network.heads": heads, "optimiser.batch": batch, "optimiser.lr": rate})


def _paced(trial: _Trial) -> TrainConfig:
    """Choose what follows from the number of steps: a warm-up and an average that suit it, and several validations."""
    config, steps = trial.config, trial.steps
    validation = FORWARD * trial.seconds * config.run.valid_rows / config.optimiser.batch
    often = max(1, steps // max(1, min(VALIDATIONS, int(VALIDATING * trial.left / validation))))
    often = max(1, round(often, 1 - len(str(often))))
    pace = {"optimiser.warmup": min(200, steps // 20), "optimiser.ema": round(1 - 1 / max(10.0, AVERAGED * steps), 4)}
    return _choose(config, pace | {"run.validate_every": often, "run.checkpoint_every": often})


def _choose(config: TrainConfig, values: dict[str, Any]) -> TrainConfig:
    """Set those of the values that are to be chosen and that the config has."""
    for name, value in values.items():
        part, _, option = name.partition(".")
        if name in config.fit and hasattr(getattr(config, part), option):
            changed = replace(getattr(config, part), **{option: value})
            config = replace(config, **{part: changed})
    return config


def _options(config: TrainConfig, names: Iterable[str]) -> str:
    """Write options with their values, as on the command line."""
    return " ".join(f"--{name.replace('_', '-')} {attrgetter(name)(config)}" for name in names)
