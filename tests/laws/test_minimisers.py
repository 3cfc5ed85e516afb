"""What minimises an objective: the gradient vanishes at the exact posterior, and descent finds it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.laws.exact_cases import (
    ABSORBING,
    COUPLED,
    INTERPOLATING,
    MASKED,
    STEPPED,
    TIGHT,
    UNIFORM,
    Case,
    label,
    oracle_table,
    state_index,
    weighted_states,
)
from tests.laws.grid import K, L
from tokenloom import objectives


def mean_loss(case: Case, t: float, logits: Tensor) -> Tensor:
    """The expected loss of a table of logits, one row for each (x_t, U)."""
    process, objective, predicts = case
    noisy, x_0, weight = weighted_states(process, t)
    prediction = predicts(logits[state_index(noisy, process)])  # type: ignore[call-arg]
    return (weight * objective.per_token(prediction, x_0, noisy, process).sum(-1)).sum()


def minimise(table: Tensor, loss_of: Callable[[Tensor], Tensor], iterations: int) -> Tensor:
    """Descent by LBFGS."""
    table = table.requires_grad_()
    optimiser = torch.optim.LBFGS(
        [table], max_iter=iterations, tolerance_grad=1e-6, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        loss = loss_of(table)
        table.grad = torch.autograd.grad(loss, table)[0]
        return loss

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    return table.detach()


@pytest.mark.parametrize("case", [*TIGHT, *STEPPED, (UNIFORM, objectives.CrossEntropy(), tl.LeaveOneOut)], ids=label)
@pytest.mark.parametrize("t", [0.25, 0.75])
def test_gradient_vanishes_at_the_exact_posterior(case: Case, t: float) -> None:
    exact = oracle_table(case[0], case[2], t)
    elsewhere = exact + torch.linspace(0, 1, exact.shape[-1], dtype=torch.float64)
    slopes = []
    for table in (exact.requires_grad_(), elsewhere.detach().requires_grad_()):
        slopes.append(torch.autograd.grad(mean_loss(case, t, table), table)[0].abs().max())
    assert slopes[0] < 1e-10
    assert slopes[1] > 1e-4


MINIMISED: list[Case] = [
    (UNIFORM, objectives.CrossEntropy(), tl.LeaveOneOut),
    (UNIFORM, objectives.CrossEntropy(), tl.Denoiser),
    (UNIFORM, objectives.MarkovNELBO(), tl.LeaveOneOut),
    (UNIFORM, objectives.MarkovNELBO(), tl.Denoiser),
    (UNIFORM, objectives.FiniteStep(4), tl.LeaveOneOut),
    (UNIFORM, objectives.BoundWithCrossEntropy(), tl.LeaveOneOut),
    (UNIFORM, objectives.ScoreEntropy(), tl.Score),
    (COUPLED, objectives.JumpNELBO(), tl.Denoiser),
    (COUPLED, objectives.JumpNELBO(), tl.LeaveOneOut),
    (ABSORBING, objectives.JumpNELBO(), tl.Denoiser),
    (MASKED, objectives.JumpNELBO(), tl.Denoiser),
    (INTERPOLATING, objectives.RateNELBO(), tl.LeaveOneOut),
    (INTERPOLATING, objectives.MarkovNELBO(), tl.LeaveOneOut),
    (INTERPOLATING, objectives.FiniteStep(4), tl.Denoiser),
]


@pytest.mark.parametrize("case", MINIMISED, ids=label)
def test_gradient_descent_on_a_table_finds_what_the_paper_says(case: Case) -> None:
    """From a flat table, at t = 1/2; compared at the positions the objective speaks of."""
    process, _, predicts = case
    t = 0.5
    exact = oracle_table(process, predicts, t)
    table = minimise(torch.zeros_like(exact), lambda logits: mean_loss(case, t, logits), 400)
    noisy, _, _ = weighted_states(process, t)
    index = state_index(noisy, process)
    free = process.evidence(noisy).isfinite()
    found, truth = table[index][free], exact[index][free]
    if predicts is tl.Score:
        others = torch.ones_like(found, dtype=torch.bool).scatter(-1, noisy.tokens[free].unsqueeze(-1), False)
        torch.testing.assert_close(found[others], truth[others], rtol=0, atol=1e-3)
    else:
        torch.testing.assert_close(torch.softmax(found, -1), torch.softmax(truth, -1), rtol=0, atol=1e-3)


def test_ratio_matching_finds_the_leave_one_out_posterior_only_if_the_network_is_hollow() -> None:
    """A table indexed by the other position learns it; one that sees its own token copies the token."""
    t = 0.5
    noisy, x_0, weight = weighted_states(UNIFORM, t)
    exact = oracle_table(UNIFORM, tl.LeaveOneOut, t)

    def fit(rows: Tensor, count: int) -> Tensor:
        def loss_of(table: Tensor) -> Tensor:
            prediction = tl.LeaveOneOut(table[rows, torch.arange(L)])
            return (weight * objectives.RatioMatching().per_token(prediction, x_0, noisy, UNIFORM).sum(-1)).sum()

        table = minimise(torch.zeros(count, L, K, dtype=torch.float64), loss_of, 100)
        return torch.softmax(table[rows, torch.arange(L)], -1)

    truth = torch.softmax(exact[state_index(noisy, UNIFORM)], -1)
    hollow = fit(noisy.tokens.flip(1), K)
    seeing = fit(state_index(noisy, UNIFORM).unsqueeze(1).expand(-1, L), K**L)
    torch.testing.assert_close(hollow, truth, rtol=0, atol=1e-3)
    assert seeing.gather(-1, noisy.tokens.unsqueeze(-1)).min() > 0.95
