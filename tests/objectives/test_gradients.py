"""A finite loss has a finite gradient: every objective, process and representation, at every time, given or not."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.objectives.trained import TRAINED, built
from tokenloom.objectives import OBJECTIVES, Objective
from tokenloom.posteriors import Posterior, as_posterior

L = 4
TIMES = torch.tensor([0.0, 1e-12, 1e-6, 0.5, 1 - 1e-7, 1.0]).double().repeat(2)
ROWS = len(TIMES)


def state(objective: Objective, process: tl.Process, given: bool, t: Tensor = TIMES) -> tuple[Tensor, tl.Noisy]:
    """Every time in one batch: the loss of a row depends on that row alone."""
    generator = torch.Generator().manual_seed(1)
    x_0 = torch.randint(0, process.vocab_size, (ROWS, L), generator=generator)
    flags = torch.rand(ROWS, L, generator=generator) < 0.5 if given else None
    return x_0, process.corrupted(x_0, objective.times(t), generator, flags)


def gradient(objective: Objective, process: tl.Process, prediction: Posterior, x_0: Tensor, noisy: tl.Noisy) -> Tensor:
    """Of the sum over the positions that count; the loss itself is finite."""
    logits = prediction.log_ratios if isinstance(prediction, tl.Score) else prediction.logits  # type: ignore[attr-defined]
    loss = objective.per_token(prediction, x_0, noisy, process)[noisy.free]
    assert bool(loss.isfinite().all())
    if not loss.requires_grad:
        return torch.zeros_like(logits)
    slope: Tensor = torch.autograd.grad(loss.sum(), logits)[0]
    return slope


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(("name", "process_name", "predicts"), TRAINED)
def test_a_finite_loss_has_a_finite_gradient(name: str, process_name: str, predicts: type[Posterior]) -> None:
    """Float32 logits from flat ones to gaps of 100 nats, whose probabilities float32 cannot hold; alpha_1 = 0 too."""
    objective = OBJECTIVES[name]()
    for (size, scale), given, eps in itertools.product(((3, 1.0), (300, 15.0)), (False, True), (0.0, 1e-3)):
        process = built(process_name, size, L, tl.LinearSchedule(eps))
        x_0, noisy = state(objective, process, given)
        outputs = process.num_states if predicts is tl.Score else size
        logits = scale * torch.randn(ROWS, L, outputs, generator=torch.Generator().manual_seed(2))
        slope = gradient(objective, process, as_posterior(logits.requires_grad_(), predicts), x_0, noisy)
        assert bool(slope.isfinite().all()), (size, given, eps)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(("name", "process_name", "predicts"), [case for case in TRAINED if case[2] is not tl.Score])
def test_a_prediction_that_is_sure_of_x_t_has_a_finite_gradient(
    name: str, process_name: str, predicts: type[Posterior]
) -> None:
    """No other token is possible at all (-inf), given or not: a logsumexp over nothing has no gradient of its own."""
    objective = OBJECTIVES[name]()
    for given in (False, True):
        process = built(process_name, 3, L)
        x_0, noisy = state(objective, process, given)
        sure = torch.where(noisy.tokens < 3, noisy.tokens, x_0).unsqueeze(-1)
        logits = torch.full((ROWS, L, 3), -torch.inf).scatter(-1, sure, 0.0).requires_grad_()
        loss = objective.per_token(as_posterior(logits, predicts), x_0, noisy, process)
        counts = noisy.free & loss.isfinite()
        if loss.requires_grad:
            assert bool(torch.autograd.grad(loss[counts].sum(), logits)[0].isfinite().all()), given


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut])
@pytest.mark.parametrize("power", [1.0, 1.5, 2.0, 3.0])
def test_the_bound_is_finite_however_slowly_hybrid_noise_sets_in(power: float, predicts: type[Posterior]) -> None:
    objective, process = OBJECTIVES["nelbo"](), tl.Hybrid(3, schedule=tl.PolynomialSchedule(eps=0.0, power=power))
    x_0, noisy = state(objective, process, False)
    logits = torch.randn(ROWS, L, 3, generator=torch.Generator().manual_seed(2)).requires_grad_()
    slope = gradient(objective, process, as_posterior(logits, predicts), x_0, noisy)
    assert bool(slope.isfinite().all())


def test_score_entropy_ignores_the_entry_at_x_t_whatever_a_network_says_there() -> None:
    """It is 0 by definition; -inf there made the loss NaN."""
    process, objective = tl.Uniform(5), OBJECTIVES["score-entropy"]()
    x_0, noisy = state(objective, process, False, torch.full_like(TIMES, 0.5))
    ratios = torch.randn(ROWS, L, 5, generator=torch.Generator().manual_seed(0))
    plain, infinite = (
        objective.per_token(tl.Score(ratios.scatter(-1, noisy.tokens.unsqueeze(-1), own)), x_0, noisy, process)
        for own in (0.0, -torch.inf)
    )
    assert torch.equal(plain, infinite)


def test_score_entropy_of_a_state_that_is_ruled_out_is_infinite_not_nan() -> None:
    process, objective = tl.Uniform(5), OBJECTIVES["score-entropy"]()
    x_0, noisy = state(objective, process, False, torch.full_like(TIMES, 0.5))
    ratios = torch.zeros(ROWS, L, 5).scatter(-1, ((noisy.tokens + 1) % 5).unsqueeze(-1), -torch.inf)
    loss = objective.per_token(tl.Score(ratios), x_0, noisy, process)
    assert bool((loss == torch.inf).all())


def test_uniform_bound_of_a_sure_denoiser_at_the_largest_vocabulary_and_the_smallest_time() -> None:
    """The logit at x_t lies 98 nats above the normaliser of the leave-one-out posterior, where float32 has no exp."""
    size = 262_144
    process, objective = tl.Uniform(size, schedule=tl.LinearSchedule(eps=0.0)), OBJECTIVES["markov-nelbo"]()
    x_0 = torch.tensor([[3]])
    alpha = torch.tensor([1 - 2**-53], dtype=torch.float64)
    noisy = tl.Noisy(x_0, 1 - alpha, alpha)
    logits = torch.zeros(1, 1, size).index_fill(-1, torch.tensor([3]), 60.0).requires_grad_()
    assert bool(gradient(objective, process, tl.Denoiser(logits), x_0, noisy).isfinite().all())
    found, exact = (
        objective.per_token(tl.Denoiser(values), x_0, noisy, process) for values in (logits, logits.double())
    )
    torch.testing.assert_close(found, exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [tl.Masked, tl.Uniform])
def test_what_a_score_says_of_given_positions_reaches_no_gradient(kind: Callable[..., tl.Process]) -> None:
    """exp(100) is infinite in float32, and 0 times infinity is not 0."""
    process, objective = kind(5), OBJECTIVES["score-entropy"]()
    x_0, noisy = state(objective, process, True, torch.full_like(TIMES, 0.5))
    assert noisy.given is not None
    ratios = torch.zeros(ROWS, L, process.num_states).masked_fill(noisy.given.unsqueeze(-1), 100.0).requires_grad_()
    slope = gradient(objective, process, tl.Score(ratios), x_0, noisy)
    assert bool(slope.isfinite().all())
    assert not bool(slope[noisy.given].any())
