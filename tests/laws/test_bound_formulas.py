"""The formula of every bound against the sum it stands for, in float64 and in float32."""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.exact_cases import ABSORBING, COUPLED, HYBRID, INTERPOLATING, MASKED, UNIFORM, weighted_states
from tests.laws.grid import K, L
from tests.laws.helpers import EXACT, assert_close
from tokenloom.objectives import CrossEntropy, FiniteStep, JumpNELBO, MarkovNELBO, RateNELBO, ScoreEntropy
from tokenloom.posteriors import Posterior


def phi(a: Tensor, b: Tensor) -> Tensor:
    return b - a + torch.xlogy(a, a) - torch.xlogy(a, b)


def random_case(process: tl.Process, t: float) -> tuple[tl.Noisy, Tensor, Tensor]:
    noisy, x_0, _ = weighted_states(process, t)
    logits = torch.randn(len(x_0), L, K, generator=torch.Generator().manual_seed(30), dtype=torch.float64)
    return noisy, x_0, logits


FLAT_TABLE = tl.Interpolating(K, brute.uniform_pi(K, L), schedule=EXACT)
"""Uniform noise by another name, which no closed form of uniform noise recognises."""
CLOSED = dict.fromkeys((UNIFORM, FLAT_TABLE, INTERPOLATING, HYBRID), MarkovNELBO()) | dict.fromkeys(
    (MASKED, ABSORBING, COUPLED), JumpNELBO()
)


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
@pytest.mark.parametrize("process", CLOSED, ids=lambda process: process.title)
def test_every_bound_is_a_sum_over_jumps(process: tl.Process, predicts: type[Posterior], t: float) -> None:
    """(rate x Phi) summed over every jump, the closed form and the one for any rates."""
    noisy, x_0, logits = random_case(UNIFORM if process is FLAT_TABLE else process, t)
    prediction = predicts(logits)  # type: ignore[call-arg]
    model = process.reverse_rates(noisy, prediction).off_diagonal()
    exact = process.reverse_rates(noisy, x_0).off_diagonal()
    for objective in (CLOSED[process], RateNELBO()):
        found = objective.per_token(prediction, x_0, noisy, process)
        assert_close(found, phi(exact, model).sum(-1), "`eq:ctmc-specific-elbo`")


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
def test_denoiser_coordinates_are_the_linear_bridge_bound_of_the_paper(t: float) -> None:
    """`eq:marginalization-ct-elbo-linear-bridge`, symbol by symbol."""
    noisy, x_0, logits = random_case(UNIFORM, t)
    mu, alpha, x_t = torch.softmax(logits, -1), 1 - t, noisy.tokens.unsqueeze(-1)
    clean = torch.nn.functional.one_hot(x_0, K).double()

    def bracket(law: Tensor) -> Tensor:
        return 1 - K * alpha / (1 + (K - 1) * alpha) * law.gather(-1, x_t) + K * alpha / (1 - alpha) * law

    terms = phi(bracket(clean), bracket(mu)).scatter(-1, x_t, 0.0)
    paper = 1 / alpha / K * terms.sum(-1)
    found = MarkovNELBO().per_token(tl.Denoiser(logits), x_0, noisy, UNIFORM)
    assert_close(found, paper, "`eq:marginalization-ct-elbo-linear-bridge`")


@pytest.mark.parametrize(("steps", "t"), [(4, 0.25), (4, 0.5), (4, 1.0), (10, 1.0)])
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
@pytest.mark.parametrize("process", CLOSED, ids=lambda process: process.title)
def test_finite_bound_is_the_divergence_of_the_bridges(
    process: tl.Process, predicts: type[Posterior], steps: int, t: float
) -> None:
    """n times the KL of the dense laws; at t = 1/4 the step ends at s = 0, the reconstruction."""
    noisy, x_0, logits = random_case(UNIFORM if process is FLAT_TABLE else process, t)
    prediction = predicts(logits)  # type: ignore[call-arg]
    s = noisy.t - 1 / steps
    exact, model = (process.bridge(noisy, s, law).dense() for law in (x_0, prediction))
    divergence = (torch.xlogy(exact, exact) - torch.xlogy(exact, model)).sum(-1)
    assert_close(FiniteStep(steps).per_token(prediction, x_0, noisy, process), steps * divergence, "`eq:kl-sum`")
    assert_close(tl.objectives.step_divergence(prediction, x_0, noisy, s, process), divergence, "`eq:kl-sum`")
    assert divergence.max() > 0.01


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
def test_score_entropy_of_converted_scores_is_the_uniform_bound(t: float) -> None:
    noisy, x_0, logits = random_case(UNIFORM, t)
    score = tl.convert(tl.LeaveOneOut(logits), tl.Score, noisy.tokens, noisy.alpha_t, UNIFORM)
    bound = MarkovNELBO().per_token(tl.LeaveOneOut(logits), x_0, noisy, UNIFORM)
    assert_close(ScoreEntropy().per_token(score, x_0, noisy, UNIFORM), bound)


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
def test_cross_entropy_of_a_leave_one_out_network_is_that_of_its_denoiser(t: float) -> None:
    noisy, x_0, logits = random_case(UNIFORM, t)
    denoiser = tl.convert(tl.LeaveOneOut(logits), tl.Denoiser, noisy.tokens, noisy.alpha_t, UNIFORM)
    expected = -denoiser.log_probs.gather(-1, x_0.unsqueeze(-1)).squeeze(-1)
    assert_close(CrossEntropy().per_token(tl.LeaveOneOut(logits), x_0, noisy, UNIFORM), expected)


@pytest.mark.parametrize("size", [2, 27, 50257])
@pytest.mark.parametrize("t", [1e-5, 1e-3, 0.5, 0.999, 1.0])
def test_bounds_hold_in_float32(size: int, t: float) -> None:
    """Float32 logits against float64 on the same values: within 1e-4, or 1e-6 of the weight 1/t of a jump."""
    generator = torch.Generator().manual_seed(31)
    logits = 3 * torch.randn(1, 4, size, generator=generator)
    x_t = torch.tensor([[0, 1, 0, size - 1]])
    x_0 = torch.tensor([[0, 0, 1, size - 1]])
    process = tl.Uniform(size)
    time = torch.tensor([t])
    noisy = tl.Noisy(x_t, time, process.alpha(time))
    for objective, predicts in (
        (MarkovNELBO(), tl.LeaveOneOut),
        (MarkovNELBO(), tl.Denoiser),
        (CrossEntropy(), tl.LeaveOneOut),
        (FiniteStep(1000), tl.LeaveOneOut),
    ):
        single = objective.per_token(predicts(logits), x_0, noisy, process)
        double = objective.per_token(predicts(logits.double()), x_0, noisy, process)
        assert single.isfinite().all()
        torch.testing.assert_close(single, double, rtol=1e-4, atol=1e-6 / t)


@pytest.mark.parametrize("gap", [5.0, 12.0, 20.0])
def test_a_sure_denoiser_is_read_accurately_in_float32(gap: float) -> None:
    """Its own token holds nearly all mass; what is left, divided by the evidence, is the leave-one-out posterior."""
    process, size = tl.Uniform(27), 27
    logits = torch.randn(1, 2, size, generator=torch.Generator().manual_seed(32))
    logits[..., 3] = logits.amax() + gap
    x_t, x_0 = torch.tensor([[3, 3]]), torch.tensor([[3, 5]])
    time = torch.tensor([1e-3])
    noisy = tl.Noisy(x_t, time, process.alpha(time))
    single, double = (
        MarkovNELBO().per_token(tl.Denoiser(values), x_0, noisy, process) for values in (logits, logits.double())
    )
    torch.testing.assert_close(single, double, rtol=1e-4, atol=1e-9)
