r"""Does a noise keep its laws?  The law of a lost token, and its mass in time, each against its definition.

h = m / alpha;    renewed = 1 - h_s/h_t;    renewal_rate = (log h)';    arrivals = m_t - (alpha_t/alpha_s) m_s
"""

import torch
from torch import Tensor

from tokenloom.noise.base import Noise
from tokenloom.noise.masses import StillMasses
from tokenloom.schedules import CosineSchedule, LinearSchedule, Schedule
from tokenloom.state import Noisy
from tokenloom.testing.report import Report

MOST = 16
"""The largest vocabulary that is enumerated."""
DIFFERENCE = 1e-5
NUMBERS = 20_000


def check_noise(noise: Noise, schedule: Schedule | None = None) -> Report:
    """Check a noise on a small vocabulary, under a schedule or under two.

    Raises:
        ValueError: If its vocabulary is too large to enumerate.
    """
    check_size(noise)
    report = Report(f"noise {type(noise).__name__}")
    _check_law(noise, report)
    for chosen in (LinearSchedule(), CosineSchedule()) if schedule is None else (schedule,):
        _check_masses(noise, chosen, report)
    return report


def check_size(noise: Noise) -> None:
    """Raise unless the vocabulary is small enough to enumerate."""
    if noise.vocab_size > MOST:
        raise ValueError(
            f"a check enumerates at most {MOST} tokens, got {noise.vocab_size}; build a smaller one for it"
        )


def states_at(noise: Noise, t: float) -> Noisy:
    """Build every state at every position that has a law of its own, at time t."""
    length = noise.law().length or 1
    tokens = torch.arange(noise.num_states).unsqueeze(1).repeat(1, length)
    time = torch.full((len(tokens),), t, dtype=torch.float64)
    return Noisy(tokens, time, time)


def _check_law(noise: Noise, report: Report) -> None:
    law, states = noise.law(), states_at(noise, 0.5)
    values = law.probability_of(states.tokens)
    report.close("w sums to 1 at every position", values.sum(0), torch.ones_like(values[0]))
    report.note("w is never negative", bool((values >= 0).all()), f"the smallest is {float(values.min()):g}")
    logs = law.log_probs(torch.device("cpu")).exp().expand(1, values.shape[1], -1)[0].T
    report.close("log_probs is the logarithm of probability_of", logs, values)
    u = ((torch.arange(NUMBERS, dtype=torch.float64) + 0.5) / NUMBERS).unsqueeze(1).expand(-1, values.shape[1])
    report.close("draw has the frequencies of w", _frequencies(law.draw(u), len(values)), values, 2 / NUMBERS)
    for token in range(noise.num_states):
        others = values.clone()
        others[token] = 0
        possible = others.sum(0) > 0
        avoid = torch.full(u.shape, token)
        found = _frequencies(law.draw_other(avoid, u), len(values))
        expected = others / torch.where(possible, others.sum(0), 1)
        law_name = f"draw_other avoids token {token} and keeps the proportions of the others"
        report.close(law_name, found[:, possible], expected[:, possible], 4 / NUMBERS)


def _frequencies(tokens: Tensor, states: int) -> Tensor:
    return torch.nn.functional.one_hot(tokens, states).double().mean(0).T


def _check_masses(noise: Noise, schedule: Schedule, report: Report) -> None:
    masses, kind = noise.masses(schedule), type(schedule).__name__

    def alpha(t: float) -> float:
        return float(masses.alpha(torch.tensor([t], dtype=torch.float64)))

    def mass(t: float) -> Tensor:
        states = states_at(noise, t)
        return masses.mass(Noisy(states.tokens, states.t, masses.alpha(states.t)))

    def h(t: float) -> Tensor:
        return mass(t) / alpha(t)

    report.note(f"alpha starts at 1 ({kind})", abs(alpha(0.0) - 1) < 1e-12, f"it starts at {alpha(0.0):g}")
    for s, t in ((0.2, 0.5), (0.05, 0.9)):
        states = states_at(noise, t)
        noisy = Noisy(states.tokens, states.t, masses.alpha(states.t))
        early = torch.full_like(noisy.t, s)
        where, words = h(t) > 0, f"from {t} to {s} ({kind})"
        report.note(f"alpha falls {words}", alpha(t) < alpha(s), f"{alpha(s):g} becomes {alpha(t):g}")
        report.close(f"the masses and alpha sum to 1 {words}", mass(t).sum(0) + alpha(t), torch.ones_like(mass(t)[0]))
        law = masses.law(noisy, noisy.t).probability_of(noisy.tokens)
        report.close(f"m_t = (1 - alpha_t) w_t {words}", mass(t), (1 - alpha(t)) * law)
        back = masses.time_at_lost(torch.tensor([1 - alpha(t)], dtype=torch.float64))
        report.close(f"time_at_lost inverts 1 - alpha {words}", back, torch.full_like(back, t), 1e-7)
        slope = (alpha(t + DIFFERENCE) - alpha(t - DIFFERENCE)) / (2 * DIFFERENCE)
        given = masses.alpha_prime(noisy.t[:1])
        report.close(f"alpha_prime is the derivative of alpha {words}", given, torch.full_like(given, slope), 1e-6)
        ratio = torch.where(where, h(s) / torch.where(where, h(t), 1), 0)
        report.note(f"no mass over alpha falls {words}", bool((ratio <= 1 + 1e-12).all()), "the chain does not exist")
        clean, fresh = masses.renewed(noisy, early)
        report.close(f"renewed = 1 - h_s/h_t {words}", (clean + fresh)[where], (1 - ratio)[where])
        report.close(f"a share alpha_s of it is clean {words}", clean[where], alpha(s) * (1 - ratio)[where])
        rate = (h(t + DIFFERENCE).log() - h(t - DIFFERENCE).log()) / (2 * DIFFERENCE)
        report.close(f"renewal_rate = (log h)' {words}", masses.renewal_rate(noisy)[where], rate[where], 1e-5)
        later = masses.later(noisy.t, torch.full_like(noisy.t, 0.3))
        shares = masses.renewed(noisy, later)
        expected = torch.exp(-0.3 * masses.pace(noisy))
        report.close(f"later and pace follow log h {words}", (1 - shares[0] - shares[1])[where], expected[where])
        at_s = Noisy(noisy.tokens, early, masses.alpha(early))
        arrived = mass(t) - alpha(t) / alpha(s) * mass(s)
        law = masses.arrivals(at_s, noisy.t).probability_of(noisy.tokens)
        report.close(f"arrivals = m_t - k m_s, normalised {words}", law * arrived.sum(0), arrived)
    values = masses.law(states, states.t).probability_of(states.tokens)
    real = [token for token in range(noise.vocab_size) if token != noise.mask]
    kinds = bool((values[real] == 0).any()), bool((values[real] == 1).any())
    supported = masses.support.never, masses.support.always
    report.note(f"its support says which tokens are never or always noise ({kind})", kinds == supported)
    if isinstance(masses, StillMasses):
        report.close(f"it stands still ({kind})", values, noise.law().probability_of(states.tokens))
