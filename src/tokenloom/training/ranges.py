"""The limits of a config's numbers, so that a wrong one is named with its option before anything is built."""

import math
from operator import attrgetter

import torch

from tokenloom.nn.base import Task
from tokenloom.nn.size import count_parameters
from tokenloom.support.checks import nearest
from tokenloom.support.memory import check_memory
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

FITTED = (
    "network.width",
    "network.depth",
    "network.heads",
    "optimiser.batch",
    "optimiser.lr",
    "optimiser.warmup",
    "optimiser.ema",
    "run.validate_every",
    "run.checkpoint_every",
)
"""What `fit` can choose."""

MOST = 2**63
"""What no whole number may reach."""

POSITIVE = ("max_minutes", "time_power", "optimiser.lr", "optimiser.eps", "optimiser.clip")
SHARES = ("floor", "optimiser.ema", "optimiser.beta1", "optimiser.beta2", "network.dropout")
"""Numbers in [0, 1)."""


def check_ranges(config: TrainConfig) -> None:
    """Raise for the first number outside its limits."""
    for name, least in LEAST.items():
        _check(config, name, least, math.inf, f"at least {least}")
        _check(config, name, least, MOST, "below 2^63")
    for name in POSITIVE:
        _check(config, name, math.ulp(0.0), math.inf, "positive and finite")
    for name in SHARES:
        _check(config, name, 0, 1, "in [0, 1)")
    for name in config.fit:
        if name not in FITTED:
            raise ValueError(f"--fit cannot choose {name!r}; {nearest(name, FITTED)}")


def _check(config: TrainConfig, name: str, low: float, high: float, limit: str) -> None:
    try:
        value = attrgetter(name)(config)
    except AttributeError:  # an option of another network or data source
        return
    if value is not None and not low <= value < high:
        raise ValueError(
            f"--{name.replace('_', '-')} must be {limit}, got {value if isinstance(value, int) else f'{value:g}'}"
        )


COPIES = 5
"""Of every parameter: its value, gradient, two moments and average."""

KEPT_PER_TOKEN = 12
"""Numbers of the width's size that a block keeps for the backward pass, at the least."""


def check_size(config: TrainConfig, task: Task) -> None:
    """Raise for what cannot fit into memory: the network with all its copies, or the rows of the data."""
    network, rows = config.network, getattr(config.data, "rows", 0)
    parameters = count_parameters(network, task)
    width, depth = getattr(network, "width", 1), getattr(network, "depth", 1)
    _check_fits(
        4.0 * COPIES * parameters,
        f"training a network of width {width} and depth {depth} ({parameters:.3g} parameters)",
        "lower --network.width or --network.depth",
    )
    _check_fits(8.0 * rows * task.length, f"data of {rows} rows of {task.length} tokens", "lower --data.rows")


def check_batch(config: TrainConfig, length: int, processes: int) -> None:
    """Raise for a batch that cannot be divided, or whose part cannot fit into the memory of its process."""
    network, optimiser = config.network, config.optimiser
    pieces = processes * optimiser.accumulate
    if optimiser.batch % pieces:
        raise ValueError(
            f"--optimiser.batch must be a multiple of processes x accumulate = {pieces}, got {optimiser.batch}"
        )
    blocks = getattr(network, "depth", 1) * getattr(network, "loops", 1)
    kept = 1 if config.run.recompute else KEPT_PER_TOKEN
    _check_fits(
        2.0 * kept * (optimiser.batch // pieces) * length * getattr(network, "width", 1) * blocks,
        f"a step on {optimiser.batch // pieces} sequences of {length} tokens",
        "lower --optimiser.batch or --data.length, raise --optimiser.accumulate, or set --run.recompute",
    )


def _check_fits(needed: float, what: str, remedy: str) -> None:
    if torch.cuda.is_available() and needed <= torch.cuda.mem_get_info()[1]:
        return
    check_memory(needed, what, remedy)
