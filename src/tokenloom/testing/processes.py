"""Does a process keep its laws?  Those of its noise and its coupling, and its bound at exact posteriors."""

import math

import torch
from torch import Tensor

from tokenloom.objectives.likelihood import nelbo
from tokenloom.oracles.exact import Oracle
from tokenloom.posteriors import Denoiser, LeaveOneOut
from tokenloom.process import Process
from tokenloom.testing.couplings import check_coupling
from tokenloom.testing.noises import check_noise
from tokenloom.testing.report import Report

ROWS = 2000
ERRORS = 4
"""Standard errors allowed: a law that holds is called broken with probability 6.3e-5, by each statistical check."""


def check_process(process: Process, seed: int = 0) -> Report:
    """Check noise and coupling by enumerating at most 16 tokens, and the bound at exact posteriors against -log p."""
    report = Report(f"process {process.title}")
    for part in (check_noise(process.noise, process.schedule), check_coupling(process.coupling, process.noise)):
        report.laws |= part.laws
    for predicts in (LeaveOneOut, Denoiser):
        model = Oracle(table_for(process), process, predicts=predicts)
        x_0 = model.sample(ROWS, torch.Generator().manual_seed(seed))
        found = nelbo(model, x_0, generator=torch.Generator().manual_seed(seed), batch=1000)
        exact = -model.log_likelihood(x_0)
        paid = found.per_sequence - exact
        excess, error = paid.mean().item(), paid.std().item() / math.sqrt(ROWS)
        below = f"it is {-excess:.3g} nats below, {-excess / error:.1f} standard errors"
        report.note(f"the bound of a {predicts.__name__} is never below -log p", excess > -ERRORS * error, below)
        if process.tight:
            words = f"it is {excess:.3g} nats above, {excess / error:.1f} standard errors"
            report.note(f"the bound of an exact {predicts.__name__} is -log p", abs(excess) < ERRORS * error, words)
    return report


def table_for(process: Process, seed: int = 1) -> Tensor:
    """Draw a law of two (or as many as the noise has) correlated clean tokens."""
    length, generator = process.noise.law().length or 2, torch.Generator().manual_seed(seed)
    logits = torch.randn([process.vocab_size] * length, generator=generator, dtype=torch.float64)
    mask = process.mask_in_vocabulary
    for axis in range(length) if mask is not None else ():
        logits.select(axis, mask).fill_(-torch.inf)  # type: ignore[arg-type]
    return torch.softmax(1.5 * logits.flatten(), 0).view(logits.shape)
