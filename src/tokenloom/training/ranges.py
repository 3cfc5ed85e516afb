"""The limits of a config's numbers, so that a wrong one is named with its option before anything is built."""

import math
from operator import attrgetter

from tokenloom.training.config import TrainConfig

LEAST = {
    "max_steps": 1,
    "optimiser.batch": 1,
    "optimiser.accumulate": 1,
    "optimiser.warmup": 0,
    "run.validate_every": 1,
    "run.checkpoint_every": 1,
    "run.valid_rows": 1,
    "network.width": 1,
    "network.depth": 1,
    "network.heads": 1,
    "network.loops": 1,
    "network.condition": 1,
    "data.length": 1,
    "data.vocab_size": 2,
    "data.rows": 2,
}
"""Whole numbers, and the least of each; those that a run does not have are passed over."""

POSITIVE = ("max_minutes", "optimiser.lr", "optimiser.eps", "optimiser.clip")
SHARES = ("floor", "optimiser.ema", "optimiser.beta1", "optimiser.beta2", "network.dropout")
"""Numbers in [0, 1)."""


def check_ranges(config: TrainConfig) -> None:
    """Raise for the first number outside its limits."""
    for name, least in LEAST.items():
        _check(config, name, least, math.inf, f"at least {least}")
    for name in POSITIVE:
        _check(config, name, math.ulp(0.0), math.inf, "positive and finite")
    for name in SHARES:
        _check(config, name, 0, 1, "in [0, 1)")


def _check(config: TrainConfig, name: str, low: float, high: float, limit: str) -> None:
    try:
        value = attrgetter(name)(config)
    except AttributeError:  # an option of another network or data source
        return
    if value is not None and not low <= value < high:
        raise ValueError(f"--{name.replace('_', '-')} must be {limit}, got {value:g}")
