"""Masked uniform diffusion: UDM given its transition times is masked diffusion."""

import itertools

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT, assert_close, assert_lifted_step, every_state, probabilities
from tests.laws.test_absorbing_state import NUMBER, SEQUENCES, K, L, over_sequences, uniform_bridge
from tests.statistics import assert_frequencies, assert_uniform, sequence_counts
from tokenloom.couplings import transition_times
from tokenloom.couplings.base import probability_lost

STEPS = [(0.85, 0.6), (0.6, 0.25), (0.3, 0.0)]
LOST = brute.sequences(2, L)
"""Flags of tau <= t.  Given them nothing else about tau matters at t, and -alpha' is its density on either side."""


def flag_probability(alpha: float) -> Tensor:
    lost = LOST.double()
    return (lost * (1 - alpha) + (1 - lost) * alpha).prod(-1)


def times_of(process: tl.Process) -> tl.couplings.TransitionTimes:
    assert isinstance(process.coupling, tl.couplings.TransitionTimes)
    return process.coupling


def redrawn(process: tl.Process, x_0: Tensor, x_s: Tensor, s: Tensor) -> Tensor:
    tau = process.resample(x_0, x_s, s, torch.Generator().manual_seed(17))
    assert tau is not None
    return tau


def times(lost: Tensor, alpha: float) -> Tensor:
    """Times on the right side of t = 1 - alpha."""
    t = 1 - alpha
    return torch.where(lost.bool(), t / 2, t + (1 - t) / 2).double()


def joint_posterior(p0: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """p(x_0 | x_t, flags) as [x_t, flags, x_0] and p(flags | x_t) as [x_t, flags], from x_t = x_0 or uniform."""
    tables = []
    for lost in LOST:
        one = [
            torch.full((K, K), 1 / K, dtype=torch.float64) if flag else torch.eye(K, dtype=torch.float64)
            for flag in lost
        ]
        tables.append(p0.flatten()[:, None] * torch.kron(one[0], one[1]))
    table = torch.stack(tables)  # [flags, x_0, x_t]
    posterior = (table / table.sum(1, keepdim=True)).permute(2, 0, 1)
    weights = table.sum(1).T * flag_probability(alpha)
    return posterior, weights / weights.sum(1, keepdim=True)


def resampling(alpha_s: float) -> Tensor:
    """P(flags at s | x_0, x_s) from the package, as [x_0, x_s, flags]."""
    x_0, x_s = SEQUENCES.repeat_interleave(NUMBER, 0), SEQUENCES.repeat(NUMBER, 1)
    level = torch.full((len(x_0),), alpha_s, dtype=torch.float64)
    lost = probability_lost(tl.MaskedUniform(K, schedule=EXACT), x_0, tl.Noisy(x_s, 1 - level, level))
    return torch.where(LOST.bool(), lost.unsqueeze(1), 1 - lost.unsqueeze(1)).prod(-1).view(NUMBER, NUMBER, len(LOST))


def lifted_kernel(p0: Tensor, alpha_s: float, alpha_t: float) -> Tensor:
    posterior, _ = joint_posterior(p0, alpha_t)
    return torch.einsum("tfo,tos,osg->tfsg", posterior, uniform_bridge(alpha_s, alpha_t), resampling(alpha_s))


@pytest.mark.parametrize("alpha", [*brute.ALPHAS, 0.0, 1.0])
def test_forward_law_given_times_averages_to_the_uniform_forward_law(alpha: float) -> None:
    process = tl.MaskedUniform(K, schedule=EXACT)
    x_0 = SEQUENCES.repeat_interleave(len(LOST), 0)
    tau = times(LOST, alpha).repeat(NUMBER, 1)
    level = torch.full((len(x_0),), alpha, dtype=torch.float64)
    law = over_sequences(process.marginal(tl.Noisy(x_0, 1 - level, level, tau), x_0).dense())
    averaged = (law.view(NUMBER, len(LOST), NUMBER) * flag_probability(alpha)[:, None]).sum(1)
    assert_close(averaged, brute.kernel(alpha, brute.uniform_pi(K, L)))


@pytest.mark.parametrize("mask_id", [None, K])
@pytest.mark.parametrize("alpha", brute.ALPHAS)
def test_posterior_given_times_is_the_masked_denoiser_of_the_masked_view(alpha: float, mask_id: int | None) -> None:
    """`lem:mudm-denoiser-equivalence`: against the definition, and against an oracle of the masked process."""
    p0 = brute.random_p0(K, L)
    process = tl.MaskedUniform(K, mask_id=mask_id, schedule=EXACT)
    tokens = SEQUENCES.repeat_interleave(len(LOST), 0)
    level = torch.full((len(tokens),), alpha, dtype=torch.float64)
    noisy = tl.Noisy(tokens, 1 - level, level, times(LOST, alpha).repeat(NUMBER, 1))
    predicted = tl.Oracle(p0, process, predicts=tl.Denoiser).predict(noisy)
    masked_oracle = tl.Oracle(p0, tl.Masked(K, mask_id=mask_id, schedule=EXACT), predicts=tl.Denoiser)
    masked = masked_oracle.predict(tl.Noisy(times_of(process).masked_view(process, noisy), noisy.t, noisy.alpha_t))
    folded = joint_posterior(p0, alpha)[0].reshape(-1, K, K)
    assert_close(probabilities(predicted), torch.stack([folded.sum(2), folded.sum(1)], 1))
    assert_close(probabilities(masked), probabilities(predicted))


@pytest.mark.parametrize("alpha", brute.ALPHAS)
def test_uniform_denoiser_is_the_masked_denoiser_averaged_over_the_times(alpha: float) -> None:
    """`eq:mudm-udm-denoising-posterior-mixture`: p(x_0 | x_t) = int p(x_0 | x_t, tau) p(tau | x_t)."""
    p0 = brute.random_p0(K, L)
    process = tl.MaskedUniform(K, schedule=EXACT)
    tokens = SEQUENCES.repeat_interleave(len(LOST), 0)
    level = torch.full((len(tokens),), alpha, dtype=torch.float64)
    given = tl.Noisy(tokens, 1 - level, level, times(LOST, alpha).repeat(NUMBER, 1))
    denoiser = probabilities(tl.Oracle(p0, process, predicts=tl.Denoiser).predict(given)).view(NUMBER, len(LOST), L, K)
    averaged = torch.einsum("tflk,tf->tlk", denoiser, joint_posterior(p0, alpha)[1])
    exact = tl.Oracle(p0, tl.Uniform(K, schedule=EXACT), predicts=tl.Denoiser).predict(every_state(K, L, alpha))
    assert_close(averaged, probabilities(exact))


@pytest.mark.parametrize("alpha", brute.ALPHAS)
def test_score_given_times_is_flat_where_lost_and_a_ratio_of_posteriors_where_kept(alpha: float) -> None:
    """p(x_t^l = y | x_t^{-l}, tau) is 1/K where tau <= t, and the leave-one-out posterior itself where tau > t."""
    process = tl.MaskedUniform(K, schedule=EXACT)
    tokens = SEQUENCES.repeat_interleave(len(LOST), 0)
    level = torch.full((len(tokens),), alpha, dtype=torch.float64)
    noisy = tl.Noisy(tokens, 1 - level, level, times(LOST, alpha).repeat(NUMBER, 1))
    p0 = brute.random_p0(K, L)
    nu = tl.Oracle(p0, process).predict(noisy)
    score = tl.Oracle(p0, process, predicts=tl.Score).predict(noisy)
    assert isinstance(score, tl.Score)
    law = probabilities(nu)
    own = law.gather(-1, tokens.unsqueeze(-1))
    lost = times_of(process).lost(noisy).unsqueeze(-1)
    assert_close(score.log_ratios.exp(), torch.where(lost, 1.0, law / own))


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_lifted_step_keeps_times_distributed_as_their_posterior(alpha_s: float, alpha_t: float) -> None:
    """int p(tau_t | x_t) p(x_s, tau_s | x_t, tau_t) = p(x_s | x_t) p(tau_s | x_s)."""
    p0 = brute.random_p0(K, L)
    before, after = (joint_posterior(p0, alpha)[1] for alpha in (alpha_t, alpha_s))
    reverse = brute.reverse_kernel(p0, brute.uniform_pi(K, L), alpha_s, alpha_t)
    assert_lifted_step(lifted_kernel(p0, alpha_s, alpha_t), before, after, reverse)


def test_resampled_time_chain_has_the_joint_law_of_the_uniform_reverse_chain() -> None:
    """`prop:mudm-joint`, over the whole grid alpha = 0, 0.3, 0.65, 1."""
    p0, pi = brute.random_p0(K, L), brute.uniform_pi(K, L)
    grid = [0.0, 0.3, 0.65, 1.0]
    _, initial = joint_posterior(p0, 0.0)
    path = brute.marginal(p0, pi, 0.0)[:, None] * initial
    for index, (alpha_t, alpha_s) in enumerate(itertools.pairwise(grid)):
        flat = path.reshape(-1, NUMBER, len(LOST))
        path = torch.einsum("ptf,tfsg->ptsg", flat, lifted_kernel(p0, alpha_s, alpha_t))
        path = path.view(*[NUMBER] * (index + 2), len(LOST))
    exact = brute.path_law(
        brute.marginal(p0, pi, 0.0),
        [brute.reverse_kernel(p0, pi, alpha_s, alpha_t) for alpha_t, alpha_s in itertools.pairwise(grid)],
    )
    assert_close(path.sum(-1), exact)


@pytest.mark.parametrize(
    "schedule",
    [EXACT, tl.CosineSchedule(), tl.GeometricSchedule(), tl.PolynomialSchedule()],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_resampled_times_follow_their_density(schedule: tl.Schedule, dtype: torch.dtype) -> None:
    """The side of s has its probability, and alpha_tau is uniform on either side; false-alarm rate 1e-6 each."""
    process, count = tl.MaskedUniform(K, schedule=schedule), 100_000
    s = torch.full((count,), 0.6, dtype=dtype)
    alpha = float(schedule.alpha(s)[0])
    x_0 = torch.zeros(count, 2, dtype=torch.int64)
    x_s = torch.tensor([[0, 1]]).expand(count, 2).contiguous()
    tau = redrawn(process, x_0, x_s, s)
    lost = tau <= s[:, None]
    assert lost[:, 1].all(), "a token that changed has lost its time"
    chance = (1 - alpha) / (1 + (K - 1) * alpha)
    assert_frequencies(torch.bincount(lost[:, 0].long(), minlength=2), torch.tensor([1 - chance, chance]))
    alpha_tau = schedule.alpha(tau.double())
    assert_uniform((alpha_tau[lost] - alpha) / (1 - alpha))
    assert_uniform(alpha_tau[~lost] / alpha)


def test_corruption_draws_times_and_tokens_from_their_joint_law() -> None:
    """100,000 draws: tau has the schedule's law, x_t is x_0 where tau > t, else uniform; false alarms 1e-6 each."""
    process, count = tl.MaskedUniform(K), 100_000
    x_0 = torch.tensor([[0, 2]]).expand(count, 2).contiguous()
    t = torch.full((count,), 0.4, dtype=torch.float64)
    noisy = process.corrupt(x_0, t, torch.Generator().manual_seed(18))
    assert noisy.aux is not None
    lost = noisy.aux <= 0.4
    assert_uniform(process.schedule.alpha(noisy.aux))
    assert torch.equal(noisy.tokens[~lost], x_0[~lost])
    assert_frequencies(torch.bincount(noisy.tokens[lost], minlength=K), torch.full((K,), 1 / K))
    law = brute.kernel(float(noisy.alpha_t[0]), brute.uniform_pi(K, L))[2]
    assert_frequencies(sequence_counts(noisy.tokens, K), law)


@pytest.mark.parametrize("schedule", [tl.LinearSchedule(), tl.CosineSchedule(), tl.GeometricSchedule()], ids=repr)
@pytest.mark.parametrize("edge", [0.0, 1 - 2**-53])
def test_resampled_times_never_round_to_the_wrong_side(
    schedule: tl.Schedule, edge: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the edges of the uniform numbers, for 10,000 times s: a changed token is lost, and a kept one is not."""
    process = tl.MaskedUniform(K, schedule=schedule)
    s = torch.linspace(1e-4, 1, 10_000)
    x_0 = torch.zeros(10_000, 1, dtype=torch.int64)
    monkeypatch.setattr(
        transition_times, "uniform", lambda shape, generator, device: torch.full(shape, edge, dtype=torch.float64)
    )
    assert (redrawn(process, x_0, x_0 + 1, s) <= s[:, None]).all()
    if edge > 0:
        assert (redrawn(process, x_0, x_0, s)[:-1] > s[:-1, None]).all()
