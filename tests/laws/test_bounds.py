"""The bounds at the exact posterior: tight where the paper says so, with the prior term where signal is left."""

import itertools

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws import exact_cases as exact
from tests.laws.grid import P0, TABLES, K, L
from tests.laws.helpers import assert_close
from tokenloom.objectives import FiniteStep, JumpNELBO, MarkovNELBO, Objective, PriorTerm, RateNELBO
from tokenloom.objectives.nelbo import Bound
from tokenloom.objectives.prior_term import needs_no_network
from tokenloom.posteriors import Posterior


@pytest.mark.parametrize("case", [case for case in exact.TIGHT if case[2] is tl.Score], ids=exact.label)
def test_bound_of_an_exact_score_is_the_entropy_of_p_0(case: exact.Case) -> None:
    """The other representations are in `test_grid.py`, for every cell."""
    assert exact.integral(*case) == pytest.approx(exact.ENTROPY, abs=1e-4)


@pytest.mark.parametrize("case", exact.STEPPED, ids=exact.label)
def test_finite_bound_falls_towards_the_continuous_one(case: exact.Case) -> None:
    """L_n - H halves with each doubling of n once n is large; every L_n is a bound, so none is below H."""
    process, _, predicts = case

    def finite(steps: int) -> float:
        ends = [(index + 1) / steps for index in range(steps)]
        return float(exact.expected_losses(process, FiniteStep(steps), predicts, ends).mean())

    gaps = [finite(steps) - exact.ENTROPY for steps in (1, 2, 4, 8, 16, 32)]
    assert all(after < before for before, after in itertools.pairwise(gaps))
    assert gaps[-1] > 0
    assert gaps[-1] / gaps[-2] == pytest.approx(0.5, abs=0.1)


def prior_price(process: tl.Process, x_0: Tensor, predicts: type[Posterior]) -> Tensor:
    """What is paid at t = 1, from the noise alone where that is enough, else from the oracle's prediction."""
    if needs_no_network(process):
        return PriorTerm().closed_form(x_0, process, None)
    noisy = PriorTerm().state(process, x_0, torch.Generator().manual_seed(6), None)
    prediction = tl.Oracle(P0, process, predicts=predicts).predict(noisy)
    return PriorTerm().per_token(prediction, x_0, noisy, process)


LEFT: list[tuple[tl.Process, Objective, Tensor]] = [
    (exact.UNIFORM, MarkovNELBO(), brute.uniform_pi(K, L)),
    (exact.INTERPOLATING, MarkovNELBO(), TABLES["table"]),
    (exact.MASKED, JumpNELBO(), brute.point_pi([K] * L, K + 1)),
    (exact.ZEROS, RateNELBO(), TABLES["zeros"]),
]


@pytest.mark.parametrize("eps", [0.02, 0.3])
@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut])
@pytest.mark.parametrize("case", LEFT, ids=["Uniform", "Interpolating", "Masked", "zeros"])
def test_prior_term_completes_the_bound_where_signal_is_left_at_the_end(
    case: tuple[tl.Process, Objective, Tensor], predicts: type[Posterior], eps: float
) -> None:
    """The bound is H plus exactly what starting from the prior costs."""
    process, objective, pi = case[0].with_schedule(tl.LinearSchedule(eps=eps)), *case[1:]
    bound = exact.integral(process, objective, predicts)
    x_0 = brute.sequences(K, L)
    price = prior_price(process, x_0, predicts).sum(-1)
    assert Bound.of(process, predicts).prior is not None
    assert float(price.max()) > 1e-4
    assert bound + float((P0.flatten() * price).sum()) == pytest.approx(
        exact.ENTROPY + exact.price_of_the_start(P0, pi, eps), abs=1e-4
    )


@pytest.mark.parametrize("eps", [0.02, 0.7])
def test_prior_divergence_is_the_sum_over_states_it_stands_for(eps: float) -> None:
    x_0 = torch.arange(K).unsqueeze(1).expand(K, L)
    uniform = brute.uniform_pi(K, L)
    for process, pi in ((exact.UNIFORM, uniform), (exact.COUPLED, uniform), (exact.INTERPOLATING, TABLES["table"])):
        ended = process.with_schedule(tl.LinearSchedule(eps=eps))
        q = eps * torch.eye(K, dtype=torch.float64).unsqueeze(1) + (1 - eps) * pi
        assert needs_no_network(ended)
        assert_close(PriorTerm().closed_form(x_0, ended, None), (q * (q / pi).log()).sum(-1))
    for other in (exact.MASKED, exact.ABSORBING, exact.ABSORBING_TABLE, exact.ZEROS):
        assert not needs_no_network(other)


@pytest.mark.parametrize(
    "process", [exact.UNIFORM, exact.MASKED, exact.ABSORBING, exact.INTERPOLATING], ids=lambda process: process.title
)
def test_prior_term_is_0_where_no_signal_is_left(process: tl.Process) -> None:
    x_0 = brute.sequences(K, L)
    nothing = torch.zeros(len(x_0), L, dtype=torch.float64)
    assert Bound.of(process, tl.Denoiser).prior is None
    if needs_no_network(process):
        assert_close(PriorTerm().closed_form(x_0, process, None), nothing)
        return
    noisy = PriorTerm().state(process, x_0, torch.Generator().manual_seed(6), None)
    prediction = tl.Denoiser(torch.randn(len(x_0), L, K, dtype=torch.float64))
    assert_close(PriorTerm().per_token(prediction, x_0, noisy, process), nothing)
