"""What minimises an objective: the gradient vanishes at the exact posterior, and descent finds it."""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.laws.exact_cases import (
    ABSORBING,
    COUPLED,
    MASKED,
    STEPPED,
    TIGHT,
    UNIFORM,
    Case,
    K,
    L,
    label,
    oracle_table,
    state_index,
    weighted_states,
)
from tokenloom.objectives import (
    CrossEntropy,
    FiniteStep,
    Hybrid,
    JumpNELBO,
    RatioMatching,
    ScoreEntropy,
    UniformNELBO,
)
from tokenloom.posteriors import Posterior


def mean_slopes(case: Case, t: float, logits: Tensor) -> Tensor:
    """The gradient of the expected loss with respect to a table of logits, one row for each (x_t, U)."""
    process, objective, predicts = case
    noisy, x_0, weight = weighted_states(process, t)
    index = state_index(noisy, process)
    prediction = predicts(logits[index])  # type: ignore[call-arg]
    loss = (weight * objective.per_token(prediction, x_0, noisy, process).sum(-1)).sum()
    (slope,) = torch.autograd.grad(loss, logits)
    return slope


@pytest.mark.parametrize("case", [*TIGHT, *STEPPED, (UNIFORM, CrossEntropy(), tl.LeaveOneOut)], ids=label)
@pytest.mark.parametrize("t", [0.25, 0.75])
def test_gradient_vanishes_at_the_exact_posterior(case: Case, t: float) -> None:
    logits = oracle_table(case[0], case[2], t).requires_grad_()
    assert mean_slopes(case, t, logits).abs().max() < 1e-10
    assert (
        mean_slopes(case, t, (logits.detach() + torch.linspace(0, 1, logits.shape[-1])).requires_grad_()).abs().max()
        > 1e-4
    )


MINIMISED: list[tuple[Case, type[Posterior]]] = [
    ((UNIFORM, CrossEntropy(), tl.LeaveOneOut), tl.LeaveOneOut),
    ((UNIFORM, CrossEntropy(), tl.Denoiser), tl.Denoiser),
    ((UNIFORM, UniformNELBO(), tl.LeaveOneOut), tl.LeaveOneOut),
    ((UNIFORM, UniformNELBO(), tl.Denoiser), tl.Denoiser),
    ((UNIFORM, FiniteStep(4), tl.LeaveOneOut), tl.LeaveOneOut),
    ((UNIFORM, Hybrid(), tl.LeaveOneOut), tl.LeaveOneOut),
    ((UNIFORM, ScoreEntropy(), tl.Score), tl.Score),
    ((COUPLED, JumpNELBO(), tl.Denoiser), tl.Denoiser),
    ((COUPLED, JumpNELBO(), tl.LeaveOneOut), tl.LeaveOneOut),
    ((ABSORBING, JumpNELBO(), tl.Denoiser), tl.Denoiser),
    ((MASKED, JumpNELBO(), tl.Denoiser), tl.Denoiser),
]


@pytest.mark.parametrize(("case", "target"), MINIMISED, ids=[str(label(case)) for case, _ in MINIMISED])
def test_gradient_descent_on_a_table_finds_what_the_paper_says(case: Case, target: type[Posterior]) -> None:
    """From a flat table, at t = 1/2; compared at the positions the objective speaks of."""
    process, _, predicts = case
    t = 0.5
    exact = oracle_table(process, target, t)
    table = torch.zeros_like(exact, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [table], max_iter=400, tolerance_grad=1e-9, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        process_, objective, _ = case
        noisy, x_0, weight = weighted_states(process_, t)
        prediction = predicts(table[state_index(noisy, process)])  # type: ignore[call-arg]
        loss = (weight * objective.per_token(prediction, x_0, noisy, process).sum(-1)).sum()
        table.grad = torch.autograd.grad(loss, table)[0]
        return loss

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    noisy, _, _ = weighted_states(process, t)
    index = state_index(noisy, process)
    free = process.evidence(noisy).isfinite()
    found, truth = table.detach()[index][free], exact[index][free]
    if predicts is tl.Score:
        others = torch.ones_like(found, dtype=torch.bool).scatter(-1, noisy.tokens[free].unsqueeze(-1), False)
        torch.testing.assert_close(found[others], truth[others], rtol=0, atol=1e-3)
    else:
        torch.testing.assert_close(torch.softmax(found, -1), torch.softmax(truth, -1), rtol=0, atol=1e-3)


def test_ratio_matching_finds_the_leave_one_out_posterior_only_if_the_network_is_hollow() -> None:
    """A table indexed by the other position learns it; one that sees its own token copies the token."""
    t, objective = 0.5, RatioMatching()
    noisy, x_0, weight = weighted_states(UNIFORM, t)
    exact = oracle_table(UNIFORM, tl.LeaveOneOut, t)
    other = noisy.tokens.flip(1)

    def fit(hollow: bool) -> Tensor:
        rows = other if hollow else state_index(noisy, UNIFORM).unsqueeze(1).expand(-1, L)
        table = torch.zeros(K if hollow else K**L, L, K, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.Adam([table], lr=0.1)
        for _ in range(1500):
            logits = table[rows, torch.arange(L)]
            loss = (weight * objective.per_token(tl.LeaveOneOut(logits), x_0, noisy, UNIFORM).sum(-1)).sum()
            table.grad = torch.autograd.grad(loss, table)[0]
            optimiser.step()
        return torch.softmax(table.detach()[rows, torch.arange(L)], -1)

    truth = torch.softmax(exact[state_index(noisy, UNIFORM)], -1)
    torch.testing.assert_close(fit(hollow=True), truth, rtol=0, atol=1e-3)
    assert fit(hollow=False).gather(-1, noisy.tokens.unsqueeze(-1)).min() > 0.95
