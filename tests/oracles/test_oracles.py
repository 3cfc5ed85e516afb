"""The exact networks: against enumeration, against each other, and at realistic size."""

import math
import time

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.posteriors import Posterior

K, L = 3, 3
PROCESSES = [
    tl.Uniform(K),
    tl.Masked(K),
    tl.MaxCoupling(K),
    tl.AbsorbingUniform(K),
    tl.MaskedUniform(K),
    tl.Interpolating(K, brute.random_pi(K, L)),
]


def chain(size: int, seed: int = 22) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    initial = torch.softmax(torch.randn(size, generator=generator, dtype=torch.float64), -1)
    transition = torch.softmax(2 * torch.randn(size, size, generator=generator, dtype=torch.float64), -1)
    return initial, transition


def chain_table(initial: Tensor, transition: Tensor) -> Tensor:
    return initial[:, None, None] * transition[:, :, None] * transition[None]


def log_probs(posterior: Posterior) -> Tensor:
    if isinstance(posterior, tl.Score):
        return posterior.log_ratios
    assert isinstance(posterior, tl.Denoiser | tl.LeaveOneOut)
    return posterior.log_probs


@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut])
def test_oracle_predicts_the_enumerated_posterior(predicts: type[tl.Denoiser] | type[tl.LeaveOneOut]) -> None:
    p0, tokens = brute.random_p0(K, L), brute.sequences(K, L)
    t = torch.full((len(tokens),), 0.4, dtype=torch.float64)
    table = brute.random_pi(K, L)
    for process, pi in ((tl.Uniform(K), brute.uniform_pi(K, L)), (tl.Interpolating(K, table), table)):
        noisy = tl.Noisy(tokens, t, process.alpha(t))
        alpha = float(noisy.alpha_t[0])
        exact = brute.denoiser(p0, pi, alpha) if predicts is tl.Denoiser else brute.leave_one_out(p0, pi, alpha)
        predicted = tl.Oracle(p0, process, predicts=predicts).predict(noisy)
        assert type(predicted) is predicts
        torch.testing.assert_close(log_probs(predicted).exp(), exact, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.title)
@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut, tl.Score])
@pytest.mark.parametrize("schedule", [tl.LinearSchedule(), tl.CosineSchedule()])
@pytest.mark.parametrize("sparse", [False, True])
def test_markov_oracle_agrees_with_the_table(
    process: tl.Process, predicts: type[Posterior], schedule: tl.Schedule, sparse: bool, generator: torch.Generator
) -> None:
    """Also for a chain with impossible transitions, where messages vanish."""
    initial, transition = chain(K)
    if sparse:
        transition = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.3, 0.7], [0.9, 0.0, 0.1]], dtype=torch.float64)
    table = tl.Oracle(chain_table(initial, transition), process, schedule, predicts=predicts)
    markov = tl.MarkovOracle(initial, transition, L, process, schedule, predicts=predicts)
    assert table.schedule == markov.schedule == schedule
    for t in (0.05, 0.5, 0.95, 1.0):
        x_0 = markov.sample(64, generator)
        noisy = markov.process.corrupt(x_0, torch.full((64,), t, dtype=torch.float64), generator)
        expected, actual = table.predict(noisy), markov.predict(noisy)
        assert type(expected) is type(actual) is predicts
        torch.testing.assert_close(log_probs(actual).exp(), log_probs(expected).exp(), rtol=1e-10, atol=1e-12)


def test_markov_messages_survive_where_a_product_underflows() -> None:
    """A cycle turns every message into a product of 400 likelihoods; the true phase is still found exactly."""
    length, size = 400, 4
    transition = torch.eye(size, dtype=torch.float64).roll(1, 1)
    initial = torch.full((size,), 1 / size, dtype=torch.float64)
    process = tl.Uniform(size, schedule=tl.LinearSchedule(eps=0.0))
    oracle = tl.MarkovOracle(initial, transition, length, process, predicts=tl.LeaveOneOut)
    x_0 = (torch.arange(length) % size).unsqueeze(0)
    t = torch.tensor([1e-6], dtype=torch.float64)
    noisy = tl.Noisy(x_0, t, process.alpha(t))
    predicted = log_probs(oracle.predict(noisy))
    assert predicted.isfinite().all()
    evidence = math.log1p(size * (1 - 1e-6) / 1e-6)
    own = predicted.gather(-1, x_0.unsqueeze(-1))
    others = (predicted - own).scatter(-1, x_0.unsqueeze(-1), -(length - 1) * evidence)
    torch.testing.assert_close(others, torch.full_like(others, -(length - 1) * evidence), rtol=1e-10, atol=0)


def test_markov_oracle_is_fast_and_knows_its_entropy_at_realistic_size(generator: torch.Generator) -> None:
    """L = 128, K = 64, batch 16: well below a second (about 30 ms on one core).

    The mean of 4,000 likelihoods is within 5 standard errors (false-alarm rate 6e-7).
    """
    initial, transition = chain(64)
    process = tl.Uniform(64)
    oracle = tl.MarkovOracle(initial, transition, 128, process)
    noisy = process.corrupt(oracle.sample(16, generator), torch.full((16,), 0.5, dtype=torch.float64), generator)
    start = time.perf_counter()
    oracle.predict(noisy)
    assert time.perf_counter() - start < 1
    nats = -oracle.log_likelihood(oracle.sample(4000, generator))
    assert abs(float(nats.mean()) - oracle.entropy()) < 5 * float(nats.std()) / math.sqrt(4000)


def test_samples_follow_p_0_and_likelihoods_are_its_logarithm(generator: torch.Generator) -> None:
    """100,000 samples of each oracle, false-alarm rate 1e-6."""
    initial, transition = chain(K)
    table = chain_table(initial, transition)
    for oracle in (tl.Oracle(table, tl.Uniform(K)), tl.MarkovOracle(initial, transition, L, tl.Uniform(K))):
        assert_frequencies(sequence_counts(oracle.sample(100_000, generator), K), table)
        every = brute.sequences(K, L)
        torch.testing.assert_close(oracle.log_likelihood(every), table.flatten().log(), rtol=1e-10, atol=1e-12)
        assert oracle.entropy() == pytest.approx(-float((table * table.log()).sum()), abs=1e-10)


def test_given_positions_are_known_to_the_oracle(generator: torch.Generator) -> None:
    """A given token informs the others as a clean observation, whatever the noise level."""
    p0 = brute.random_p0(K, 2)
    process = tl.Uniform(K)
    oracle = tl.Oracle(p0, process, predicts=tl.Denoiser)
    given = torch.tensor([[True, False]]).expand(K, 2)
    x_0 = torch.stack([torch.arange(K), torch.zeros(K, dtype=torch.int64)], 1)
    noisy = process.corrupt(x_0, torch.ones(K, dtype=torch.float64), generator, given)
    t_zero_signal = tl.Noisy(noisy.tokens, noisy.t, torch.zeros(K, dtype=torch.float64), None, noisy.given)
    predicted = log_probs(oracle.predict(t_zero_signal)).exp()
    torch.testing.assert_close(predicted[:, 1], p0 / p0.sum(1, keepdim=True))
    torch.testing.assert_close(predicted[:, 0], torch.eye(K, dtype=torch.float64))


def test_an_impossible_state_gets_a_finite_answer() -> None:
    """0 0 0 and 1 1 1 are all there is; 0 1 ? has no posterior, and the third position gets the uniform law."""
    p0 = torch.zeros(2, 2, 2, dtype=torch.float64)
    p0[0, 0, 0] = p0[1, 1, 1] = 0.5
    oracle = tl.Oracle(p0, tl.Masked(2), predicts=tl.LeaveOneOut)
    t = torch.tensor([0.5], dtype=torch.float64)
    predicted = log_probs(oracle.predict(tl.Noisy(torch.tensor([[0, 1, 2]]), t, 1 - t))).exp()
    torch.testing.assert_close(predicted[0, 2], torch.full((2,), 0.5, dtype=torch.float64))
    torch.testing.assert_close(predicted[0, 0], torch.tensor([0.0, 1.0], dtype=torch.float64))
