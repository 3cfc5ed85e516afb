"""UDM as a mixture over what a lifted coupling shows, U or tau, and what redrawing that recovers."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.grid import CELLS, COUPLINGS, NOISES, TABLES, TIMES, Cell, level_and_masses
from tests.laws.helpers import EXACT, assert_close, close, every_state, probabilities
from tests.statistics import assert_frequencies, assert_uniform, sequence_counts
from tokenloom.couplings import transition_times
from tokenloom.couplings.base import probability_lost

K, L = 3, 2
P0, PI = brute.random_p0(K, L), brute.uniform_pi(K, L)
SEQUENCES, NUMBER = brute.sequences(K, L), K**L
LOST = brute.sequences(2, L)
"""Flags of tau <= t.  Given them nothing else about tau matters at t, and -alpha' is its density on either side."""
STEPS = [(0.85, 0.6), (0.6, 0.25), (0.3, 0.0)]
PROCESSES = {"u": tl.AbsorbingUniform(K, schedule=EXACT), "tau": tl.MaskedUniform(K, schedule=EXACT)}
either = pytest.mark.parametrize("shown", list(PROCESSES))


def joint(shown: str, alpha: float) -> Tensor:
    """p(x_0, x_t, shown) as [shown, x_0, x_t]: absorbed by U, or x_0 before tau and uniform after."""
    if shown == "u":
        return torch.stack([brute.joint(P0, brute.point_pi(u, K), alpha) / NUMBER for u in SEQUENCES.tolist()])
    one = {0: alpha * torch.eye(K, dtype=torch.float64), 1: torch.full((K, K), (1 - alpha) / K, dtype=torch.float64)}
    return torch.stack([P0.flatten()[:, None] * torch.kron(one[a], one[b]) for a, b in LOST.tolist()])


def shown_given(shown: str, alpha: float) -> Tensor:
    """p(shown | x_t) as [x_t, shown]."""
    weights = joint(shown, alpha).sum(1).T
    return weights / weights.sum(1, keepdim=True)


def every_pair(shown: str, alpha: float) -> tl.Noisy:
    """Every (x_t, shown), what is shown varying fastest; times lie on the right side of t = 1 - alpha."""
    values = SEQUENCES if shown == "u" else torch.where(LOST.bool(), (1 - alpha) / 2, 1 - alpha / 2).double()
    tokens = SEQUENCES.repeat_interleave(len(values), 0)
    level = torch.full((len(tokens),), alpha, dtype=torch.float64)
    return tl.Noisy(tokens, 1 - level, level, values.repeat(NUMBER, 1))


def over_sequences(each: Tensor) -> Tensor:
    """Independent positions as a law over sequences: [..., L, K] to [..., K^L]."""
    return (each[..., 0, :, None] * each[..., 1, None, :]).flatten(-2)


def resampling(shown: str, alpha_s: float) -> Tensor:
    """p(shown at s | x_0, x_s) as [x_0, x_s, shown], from the package's probability that a token is lost."""
    x_0, x_s = SEQUENCES.repeat_interleave(NUMBER, 0), SEQUENCES.repeat(NUMBER, 1)
    level = torch.full((len(x_0),), alpha_s, dtype=torch.float64)
    lost = probability_lost(PROCESSES[shown], x_0, tl.Noisy(x_s, 1 - level, level))
    if shown == "u":
        law = over_sequences(lost.unsqueeze(-1) * torch.nn.functional.one_hot(x_s, K) + (1 - lost.unsqueeze(-1)) / K)
    else:
        law = torch.where(LOST.bool(), lost.unsqueeze(1), 1 - lost.unsqueeze(1)).prod(-1)
    return law.view(NUMBER, NUMBER, -1)


def lifted_kernel(shown: str, alpha_s: float, alpha_t: float) -> Tensor:
    """One step of the resampled chain, [x_t, shown_t, x_s, shown_s]: x_0 drawn jointly, then UDM's bridge."""
    table = joint(shown, alpha_t)
    posterior = (table / table.sum(1, keepdim=True)).nan_to_num(0.0)
    x_t, x_0 = SEQUENCES.repeat_interleave(NUMBER, 0), SEQUENCES.repeat(NUMBER, 1)
    level = torch.full((len(x_t),), alpha_t, dtype=torch.float64)
    noisy, s = tl.Noisy(x_t, 1 - level, level), torch.full_like(level, 1 - alpha_s)
    bridge = over_sequences(tl.Uniform(K, schedule=EXACT).bridge(noisy, s, x_0).dense()).view(NUMBER, NUMBER, NUMBER)
    return torch.einsum("uot,tos,osv->tusv", posterior, bridge, resampling(shown, alpha_s))


@either
@pytest.mark.parametrize("alpha", brute.ALPHAS)
def test_uniform_denoiser_is_the_lifted_one_averaged_over_what_is_shown(shown: str, alpha: float) -> None:
    """`eq:audm-denoiser-mixture-app` and `eq:mudm-udm-denoising-posterior-mixture`: against UDM by enumeration."""
    lifted = tl.Oracle(P0, PROCESSES[shown], predicts=tl.Denoiser).predict(every_pair(shown, alpha))
    averaged = torch.einsum("tflk,tf->tlk", probabilities(lifted).view(NUMBER, -1, L, K), shown_given(shown, alpha))
    assert_close(averaged, brute.denoiser(P0, PI, alpha), "the denoiser as a mixture over what is shown")
    uniform = tl.Oracle(P0, tl.Uniform(K, schedule=EXACT), predicts=tl.Denoiser).predict(every_state(K, L, alpha))
    assert_close(probabilities(uniform), averaged, "UDM's denoiser")


@either
@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_lifted_step_keeps_what_is_shown_at_its_posterior(shown: str, alpha_s: float, alpha_t: float) -> None:
    """sum_a p(a_t | x_t) p(x_s, a_s | x_t, a_t) = p(x_s | x_t) p(a_s | x_s), a what is shown."""
    step = torch.einsum("ta,tasb->tsb", shown_given(shown, alpha_t), lifted_kernel(shown, alpha_s, alpha_t))
    reverse = brute.reverse_kernel(P0, PI, alpha_s, alpha_t)
    equation = {"u": "`lem:lifted-process-marginalization`", "tau": "`eq:mudm-lifted-reverse-tau`"}[shown]
    assert_close(step, reverse.unsqueeze(-1) * shown_given(shown, alpha_s), equation)


@either
def test_resampled_chain_has_the_joint_law_of_the_uniform_reverse_chain(shown: str) -> None:
    """`prop:remasked-audm-udm-joint` and `prop:mudm-joint`, over the whole grid alpha = 0, 0.3, 0.65, 1."""
    steps = [(alpha_s, alpha_t) for alpha_t, alpha_s in itertools.pairwise([0.0, 0.3, 0.65, 1.0])]
    start = brute.marginal(P0, PI, 0.0)
    path = start[:, None] * shown_given(shown, 0.0)
    if shown == "u":
        assert_close(path, torch.eye(NUMBER, dtype=torch.float64) / NUMBER, "X_1 = U_1, uniform")
    for step in steps:
        path = torch.einsum("...tu,tusv->...tsv", path, lifted_kernel(shown, *step))
    exact = brute.path_law(start, [brute.reverse_kernel(P0, PI, *step) for step in steps])
    assert_close(path.sum(-1), exact, {"u": "`prop:remasked-audm-udm-joint`", "tau": "`prop:mudm-joint`"}[shown])


@pytest.mark.parametrize("mask_id", [None, K])
@pytest.mark.parametrize("noise", [noise for noise, coupling in CELLS if coupling == "times"])
def test_posterior_given_times_is_the_masked_denoiser_of_the_masked_view(noise: str, mask_id: int | None) -> None:
    """`lem:mudm-denoiser-equivalence`, whatever the noise; that the oracle knows it too is in `test_grid.py`."""
    coupling = tl.couplings.TransitionTimes(mask_id=mask_id)
    masked = tl.Oracle(P0, tl.Masked(K, mask_id=mask_id, schedule=EXACT), predicts=tl.Denoiser)
    for step in TIMES:
        cell = Cell(noise, "times", *step)
        view = coupling.masked_view(cell.process.with_coupling(coupling), cell.noisy)
        predicted = masked.predict(replace(cell.noisy, tokens=view, aux=None))
        assert_close(probabilities(predicted), cell.denoiser, "`lem:mudm-denoiser-equivalence`")


@pytest.mark.parametrize("noise", list(NOISES))
def test_a_resampled_step_is_a_step_of_the_markov_chain_with_what_is_shown(noise: str) -> None:
    """x_0 ~ p(. | x_t, lost_t), x_s by the *Markov* bridge, lost_s ~ p(. | x_0, x_s): for one position, whose posterior
    is the joint one, the sum over lost_t is p(x_s, lost_s, x_t) of the Markov chain, so trajectories have its law.
    """
    p0 = P0.sum(1)
    part = tl.noise.Table(K, TABLES[noise][:1]) if noise in TABLES else NOISES[noise]
    times, chain = (tl.Process(part, COUPLINGS[name], EXACT) for name in ("times", "markov"))
    for s, t in TIMES:
        (alpha_s, m_s), (alpha_t, m_t) = level_and_masses(noise, s), level_and_masses(noise, t)
        eye = torch.eye(m_t.shape[1], dtype=torch.float64)
        q_s = m_s[0] + alpha_s * eye[:K]
        kept = alpha_t / alpha_s
        up = kept * eye + m_t[0] - kept * m_s[0]
        expected = torch.einsum("i,ia,ab->ab", p0, (m_s[0] / q_s).nan_to_num(0.0) * q_s, up)  # x_s is noise
        total, flagged = torch.zeros_like(up), torch.zeros_like(up)
        for lost in (True, False):
            shown = m_t[0].expand(K, -1) if lost else alpha_t * eye[:K]  # q(x_t, lost | x_0)
            possible = (p0 @ shown) > 0
            tokens = possible.nonzero()
            time = torch.full((len(tokens),), t, dtype=torch.float64)
            aux = torch.full_like(tokens, t if lost else 1, dtype=torch.float64)
            noisy = tl.Noisy(tokens, time, times.alpha(time), aux)
            mu = tl.Oracle(p0, times, predicts=tl.Denoiser).predict(noisy).log_probs.exp()[:, 0]
            for k in range(K):
                x_0 = torch.full_like(tokens, k)
                law = chain.bridge(noisy, torch.full_like(time, s), x_0).dense()[:, 0]
                states = torch.arange(len(eye)).unsqueeze(1)
                early = torch.full((len(eye),), s, dtype=torch.float64)
                x_s = tl.Noisy(states, early, chain.alpha(early))
                redrawn = probability_lost(times, torch.full_like(states, k), x_s)[:, 0].nan_to_num(0.0)
                weight = (p0 @ shown)[possible].unsqueeze(-1) * mu[:, k : k + 1] * law
                total[:, possible] += weight.T
                flagged[:, possible] += (weight * redrawn).T
        close(total, (p0 @ q_s)[:, None] * up, "p(x_s, x_t) of the Markov chain")
        close(flagged, expected, "p(x_s, lost_s, x_t) of the Markov chain")


def redrawn(process: tl.Process, x_0: Tensor, x_s: Tensor, s: Tensor) -> Tensor:
    drawn = process.resample(x_0, x_s, s, torch.Generator().manual_seed(17))
    assert drawn is not None
    return drawn


def test_redrawn_absorbing_states_follow_their_law() -> None:
    """200,000 draws for each of x_s = x_0 and x_s != x_0; false-alarm rate 1e-6 each."""
    count = 200_000
    x_0, x_s = (torch.tensor([row]).expand(count, L).contiguous() for row in ((0, 0), (0, 2)))
    drawn = redrawn(PROCESSES["u"], x_0, x_s, torch.full((count,), 0.7, dtype=torch.float64))
    law = resampling("u", 0.3)[0, 2].view(K, K)
    for position in range(L):
        assert_frequencies(torch.bincount(drawn[:, position], minlength=K), law.sum(1 - position))


@pytest.mark.parametrize(
    "schedule", [EXACT, tl.CosineSchedule(), tl.GeometricSchedule(), tl.PolynomialSchedule()], ids=repr
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
