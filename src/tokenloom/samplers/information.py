r"""Equal shares of the information that a state carries about its clean tokens, from the process alone.

With x_0 uniform on the K clean tokens, and the evidence a of a position's own token (`process.py`),

    I(x_0; z_t) = log K + E log mu_{x_0}(z_t),      mu_{x_0} = e^{a [x_0 = x_t]} / (K - 1 + e^a),

a mean over `DRAWN` positions that share their noise at all times, so that it grows as smoothly as the exact one.
"""

import math
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.categorical import draw_uniform_tokens
from tokenloom.drawing.randomness import seeded, uniform
from tokenloom.process import Process

LEVELS = 65
"""Times at which the information is measured; between them it is a straight line in the share that is lost."""
DRAWN = 1 << 14
"""Positions that it is the mean of."""


@lru_cache(maxsize=32)  # of every run that asks
def equal_shares(count: int, process: Process) -> Float[Tensor, "times"]:
    """Return the shares of the signal lost, from 1 to 0, between which the information grows by equal amounts."""
    lost = torch.linspace(1, 0, LEVELS, dtype=torch.float64) ** 2  # denser near t = 0, where most is decided
    schedule, one = process.schedule, torch.ones(1, dtype=torch.float64)
    times = schedule.inverse_lost(schedule.lost(one) * lost).clamp(0, 1)
    known = torch.tensor([information(process, float(t)) for t in times]).cummax(0).values
    wanted = torch.linspace(float(known[0]), float(known[-1]), count + 1, dtype=torch.float64)
    index = torch.searchsorted(known, wanted).clamp(1, LEVELS - 1)
    share = (wanted - known[index - 1]) / (known[index] - known[index - 1]).clamp(min=1e-300)
    return torch.lerp(lost[index - 1], lost[index], share.clamp(0, 1)).index_fill(0, torch.tensor(0), 1.0)


def information(process: Process, t: float) -> float:
    """Return I(x_0; z_t) in nats per position."""
    length, generator = process.noise.law().length or 64, seeded("information")
    mask = process.mask_in_vocabulary
    size = process.vocab_size - (mask is not None)
    u = uniform((max(DRAWN // length, 1), length), generator, torch.device("cpu"))
    x_0 = draw_uniform_tokens(u, size)
    x_0 = x_0 if mask is None else x_0 + (x_0 >= mask)
    noisy = process.corrupted(x_0, torch.full((len(x_0),), t, dtype=torch.float64), generator, None)
    evidence = process.evidence(noisy)
    others = torch.full_like(evidence, math.log(size - 1) if size > 1 else -torch.inf)
    log_mu = evidence * (noisy.tokens == x_0) - torch.logaddexp(evidence, others)
    return math.log(size) + float(torch.where(evidence.isfinite(), log_mu, 0).mean())
