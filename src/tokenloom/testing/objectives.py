"""Does an objective keep its laws?  Local, finite, and with the exact posterior among its minimisers."""

import torch
from torch import nn

from tokenloom.cells import Masked, Uniform
from tokenloom.models.model import DiffusionModel
from tokenloom.nn import DiT, TransformerConfig
from tokenloom.objectives.base import Objective
from tokenloom.objectives.head_loss import loss_at
from tokenloom.oracles.exact import Oracle
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior
from tokenloom.process import Process
from tokenloom.testing.processes import table_for
from tokenloom.testing.report import Report

ROWS, TOKENS = 20_000, 3


def check_objective(objective: Objective, process: Process | None = None) -> Report:
    """Check an objective under a process, for each representation over tokens that it trains there."""
    process = process or next(found for found in (Uniform(TOKENS), Masked(TOKENS)) if _kinds(objective, found))
    kinds = _kinds(objective, process)
    if not kinds:
        raise ValueError(f"{type(objective).__name__} trains nothing over tokens under {process.title}; pass a process")
    report = Report(f"objective {type(objective).__name__} under {process.title}")
    for kind in kinds:
        _check(objective, process, kind, report)
    return report


def _kinds(objective: Objective, process: Process) -> list[type[Posterior]]:
    try:
        return [kind for kind in objective.representations(process) if kind in (LeaveOneOut, Denoiser)]
    except ValueError:
        return []


def _check(objective: Objective, process: Process, kind: type[Posterior], report: Report) -> None:
    words = f"for a {kind.__name__}"
    oracle = Oracle(table_for(process), process, predicts=kind)
    generator = torch.Generator().manual_seed(0)
    x_0 = oracle.sample(ROWS, generator)
    t = objective.times(torch.rand(ROWS, generator=generator, dtype=torch.float64).clamp(0.05, 0.95))
    noisy = process.corrupted(x_0, t, generator, None)
    exact = oracle.interpret(oracle.logits(noisy), noisy)
    losses = objective.per_token(exact, x_0, noisy, process)
    report.note(f"the loss of an exact prediction is finite {words}", bool(losses.isfinite().all()))
    logits = torch.randn(8, x_0.shape[1], process.vocab_size, generator=generator, dtype=torch.float64)
    part, changed = noisy.sequences(slice(0, 8)), logits.clone()
    changed[:, 1:] = 0
    first, second = (objective.per_token(kind(value), x_0[:8], part, process) for value in (logits, changed))  # type: ignore[call-arg]
    report.close(f"the loss of a position depends on its own prediction alone {words}", first[:, 0], second[:, 0])
    right = exact.logits  # type: ignore[attr-defined]
    tilt = torch.linspace(-0.5, 0.5, process.vocab_size, dtype=right.dtype)
    for name, other in (("a sharper", 1.3 * right), ("a flatter", 0.7 * right), ("a tilted", right + tilt)):
        other = torch.where(right > -torch.inf, other, -torch.inf)
        worse = (objective.per_token(kind(other), x_0, noisy, process) - losses).sum(-1)  # type: ignore[call-arg]
        gain, error = -float(worse.mean()), float(worse.std()) / len(worse) ** 0.5  # rows are paired
        why = f"it lowers the loss by {gain:.3g}, {gain / max(error, 1e-300):.1f} standard errors"
        report.note(f"{name} prediction than the exact one is not better {words}", gain <= 4 * error + 1e-12, why)
    _check_split(objective, process, kind, report, words)


def _check_split(objective: Objective, process: Process, kind: type[Posterior], report: Report, words: str) -> None:
    """Check that a network costs the same whether it is called whole or split into features and head."""
    generator = torch.Generator().manual_seed(1)
    x_0 = Oracle(table_for(process), process).sample(16, generator)
    sizes = (process.vocab_size, process.input_states, x_0.shape[1])
    config = TransformerConfig(*sizes, width=8, depth=1, heads=1, dropout=0.0, absorbing=process.shows_auxiliary)
    network = DiT(config)
    for parameter in network.head.parameters():
        nn.init.normal_(parameter, generator=generator)
    noisy = process.corrupted(x_0, objective.times(torch.full((16,), 0.5, dtype=torch.float64)), generator, None)
    both = (network, lambda *shown: network(*shown))
    costs = [loss_at(DiffusionModel(part, process, predicts=kind), objective, x_0, noisy) for part in both]
    report.close(f"a network costs the same whole and split {words}", costs[0].per_token, costs[1].per_token, 1e-5)
