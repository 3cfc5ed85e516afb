"""The bounds at the exact posterior: tight where the paper says so, with the prior term where signal is left."""

import itertools

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.exact_cases import (
    ABSORBING,
    COUPLED,
    ENTROPY,
    MASKED,
    P0,
    STEPPED,
    TIGHT,
    UNIFORM,
    Case,
    K,
    L,
    expected_loss,
    integral,
    label,
)
from tests.laws.helpers import assert_close
from tokenloom.objectives import (
    FiniteStep,
    JumpNELBO,
    PriorTerm,
    UniformNELBO,
)
from tokenloom.posteriors import Posterior


@pytest.mark.parametrize("case", TIGHT, ids=label)
def test_bound_at_the_exact_posterior_is_the_entropy_of_p_0(case: Case) -> None:
    assert integral(lambda t: expected_loss(*case, t)) == pytest.approx(ENTROPY, abs=1e-4)


@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut])
def test_max_coupling_bound_stays_above_the_entropy_at_the_exact_posterior(predicts: type[Posterior]) -> None:
    assert integral(lambda t: expected_loss(COUPLED, JumpNELBO(), predicts, t)) > ENTROPY + 0.1


@pytest.mark.parametrize("case", STEPPED, ids=label)
def test_finite_bound_falls_towards_the_continuous_one(case: Case) -> None:
    """L_n - H halves with each doubling of n once n is large; every L_n is a bound, so none is below H."""
    process, _, predicts = case

    def finite(steps: int) -> float:
        ends = [(index + 1) / steps for index in range(steps)]
        return sum(expected_loss(process, FiniteStep(steps), predicts, t) for t in ends) / steps

    gaps = [finite(steps) - ENTROPY for steps in (1, 2, 4, 8, 16, 32)]
    assert all(after < before for before, after in itertools.pairwise(gaps))
    assert gaps[-1] > 0
    assert gaps[-1] / gaps[-2] == pytest.approx(0.5, abs=0.1)


def total_correlation(law: Tensor, states: int) -> float:
    """KL of a law over sequences to the product of its positions."""
    table = law.view(states, states)
    product = torch.outer(table.sum(1), table.sum(0))
    return float((torch.xlogy(table, table) - torch.xlogy(table, product)).sum())


@pytest.mark.parametrize("eps", [0.02, 0.3])
def test_prior_term_completes_the_bound_where_signal_is_left_at_the_end(eps: float) -> None:
    """H plus exactly what the start costs: for UDM KL(p_1 || uniform); for MDM, whose one step from the prior draws the
    positions independently, their total correlation at alpha_1.
    """
    schedule = tl.LinearSchedule(eps=eps)
    uniform, masked = UNIFORM.with_schedule(schedule), MASKED.with_schedule(schedule)
    for process, objective in ((uniform, UniformNELBO()), (masked, JumpNELBO())):
        bound = integral(lambda t, p=process, o=objective: expected_loss(p, o, tl.Denoiser, t))  # type: ignore[misc]
        x_0 = brute.sequences(K, L)
        noisy = PriorTerm().corrupt(process, x_0, torch.ones(len(x_0)))
        prediction = tl.Oracle(P0, process, predicts=tl.Denoiser).predict(noisy)
        price = PriorTerm().per_token(prediction, x_0, noisy, process).sum(-1)
        total = bound + float((P0.flatten() * price).sum())
        if process is uniform:
            p_1 = brute.marginal(P0, brute.uniform_pi(K, L), eps)
            start = float((p_1 * (p_1 * K**L).log()).sum())
        else:
            start = total_correlation(brute.marginal(P0, brute.point_pi([K] * L, K + 1), eps), K + 1)
        assert float(price.max()) > 1e-4
        assert total == pytest.approx(ENTROPY + start, abs=1e-4)


@pytest.mark.parametrize("process", [UNIFORM, MASKED, ABSORBING], ids=lambda process: type(process).__name__)
def test_prior_term_is_0_where_no_signal_is_left(process: tl.Process) -> None:
    x_0 = brute.sequences(K, L)
    noisy = PriorTerm().corrupt(process, x_0, torch.ones(len(x_0)), torch.Generator().manual_seed(6))
    prediction = tl.Denoiser(torch.randn(len(x_0), L, K, dtype=torch.float64))
    assert_close(PriorTerm().per_token(prediction, x_0, noisy, process), torch.zeros(len(x_0), L, dtype=torch.float64))
