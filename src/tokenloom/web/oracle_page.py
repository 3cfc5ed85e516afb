r"""Three posteriors of a table that fits on a page, by the exact oracle: three tokens at two positions.

    mu = p(x_0^1 | x_t)      nu = p(x_0^1 | x_t^2)      g = p_t(x_t^1 | x_t^2) = alpha nu + (1 - alpha) pi

and what a step to x_s is made of: the bridge averaged over mu is the bridge with nu plugged in (`prop:loo`).  Plugging
in mu, as if it were nu, gives another law.
"""

from typing import Any

import torch

from tokenloom.cells import PROCESSES
from tokenloom.oracles import Oracle
from tokenloom.posteriors import Denoiser, LeaveOneOut, conditional_log_probs, convert
from tokenloom.schedules import LinearSchedule
from tokenloom.state import Noisy
from tokenloom.web.requests import Table

TOKENS, POSITIONS = 3, 2
NEAREST = 0.01
"""The least distance of alpha from 0 and 1."""


def three_posteriors(table: Table) -> dict[str, Any]:
    """Return the laws of the first position, and of the step from it."""
    weights, alpha = torch.tensor(table.weights, dtype=torch.float64), torch.tensor([table.alpha], dtype=torch.float64)
    if len(weights) != TOKENS**POSITIONS:
        raise ValueError(f"p_0 has {TOKENS**POSITIONS} weights, one for each sequence, got {len(weights)}")
    if bool((weights < 0).any()) or not 0 < float(weights.sum()) < torch.inf:
        raise ValueError("the weights of p_0 must be numbers from 0 upwards, and one of them above 0")
    if not NEAREST <= table.alpha <= 1 - NEAREST:
        raise ValueError(f"alpha must be in [{NEAREST}, {1 - NEAREST}] here, got {table.alpha:g}")
    p_0 = (weights / weights.sum()).view(TOKENS, TOKENS)
    process = PROCESSES.parse(table.process, vocab_size=TOKENS, schedule=LinearSchedule(eps=0.0))
    noisy = Noisy(torch.tensor([table.x_t]), process.time_at(alpha), alpha)
    process.check_state(noisy)
    nu = Oracle(p_0, process).predict(noisy)
    assert isinstance(nu, LeaveOneOut)
    mu = convert(nu, Denoiser, noisy.tokens, noisy.alpha_t, process)
    s, clean = noisy.t / 2, [torch.full_like(noisy.tokens, token) for token in range(TOKENS)]
    # The law of x_s^1 half-way to the data: averaged over mu, with nu plugged in, and with mu mistaken for nu.
    average = mu.log_probs[0, 0].exp() @ torch.stack([process.bridge(noisy, s, x_0).dense()[0, 0] for x_0 in clean])
    plugged, mistaken = (process.bridge(noisy, s, LeaveOneOut(law.logits)).dense()[0, 0] for law in (nu, mu))
    return {
        "p_0": p_0.tolist(),
        "denoiser": mu.log_probs[0, 0].exp().tolist(),
        "leave_one_out": nu.log_probs[0, 0].exp().tolist(),
        "conditional": conditional_log_probs(nu, noisy, process)[0, 0].exp().tolist(),
        "step": {"average": average.tolist(), "plugged": plugged.tolist(), "mistaken": mistaken.tolist()},
        "difference": float((average - plugged).abs().max()),
        "mistake": float((average - mistaken).abs().sum() / 2),
        "states": process.num_states,
    }
