"""The limits of a config's numbers, so that a wrong one is named with its option before anything is built."""

from typing import get_type_hints

import torch

from tokenloom.nn.base import Task
from tokenloom.nn.size import count_parameters
from tokenloom.support.checks import nearest
from tokenloom.support.memory import check_memory
from tokenloom.training.config import Limit, TrainConfig

LEAST = {"width": 1, "depth": 1, "heads": 1, "loops": 1, "condition": 1, "length": 1, "vocab_size": 2, "rows": 2}
"""The least of numbers that options of networks and sources have by these names."""
LIMITS = {name: Limit(f"at least {least}", least) for name, least in LEAST.items()} | {
    "dropout": Limit("in [0, 1)", 0, 1)
}
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
"""Options that `fit` can choose."""


def check_ranges(config: TrainConfig) -> None:
    """Raise for the first number outside the limits that its field declares, or that its name has in `LIMITS`."""
    parts = {f"{name}.": getattr(config, name) for name in ("network", "data", "optimiser", "run")}
    for prefix, options in ({"": config} | parts).items():
        shared = LIMITS if prefix in ("network.", "data.") else {}
        for name, hint in get_type_hints(type(options), include_extras=True).items():
            declared = [extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Limit)]
            limit = declared[0] if declared else shared.get(name)
            if limit is not None and getattr(options, name) is not None:
                _check(f"--{prefix}{name.replace('_', '-')}", getattr(options, name), limit)
    for name in config.fit:
        if name not in FITTED:
            raise ValueError(f"--fit cannot choose {name!r}; {nearest(name, FITTED)}")


def _check(option: str, value: float, limit: Limit) -> None:
    if not limit.low <= value < limit.high:
        raise ValueError(f"{option} must be {limit.words}, got {value if isinstance(value, int) else f'{value:g}'}")
    if isinstance(value, int) and value >= 2**63:
        raise ValueError(f"{option} must be below 2^63, got {value}")


COPIES = 5
"""Copies of every parameter: its value, gradient, two moments and average."""
KEPT_PER_TOKEN = 12
"""Numbers of the width's size that a block keeps for the backward pass, at the least."""


def check_size(config: TrainConfig, task: Task) -> None:
    """Raise if the network with all its copies, or the rows of the data, cannot fit into memory."""
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
    """Raise if a batch cannot be divided, or its part cannot fit into the memory of its process."""
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
