"""The formula of every bound against the sum it stands for, in float64 and in float32."""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.exact_cases import (
    ABSORBING,
    COUPLED,
    HYBRID,
    INTERPOLATING,
    MASKED,
    STEPPED,
    UNIFORM,
    Case,
    label,
    weighted_states,
)
from tests.laws.grid import K, L
from tests.laws.helpers import EXACT, assert_close
from tokenloom.objectives import (
    CrossEntropy,
    FiniteStep,
    JumpNELBO,
    MarkovNELBO,
    RateNELBO,
    ScoreEntropy,
    step_divergence,
)
from tokenloom.posteriors import Posterior


def phi(a: Tensor, b: Tensor) -> Tensor:
    return b - a + torch.xlogy(a, a) - torch.xlogy(a, b)


def random_case(process: tl.Process, t: float) -> tuple[tl.Noisy, Tensor, Tensor]:
    noisy, x_0, _ = weighted_states(process, t)
    logits = torch.randn(len(x_0), L, K, generator=torch.Generator().manual_seed(30), dtype=torch.float64)
    return noisy, x_0, logits


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
def test_uniform_bound_is_the_sum_over_jumps_it_stands_for(predicts: type[Posterior], t: float) -> None:
    """(rate x Phi) summed over every jump, with the scores taken from the process's own rates and conversions."""
    noisy, x_0, logits = random_case(UNIFORM, t)
    prediction = predicts(logits)  # type: ignore[call-arg]
    model = UNIFORM.reverse_rates(noisy, prediction).off_diagonal()
    exact = UNIFORM.reverse_rates(noisy, x_0).off_diagonal()
    assert_close(MarkovNELBO().per_token(prediction, x_0, noisy, UNIFORM), phi(exact, model).sum(-1))


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


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("process", [MASKED, ABSORBING, COUPLED], ids=lambda process: process.title)
def test_jump_bound_is_the_sum_over_jumps_it_stands_for(process: tl.Process, t: float) -> None:
    noisy, x_0, logits = random_case(process, t)
    prediction = tl.Denoiser(logits)
    model = process.reverse_rates(noisy, prediction).off_diagonal()
    exact = process.reverse_rates(noisy, x_0).off_diagonal()
    assert_close(JumpNELBO().per_token(prediction, x_0, noisy, process), phi(exact, model).sum(-1))


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
def test_the_bound_of_any_rates_is_the_closed_form_where_there_is_one(predicts: type[Posterior], t: float) -> None:
    """One for every Markov chain, which for a table of uniform noise is UDM's, and the jump bound for one-way ones."""
    noisy, x_0, logits = random_case(UNIFORM, t)
    prediction = predicts(logits)  # type: ignore[call-arg]
    closed = MarkovNELBO().per_token(prediction, x_0, noisy, UNIFORM)
    for process in (UNIFORM, tl.Interpolating(K, brute.uniform_pi(K, L), schedule=EXACT)):
        assert_close(RateNELBO().per_token(prediction, x_0, noisy, process), closed)
        assert_close(MarkovNELBO().per_token(prediction, x_0, noisy, process), closed)
    closed_forms = {INTERPOLATING: MarkovNELBO(), HYBRID: MarkovNELBO()}
    for process, objective in (closed_forms | dict.fromkeys((MASKED, ABSORBING, COUPLED), JumpNELBO())).items():
        noisy, x_0, logits = random_case(process, t)
        prediction = predicts(logits)  # type: ignore[call-arg]
        closed = objective.per_token(prediction, x_0, noisy, process)
        assert_close(RateNELBO().per_token(prediction, x_0, noisy, process), closed, "`eq:ctmc-specific-elbo`")


@pytest.mark.parametrize(("s", "t"), [(0.0, 0.25), (0.25, 0.5), (0.9, 1.0)])
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
def test_the_divergence_of_any_bridges_is_the_closed_form_where_there_is_one(
    predicts: type[Posterior], s: float, t: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of uniform noise, and one-way chains that do not say so, are scored from their bridges."""
    table = tl.Interpolating(K, brute.uniform_pi(K, L), schedule=EXACT)
    for process in (UNIFORM, MASKED, ABSORBING, COUPLED):
        noisy, x_0, logits = random_case(process, t)
        prediction = predicts(logits)  # type: ignore[call-arg]
        time = torch.full_like(noisy.t, s)
        closed = step_divergence(prediction, x_0, noisy, time, process)
        with monkeypatch.context() as patch:
            patch.setattr(tl.Process, "one_way", False)
            dense = step_divergence(prediction, x_0, noisy, time, table if process is UNIFORM else process)
        assert_close(dense, closed)
        assert closed.max() > 0.01


@pytest.mark.parametrize("t", [0.25, 0.5, 1.0])
@pytest.mark.parametrize(
    "case",
    [*STEPPED, (COUPLED, FiniteStep(4), tl.Denoiser), (HYBRID, FiniteStep(4), tl.LeaveOneOut)],
    ids=label,
)
def test_finite_bound_is_the_divergence_of_the_bridges(case: Case, t: float) -> None:
    """Four times the KL of the dense laws; at t = 1/4 the step ends at s = 0, the reconstruction."""
    process, objective, predicts = case
    noisy, x_0, logits = random_case(process, t)
    prediction = predicts(logits)  # type: ignore[call-arg]
    s = noisy.t - 0.25
    exact, model = (process.bridge(noisy, s, law).dense() for law in (x_0, prediction))
    divergence = (torch.xlogy(exact, exact) - torch.xlogy(exact, model)).sum(-1)
    assert_close(objective.per_token(prediction, x_0, noisy, process), 4 * divergence, "`eq:kl-sum`")


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
