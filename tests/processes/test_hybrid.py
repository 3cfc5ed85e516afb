"""Hybrid noise against its definition (GIDD): masses, transitions, bridge, rates, bound, samplers, training.

Everything exact is written from c_t, C_t and the masses alone, over all states, in float64.
"""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.cells import PROCESSES
from tokenloom.cli import main
from tokenloom.objectives import FiniteStep, MarkovNELBO, Objective, RateNELBO
from tokenloom.posteriors import OverTokens

K, L, P_UNIFORM = 3, 2, 0.3
B = 2 * P_UNIFORM / (1 - P_UNIFORM)
P0 = brute.random_p0(K, L)
ENTROPY = -float((P0 * P0.log()).sum())
PROCESS = tl.Hybrid(K, P_UNIFORM)
INSIDE = tl.Hybrid(K + 1, P_UNIFORM, mask_id=1)
TIMES = (0.02, 0.3, 0.5, 0.9)


def masses(t: float) -> tuple[float, Tensor]:
    """alpha_t and the noise mass of every state, from the definition; the mask is the last state."""
    c = B * math.sqrt(t * (1 - t))
    noise = torch.full((K + 1,), c / K / (1 + c), dtype=torch.float64)
    noise[K] = t / (1 + c)
    return (1 - t) / (1 + c), noise


def transition(s: float, t: float) -> Tensor:
    """q_{t|s} of one position over all states."""
    (alpha_s, noise_s), (alpha_t, noise_t) = masses(s), masses(t)
    kept = alpha_t / alpha_s
    return kept * torch.eye(K + 1, dtype=torch.float64) + (noise_t - kept * noise_s)


def states(t: float, process: tl.Process = PROCESS) -> tl.Noisy:
    tokens = torch.arange(K + 1)[:, None]
    time = torch.full((K + 1,), t, dtype=torch.float64)
    return tl.Noisy(tokens, time, process.alpha(time))


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("t", TIMES)
def test_levels_and_noise_are_those_of_the_definition(t: float) -> None:
    noisy = states(t)
    alpha, noise = masses(t)
    close(noisy.alpha_t, torch.full_like(noisy.alpha_t, alpha))
    close((1 - alpha) * PROCESS.law(noisy).log_probs(noisy.tokens.device).exp()[0, 0], noise)
    close(PROCESS.time_at(noisy.alpha_t), noisy.t)


def test_the_derivative_of_the_level_is_its_slope() -> None:
    t = torch.tensor(TIMES, dtype=torch.float64)
    slope = (PROCESS.alpha(t + 1e-6) - PROCESS.alpha(t - 1e-6)) / 2e-6
    close(PROCESS.alpha_prime(t), slope, 1e-6)


@pytest.mark.parametrize(("s", "t"), [(0.02, 0.3), (0.3, 0.5), (0.5, 0.97)])
def test_forward_is_the_transition_that_composes_the_marginals(s: float, t: float) -> None:
    later = torch.full((K + 1,), t, dtype=torch.float64)
    law = PROCESS.forward(states(s), later).dense().squeeze(1)
    close(law, transition(s, t))
    assert bool((law >= 0).all())
    close(transition(0.0, s) @ law, transition(0.0, t))


@pytest.mark.parametrize(("s", "t"), [(0.0, 0.3), (0.02, 0.3), (0.3, 0.5), (0.5, 0.97)])
@pytest.mark.parametrize("x_0", range(K))
def test_the_bridge_is_bayes(s: float, t: float, x_0: int) -> None:
    joint = transition(0.0, s)[x_0][:, None] * transition(s, t)
    expected = (joint / joint.sum(0)).T
    earlier = torch.full((K + 1,), s, dtype=torch.float64)
    clean = torch.full((K + 1, 1), x_0)
    possible = transition(0.0, t)[x_0] > 0
    law = PROCESS.bridge(states(t), earlier, clean).dense().squeeze(1)
    close(law[possible], expected[possible])


@pytest.mark.parametrize("t", TIMES)
def test_rates_are_the_slopes_of_transition_and_bridge(t: float) -> None:
    step, noisy = 1e-6, states(t)
    forward = (transition(t, t + step) - torch.eye(K + 1, dtype=torch.float64)) / step
    close(PROCESS.forward_rates(noisy).off_diagonal().squeeze(1), forward.fill_diagonal_(0), 1e-4)
    law = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    nu = tl.LeaveOneOut(law.log().expand(K + 1, 1, K).contiguous())
    earlier = torch.full((K + 1,), t - step, dtype=torch.float64)
    slope = PROCESS.bridge(noisy, earlier, nu).dense().squeeze(1) / step
    close(PROCESS.reverse_rates(noisy, nu).off_diagonal().squeeze(1), slope.fill_diagonal_(0), 1e-3)


def test_a_mask_inside_the_vocabulary_is_the_same_process_with_other_ids() -> None:
    order = [0, 2, 3, 1]  # the tokens 0, 1, 2 and the mask of PROCESS
    noisy = states(0.4)
    moved = tl.Noisy(torch.tensor(order)[:, None], noisy.t, noisy.alpha_t)
    s = torch.full_like(noisy.t, 0.2)
    ours = PROCESS.bridge(noisy, s, torch.full((K + 1, 1), 2)).dense().squeeze(1)
    theirs = INSIDE.bridge(moved, s, torch.full((K + 1, 1), 3)).dense().squeeze(1)
    close(theirs[:, order], ours)


@pytest.mark.parametrize("process", [PROCESS, INSIDE], ids=["outside", "inside"])
def test_noise_is_drawn_by_its_law_and_draws_another_token_when_asked(process: tl.Process) -> None:
    """Chi-square tests with the false-alarm rate of tests/statistics.py."""
    rows, t = 40_000, 0.3
    time = torch.full((rows,), t, dtype=torch.float64)
    noise = process.law(tl.Noisy(torch.zeros(rows, 1).long(), time, process.alpha(time)))
    u = torch.rand(rows, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    law = noise.log_probs(u.device).exp()[0, 0]
    assert_frequencies(sequence_counts(noise.draw(u), K + 1), law)
    for token in range(K + 1):
        others = law.clone()
        others[token] = 0
        drawn = noise.draw_other(torch.full((rows, 1), token), u)
        assert_frequencies(sequence_counts(drawn, K + 1), others / others.sum())


def mean_losses(objective: Objective, times: list[float], predicts: type[OverTokens]) -> Tensor:
    """The mean loss per sequence at each time, predicted by the oracle, over all (x_0, x_t)."""
    clean, noisy = brute.sequences(K, L), brute.sequences(K + 1, L)
    found = []
    for t in times:
        one = transition(0.0, t)[:K]
        weight = P0.flatten()[:, None] * torch.kron(one, one)
        row, column = (weight > 0).nonzero(as_tuple=True)
        time = torch.full((len(row),), t, dtype=torch.float64)
        state = tl.Noisy(noisy[column], time, PROCESS.alpha(time))
        prediction = tl.Oracle(P0, PROCESS, predicts=predicts).predict(state)
        losses = objective.per_token(prediction, clean[row], state, PROCESS).sum(-1)
        found.append((weight[row, column] * losses).sum())
    return torch.stack(found)


@pytest.mark.parametrize("objective", [MarkovNELBO(), RateNELBO()], ids=lambda objective: objective.name)
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
def test_the_bound_at_the_exact_posterior_is_the_entropy(predicts: type[OverTokens], objective: Objective) -> None:
    """By Gauss-Legendre in u with t = sin^4(pi u / 2), whose slope tames the square root at t = 0."""
    points, weights = np.polynomial.legendre.leggauss(60)
    u = (points + 1) / 2
    sine, cosine = np.sin(math.pi * u / 2), np.cos(math.pi * u / 2)
    slopes = torch.from_numpy(weights / 2 * 4 * sine**3 * cosine * math.pi / 2)
    losses = mean_losses(objective, (sine**4).tolist(), predicts)
    assert float((slopes * losses).sum()) == pytest.approx(ENTROPY, abs=1e-4)


def test_finite_bounds_fall_towards_the_entropy_from_above() -> None:
    gaps = [
        float(mean_losses(FiniteStep(steps), [(i + 1) / steps for i in range(steps)], tl.LeaveOneOut).mean()) - ENTROPY
        for steps in (1, 4, 16)
    ]
    assert gaps[0] > gaps[1] > gaps[2] > 0


def test_the_estimated_bound_covers_the_entropy_with_and_without_signal_at_the_end() -> None:
    """Within five standard errors: a false alarm of 6e-7 each, at fixed seeds."""
    for schedule in (tl.LinearSchedule(0.0), tl.LinearSchedule(0.2)):
        oracle = tl.Oracle(P0, tl.Hybrid(K, P_UNIFORM, schedule=schedule))
        generator = torch.Generator().manual_seed(0)
        found = tl.nelbo(oracle, oracle.sample(1_500, generator), generator=generator)
        gap = 0.0 if schedule.eps == 0 else 0.02  # starting from the noise at t = 1 forgets how positions hang together
        assert ENTROPY - 5 * found.standard_error < found.nats < ENTROPY + gap + 5 * found.standard_error


@pytest.mark.parametrize("corrector", [None, "random-scan"])
def test_ancestral_and_gibbs_sampling_end_near_p_0(corrector: str | None) -> None:
    """At 64 steps: at most 0.02 of discretisation and 0.01 of 10,000 draws from p_0; at 5 far more."""

    def distance(steps: int) -> float:
        tokens = tl.sample(
            tl.Oracle(P0, PROCESS),
            10_000,
            steps=steps,
            corrector=corrector,
            generator=torch.Generator().manual_seed(0),
        )
        return float((sequence_counts(tokens, K) / len(tokens) - P0.flatten()).abs().sum() / 2)

    assert distance(64) < 0.03 < distance(5)


def test_gibbs_steps_leave_p_t_invariant() -> None:
    """Every position's conditional, from the oracle, against the joint law of x_t by enumeration."""
    t = 0.4
    one = transition(0.0, t)[:K]
    law = (P0.flatten() @ torch.kron(one, one)).view(K + 1, K + 1)
    tokens = brute.sequences(K + 1, L)
    time = torch.full((len(tokens),), t, dtype=torch.float64)
    noisy = tl.Noisy(tokens, time, PROCESS.alpha(time))
    prediction = tl.Oracle(P0, PROCESS).predict(noisy)
    assert isinstance(prediction, tl.LeaveOneOut)
    conditional = tl.conditional_log_probs(prediction, noisy, PROCESS).exp().view(K + 1, K + 1, L, K + 1)
    close(conditional[:, :, 0].transpose(0, 1)[:, 0], (law / law.sum(0)).T)
    close(conditional[:, :, 1][:, 0], law / law.sum(1, keepdim=True))


def test_a_hybrid_network_is_trained_sampled_scored_and_saved_by_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    size = ("--network.width", "16", "--network.depth", "1", "--network.heads", "2", "--optimiser.batch", "16")
    data = ("--data.vocab-size", "5", "--data.length", "6", "--data.rows", "200", "--data.valid-rows", "40")
    main(["train", "--method", "hybrid:p_uniform=0.25", "--max-steps", "3", "--out", str(folder), *size, *data])
    model = tl.load(folder)
    assert model.process == tl.Hybrid(5, 0.25, schedule=tl.LinearSchedule())
    model.save(tmp_path / "again")
    assert tl.load(tmp_path / "again").process == model.process
    capsys.readouterr()
    main(["sample", str(folder), "--num", "2", "--steps", "4", "--corrector", "informed", "--json"])
    assert '"process": "Hybrid"' in capsys.readouterr().out
    assert math.isfinite(tl.nelbo(model, torch.randint(0, 5, (8, 6))).nats)


def test_options_outside_their_range_are_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"p_uniform must be in \(0, 1\), got 0.0; without uniform noise use Masked"):
        tl.Hybrid(K, 0.0)
    assert PROCESSES["hybrid"] is tl.Hybrid
