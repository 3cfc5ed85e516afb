"""A few lines add a noise or a coupling: those below are unknown to the package, and every law holds for them.

Training, saving and the command line with such parts are in `test_third_parties.py` and `test_extending.py`.
"""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.exact_cases import quadrature
from tests.laws.helpers import EXACT, assert_close
from tests.laws.test_rates import assert_limit, rate_as_limit
from tests.statistics import assert_frequencies
from tokenloom.couplings import Absorbing, Coupling, Lifted, Markov, Maximal, Timed, TransitionTimes
from tokenloom.couplings.steps import Endpoint
from tokenloom.drawing.randomness import Randomness
from tokenloom.noise import Law, Noise, TableLaw
from tokenloom.objectives.nelbo import continuous_bound
from tokenloom.process import Process
from tokenloom.samplers import CORRECTORS, PREDICTORS
from tokenloom.types import PerPosition, PerRow

K, L = 4, 3
P0 = brute.random_p0(K, L)
ONE = brute.random_p0(K, 1)
FOUR: list[Coupling] = [Markov(), Maximal(), Absorbing(), TransitionTimes()]
STEPS = [(0.85, 0.6), (0.6, 0.25), (0.3, 0.0), (1.0, 0.4)]
Shares = tuple[PerPosition, PerPosition]


@dataclass(frozen=True)
class Zipf(Noise):
    """A lost token becomes token k with probability proportional to (k + 1)^-exponent: frequent tokens are noise."""

    exponent: float = 1.0

    def law(self) -> Law:
        weights = torch.arange(1, self.vocab_size + 1, dtype=torch.float64) ** -self.exponent
        return TableLaw((weights / weights.sum()).view(1, 1, -1))


@dataclass(frozen=True)
class Tilted(tl.noise.Uniform):
    """Noise that says it is uniform, and has a law of its own."""

    def law(self) -> Law:
        return Zipf(self.vocab_size).law()


@dataclass(frozen=True)
class Blend(Coupling):
    """q(x_s, x_t | x_0) = rho q_Markov + (1 - rho) q_maximal: renewed on the way with probability rho."""

    rho: float = 0.5

    def check(self, process: Process) -> None:
        Maximal().check(process)

    def shares(self, process: Process, noisy: tl.Noisy, s: PerRow) -> Shares:
        return self._blended(Markov().shares(process, noisy, s), Maximal().shares(process, noisy, s))

    def rates(self, process: Process, noisy: tl.Noisy) -> Shares:
        return self._blended(Markov().rates(process, noisy), Maximal().rates(process, noisy))

    def _blended(self, markov: Shares, maximal: Shares) -> Shares:
        clean, fresh = (self.rho * one + (1 - self.rho) * other for one, other in zip(markov, maximal, strict=True))
        return clean, fresh


@dataclass(frozen=True)
class Together(Timed):
    """All positions of a sequence lose their token at one time: each alone, a transition time as usual."""

    def auxiliary(self, process: Process, tokens: Tensor, generator: Randomness | None) -> Tensor:
        return TransitionTimes().auxiliary(process, tokens[:, :1], generator).expand(tokens.shape)

    def resample(self, process: Process, x_0: Tensor, x_s: tl.Noisy, generator: Randomness | None) -> Tensor:
        raise ValueError("one time for all cannot be redrawn position by position")


@dataclass(frozen=True)
class SharedU(Lifted):
    """One absorbing token for a whole sequence: each position alone is absorbed as usual."""

    def law(self, process: Process, noisy: tl.Noisy) -> Law:
        return Absorbing().law(process, noisy)

    def mass(self, process: Process, noisy: tl.Noisy) -> Tensor:
        return Absorbing().mass(process, noisy)

    def auxiliary(self, process: Process, tokens: Tensor, generator: Randomness | None) -> Tensor:
        return Absorbing().auxiliary(process, tokens[:, :1], generator).expand(tokens.shape)

    def prior(self, process: Process, noisy: tl.Noisy, generator: Randomness | None) -> tl.Noisy:
        return Absorbing().prior(process, noisy, generator)

    def resample(self, process: Process, x_0: Tensor, x_s: tl.Noisy, generator: Randomness | None) -> Tensor:
        raise ValueError("one U for all cannot be redrawn position by position")


def zipf_law(size: int = K) -> Tensor:
    weights = 1 / torch.arange(1, size + 1, dtype=torch.float64)
    return weights / weights.sum()


def pair_law(pi: Tensor, rho: float, alpha_s: float, alpha_t: float) -> Tensor:
    """q(x_s, x_t | x_0) of `Blend` as [x_0, x_s, x_t], from the definition of the two paths."""
    eye = torch.eye(len(pi), dtype=torch.float64)
    clean, same, kept = eye[:, :, None], eye[None], alpha_t / alpha_s
    markov = (alpha_s * clean + (1 - alpha_s) * pi[:, None]) * (kept * same + (1 - kept) * pi)
    maximal = alpha_t * clean * eye[:, None] + (alpha_s - alpha_t) * clean * pi + (1 - alpha_s) * same * pi
    return rho * markov + (1 - rho) * maximal


def assert_bayes(process: Process, pair: Tensor, alpha_s: float, alpha_t: float) -> None:
    """The bridge from x_0, and both averaged bridges of a one-position p_0, against Bayes' rule on the pair law."""
    level = torch.full((K,), alpha_t, dtype=torch.float64)
    s = torch.full_like(level, 1 - alpha_s)
    noisy = tl.Noisy(torch.arange(K).unsqueeze(1), 1 - level, level)
    predictions = [tl.Oracle(ONE, process, predicts=kind).predict(noisy) for kind in (tl.Denoiser, tl.LeaveOneOut)]
    average = (ONE[:, None, None] * pair).sum(0)
    cases: list[tuple[Endpoint, Tensor]] = [(torch.full((K, 1), x_0), pair[x_0]) for x_0 in range(K)]
    for endpoint, table in [*cases, *((prediction, average) for prediction in predictions)]:
        possible = table.sum(0) > 0
        law = process.bridge(noisy, s, endpoint).dense().squeeze(1)
        assert_close(law[possible], (table / table.sum(0)).T[possible], "`eq:bridge-prob` of an own coupling")


def assert_samples_p_0(process: Process, generator: torch.Generator) -> None:
    """One position, so that factorised steps are exact, and alpha_1 = 0; 20,000 draws, false-alarm rate 1e-6."""
    for predicts in (tl.Denoiser, tl.LeaveOneOut):
        tokens = tl.sample(tl.Oracle(ONE, process, predicts=predicts), 20_000, steps=4, generator=generator)
        assert_frequencies(torch.bincount(tokens.flatten(), minlength=K), ONE)


@pytest.mark.parametrize("coupling", FOUR, ids=lambda coupling: type(coupling).__name__)
@pytest.mark.parametrize("noise", [Zipf(K), Tilted(K)], ids=repr)
def test_an_own_noise_is_the_table_of_its_law_under_every_coupling(noise: Noise, coupling: Coupling) -> None:
    """Draws, steps and bounds are bit for bit those of `noise.Table`, which `laws/test_grid.py` holds to its laws.

    The same samplers and correctors support both.
    """
    schedule = tl.LinearSchedule(eps=0.1)  # so that a bound has a term of the prior
    mine, table = (Process(part, coupling, schedule) for part in (noise, tl.noise.Table(K, zipf_law()[None])))
    t = torch.full((64,), 0.7, dtype=torch.float64)
    x_0, found = torch.arange(K).repeat(L, 16).T, []
    for process in (mine, table):
        generator = torch.Generator().manual_seed(0)
        noisy = process.corrupt(x_0, t, generator)
        parts = [noisy.tokens, process.prior(64, L, generator).tokens]
        for predicts in (tl.Denoiser, tl.LeaveOneOut):
            oracle = tl.Oracle(P0, process, predicts=predicts)
            prediction = oracle.predict(noisy)
            parts += [process.bridge(noisy, t / 2, endpoint).dense() for endpoint in (prediction, x_0)]
            parts.append(continuous_bound(process, predicts).per_token(prediction, x_0, noisy, process))
            parts.append(tl.nelbo(oracle, x_0, generator=generator).per_sequence)
            parts.append(tl.sample(oracle, 16, steps=4, generator=generator))
        found.append(parts)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    for kernels in (PREDICTORS, CORRECTORS):
        assert [kernels[name].supports(mine) for name in kernels] == [kernels[name].supports(table) for name in kernels]
    assert not mine.uniform_noise
    assert mine.tight == table.tight == (coupling != Maximal())


@pytest.mark.parametrize(
    ("noise", "pi"),
    [(tl.noise.Uniform(K), brute.uniform_pi(K, 1)[0]), (Zipf(K), zipf_law())],
    ids=["uniform", "zipf"],
)
@pytest.mark.parametrize("rho", [0.0, 0.3, 1.0])
def test_an_own_coupling_takes_every_noise(noise: Noise, pi: Tensor, rho: float, generator: torch.Generator) -> None:
    """Its marginals by 40,000 draws, false-alarm rate 1e-6; its steps by Bayes' rule."""
    process = Process(noise, Blend(rho), EXACT)
    noisy = process.corrupt(torch.full((40_000, 1), 2), torch.full((40_000,), 0.7, dtype=torch.float64), generator)
    law = 0.3 * torch.eye(K, dtype=torch.float64)[2] + 0.7 * pi
    assert_frequencies(torch.bincount(noisy.tokens.flatten(), minlength=K), law)
    for step in STEPS:
        assert_bayes(process, pair_law(pi, rho, *step), *step)
    assert_samples_p_0(process, generator)


@pytest.mark.parametrize("noise", [tl.noise.Uniform(K), Zipf(K)], ids=["uniform", "zipf"])
def test_the_rates_of_an_own_coupling_are_those_of_its_bridge_and_keep_the_marginals(noise: Noise) -> None:
    """q_t R = -dq_t/dt given x_0, which is [. = x_0] - w for alpha = 1 - t."""
    process = Process(noise, Blend(0.3), EXACT)
    times = torch.full((K,), 0.6, dtype=torch.float64)
    noisy = tl.Noisy(torch.arange(K).unsqueeze(1), times, 1 - times)
    pi = process.law(noisy).log_probs(noisy.tokens.device).exp()[0, 0]
    for clean in range(K):
        x_0 = torch.full((K, 1), clean)
        q = process.marginal(noisy, x_0).dense()[0, 0]
        rates = process.reverse_rates(noisy, x_0).off_diagonal()
        assert_limit(rates, rate_as_limit(process, noisy, x_0))
        leaving = torch.diag(rates.sum(-1).squeeze(1))
        assert_close(q @ (rates.squeeze(1) - leaving), torch.eye(K, dtype=torch.float64)[clean] - pi)


def exact_bound(process: Process) -> float:
    """The bound at the exact posterior of a one-position p_0, integrated over t."""
    times, weights = quadrature()
    t = times.repeat_interleave(K**2)
    x_0, x_t = brute.sequences(K, 2).repeat(len(times), 1).unsqueeze(1).unbind(-1)
    noisy = tl.Noisy(x_t, t, process.alpha(t))
    chance = ONE[x_0] * process.marginal(noisy, x_0).dense().gather(-1, x_t.unsqueeze(-1)).squeeze(-1)
    prediction = tl.Oracle(ONE, process).predict(noisy)
    losses = continuous_bound(process, tl.LeaveOneOut).per_token(prediction, x_0, noisy, process)
    return float((weights * (chance * losses).view(len(times), -1).sum(-1)).sum())


def test_the_bound_of_an_own_coupling_is_that_of_its_rates() -> None:
    """The entropy where it is Markov, more elsewhere; convex in the rates, so below the mean of the two ends."""
    entropy = -float((ONE * ONE.log()).sum())
    markov, between, maximal = (exact_bound(Process(Zipf(K), Blend(rho), EXACT)) for rho in (1.0, 0.5, 0.0))
    assert markov == pytest.approx(entropy, abs=1e-4)
    assert markov + 0.01 < between < (markov + maximal) / 2
    for coupling, expected in ((Markov(), markov), (Maximal(), maximal)):
        assert exact_bound(Process(Zipf(K), coupling, EXACT)) == pytest.approx(expected, abs=1e-8)


def test_an_own_coupling_is_taken_for_neither_of_those_it_is_made_of() -> None:
    """Its clock has no closed integral and its way up depends on x_0: nothing asks it for jumps, a tight bound or a
    step up, and noise that it does not exist for is refused."""
    process = Process(Zipf(K), Blend(0.5))
    assert process.name == "Zipf/Blend"
    assert not any((process.one_way, process.lifted, process.reveals, process.markov, process.tight))
    assert process.has_jump_rates
    assert not PREDICTORS["gillespie"].supports(process)
    assert not CORRECTORS["forward-backward"].supports(process)
    t = torch.tensor([0.5], dtype=torch.float64)
    with pytest.raises(ValueError, match="Zipf noise, Blend coupling is not Markov"):
        process.forward(process.corrupt(torch.zeros(1, L).long(), t), t + 0.1)
    with pytest.raises(ValueError, match="the Maximal coupling needs noise that only grows"):
        Process(tl.noise.MaskAndUniform(K), Blend())


CAPABILITIES = ("lifted", "has_jump_rates", "all_or_nothing", "shows_auxiliary", "one_way", "reveals", "uniform_noise")


@pytest.mark.parametrize("noise", [tl.noise.Uniform(K), Zipf(K), tl.noise.Mask(K)], ids=["uniform", "zipf", "mask"])
@pytest.mark.parametrize(
    ("own", "like"), [(Together(), TransitionTimes()), (SharedU(), Absorbing())], ids=["together", "shared"]
)
def test_an_own_lifted_coupling_can_do_what_its_laws_say(own: Coupling, like: Coupling, noise: Noise) -> None:
    """Each position alone is that of a built-in coupling, so they can do the same and have the same steps."""
    mine, usual = Process(noise, own, EXACT), Process(noise, like, EXACT)
    assert [getattr(mine, name) for name in CAPABILITIES] == [getattr(usual, name) for name in CAPABILITIES]
    assert (mine.mask, mine.input_states) == (usual.mask, usual.input_states)
    generator = torch.Generator().manual_seed(0)
    t = torch.full((64,), 0.6, dtype=torch.float64)
    noisy = mine.corrupt(torch.randint(0, K, (64, 3), generator=generator), t, generator)
    seen = [process.network_input(noisy) for process in (mine, usual)]
    assert torch.equal(seen[0].tokens, seen[1].tokens)
    assert (seen[0].absorbing is None) == (seen[1].absorbing is None) == (not mine.shows_auxiliary)
    prediction = tl.Denoiser(torch.randn(64, 3, K, generator=generator, dtype=torch.float64))
    one, other = (process.bridge(noisy, t / 2, prediction).dense() for process in (mine, usual))
    assert_close(one, other)


@pytest.mark.parametrize("own", [Together(), SharedU()], ids=["together", "shared"])
def test_an_own_lifted_coupling_samples_p_0(own: Coupling, generator: torch.Generator) -> None:
    assert_samples_p_0(Process(Zipf(K), own, EXACT), generator)


def test_under_a_mask_an_own_coupling_of_both_is_masked_diffusion() -> None:
    mine, masked = Process(tl.noise.Mask(K), Blend(0.3), EXACT), tl.Masked(K, schedule=EXACT)
    t = torch.full((K + 1,), 0.6, dtype=torch.float64)
    noisy = tl.Noisy(torch.arange(K + 1).unsqueeze(1), t, 1 - t)
    logits = torch.randn(K + 1, 1, K, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for prediction in (tl.Denoiser(logits), tl.LeaveOneOut(logits)):
        laws = [process.bridge(noisy, t / 2, prediction).dense() for process in (mine, masked)]
        assert_close(laws[0], laws[1])
