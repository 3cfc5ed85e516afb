r"""The learning rate of step i = 0, 1, ...: it rises over w steps of warm-up and then follows `decay`.

    rate_i    = lr min(1, (i + 1) / w) d_i
    constant    d_i = 1
    linear      d_i = 1 - u,               u = i / n, the share of the n steps that are over
    cosine      d_i = c + (1 - c) (1 + cos(pi u)) / 2,   u = (i - w) / (n - w),   c = final_lr / lr
    step        d_i = 2^{-floor((i - w) / halve_every)}

Before the warm-up is over u and the exponent are 0 where they count from w.  A run without a number of steps falls with
the share of its time.
"""

import math
from collections.abc import Callable

from tokenloom.training.config import OptimiserConfig


def learning_rate(options: OptimiserConfig, step: int, steps: int | None, share: Callable[[], float]) -> float:
    """Return the rate of a step of a run of `steps`; `share` is asked for the share of its time if that decides."""
    rate, since = options.lr * min(1.0, (step + 1) / max(1, options.warmup)), max(0, step - options.warmup)
    match options.decay:
        case "constant":
            return rate
        case "step":
            return rate * 0.5 ** (since // options.halve_every)
        case "linear":
            over = share() if steps is None else step / steps
            return rate * (1 - min(1.0, over))
        case "cosine":
            over = share() if steps is None else since / max(1, steps - options.warmup)
            least = options.final_lr / options.lr
            return rate * (least + (1 - least) * (1 + math.cos(math.pi * min(1.0, over))) / 2)
