r"""Does a noise keep its laws?  The law of a lost token, and its mass in time, each against its definition.

h = m / alpha;    renewed = 1 - h_s/h_t;    renewal_rate = (log h)';    arrivals = m_t - (alpha_t/alpha_s) m_s
"""

import torch
from torch import Tensor

from tokenloom.noise.base import Noise
from tokenloom.noise.masses import Masses, StillMasses
from tokenloom.schedules import CosineSchedule, LinearSchedule, Schedule
from tokenloom.state import Noisy
from tokenloom.testing.report import Report

MOST = 16
"""The largest vocabulary that is enumerated."""
DIFFERENCE = 1e-5
NUMBERS = 20_000


def check_noise(noise: Noise, schedule: Schedule | None = None) -> Report:
    """Check a noise of at most 16 tokens, under a schedule or under two."""
    check_size(noise)
    report = Report(f"noise {type(noise).__name__}")
    _check_law(noise, report)
    for chosen in (LinearSchedule(), CosineSchedule()) if schedule is None else (schedule,):
        _check_masses(noise, chosen, report)
    return report


def check_size(noise: Noise) -> None:
    """Raise unless the vocabulary is small enough to enumerate."""
    if (size := noise.vocab_size) > MOST:
        raise ValueError(f"a check enumerates at most {MOST} tokens, got {size}; build a smaller one for it")


def _every(noise: Noise) -> Tensor:
    """Return every state at every position that has a law of its own, [states, positions]."""
    return torch.arange(noise.num_states).unsqueeze(1).repeat(1, noise.law().length or 1)


def _check_law(noise: Noise, report: Report) -> None:
    law = noise.law()
    values = law.probability_of(_every(noise))
    report.close("w sums to 1 at every position", values.sum(0), torch.ones_like(values[0]))
    report.note("w is never negative", bool((values >= 0).all()), f"the smallest is {float(values.min()):g}")
    logs = law.log_probs(torch.device("cpu")).exp().expand(1, values.shape[1], -1)[0].T
    report.close("log_probs is the logarithm of probability_of", logs, values)
    u = ((torch.arange(NUMBERS, dtype=torch.float64) + 0.5) / NUMBERS).unsqueeze(1).expand(-1, values.shape[1])
    report.close("draw has the frequencies of w", _frequencies(law.draw(u), len(values)), values, 2 / NUMBERS)
    for token in range(noise.num_states):
        others = values.index_fill(0, torch.tensor(token), 0)
        possible = others.sum(0) > 0
        found = _frequencies(law.draw_other(torch.full(u.shape, token), u), len(values))[:, possible]
        expected = (others / others.sum(0))[:, possible]
        words = f"draw_other avoids token {token} and keeps the proportions of the others"
        report.close(words, found, expected, 4 / NUMBERS)


def _frequencies(tokens: Tensor, states: int) -> Tensor:
    return torch.nn.functional.one_hot(tokens, states).double().mean(0).T


class _At:
    """Every state at one time, with alpha, the masses m and h = m / alpha there."""

    def __init__(self, masses: Masses, tokens: Tensor, t: float) -> None:
        time = torch.full((len(tokens),), t, dtype=torch.float64)
        self.noisy = Noisy(tokens, time, masses.alpha(time))
        self.t, self.alpha, self.mass = t, float(self.noisy.alpha_t[0]), masses.mass(self.noisy)
        self.h = self.mass / self.alpha


def _check_masses(noise: Noise, schedule: Schedule, report: Report) -> None:
    masses, tokens, kind = noise.masses(schedule), _every(noise), type(schedule).__name__
    first = float(masses.alpha(torch.zeros(1, dtype=torch.float64)))
    report.note(f"alpha starts at 1 ({kind})", abs(first - 1) < 1e-12, f"it starts at {first:g}")
    for times in ((0.2, 0.5), (0.05, 0.9)):
        s, t = (_At(masses, tokens, time) for time in times)
        words = f"from {t.t} to {s.t} ({kind})"
        before, after = (_At(masses, tokens, t.t + step) for step in (-DIFFERENCE, DIFFERENCE))
        slope = (after.alpha - before.alpha) / (2 * DIFFERENCE)
        given = masses.alpha_prime(t.noisy.t[:1])
        report.close(f"alpha_prime is the derivative of alpha {words}", given, torch.full_like(given, slope), 1e-6)
        rate, where = (after.h.log() - before.h.log()) / (2 * DIFFERENCE), t.h > 0
        report.close(f"renewal_rate = (log h)' {words}", masses.renewal_rate(t.noisy)[where], rate[where], 1e-5)
        _check_steps(masses, s, t, words, report)
    values = masses.law(t.noisy, t.noisy.t).probability_of(tokens)
    real = [token for token in range(noise.vocab_size) if token != noise.mask]
    kinds = bool((values[real] == 0).any()), bool((values[real] == 1).any())
    supported = masses.support.never, masses.support.always
    report.note(f"its support says which tokens are never or always noise ({kind})", kinds == supported)
    if isinstance(masses, StillMasses):
        report.close(f"it stands still ({kind})", values, noise.law().probability_of(tokens))


def _check_steps(masses: Masses, s: _At, t: _At, words: str, report: Report) -> None:
    noisy, where = t.noisy, t.h > 0
    report.note(f"alpha falls {words}", t.alpha < s.alpha, f"{s.alpha:g} becomes {t.alpha:g}")
    report.close(f"the masses and alpha sum to 1 {words}", t.mass.sum(0) + t.alpha, torch.ones_like(t.mass[0]))
    law = masses.law(noisy, noisy.t).probability_of(noisy.tokens)
    report.close(f"m_t = (1 - alpha_t) w_t {words}", t.mass, (1 - t.alpha) * law)
    back = masses.time_at_lost(torch.tensor([1 - t.alpha], dtype=torch.float64))
    report.close(f"time_at_lost inverts 1 - alpha {words}", back, torch.full_like(back, t.t), 1e-7)
    ratio = torch.where(where, s.h / torch.where(where, t.h, 1), 0)
    report.note(f"no mass over alpha falls {words}", bool((ratio <= 1 + 1e-12).all()), "the chain does not exist")
    clean, fresh = masses.renewed(noisy, s.noisy.t)
    report.close(f"renewed = 1 - h_s/h_t {words}", (clean + fresh)[where], (1 - ratio)[where])
    report.close(f"a share alpha_s of it is clean {words}", clean[where], s.alpha * (1 - ratio)[where])
    clean, fresh = masses.renewed(noisy, masses.later(noisy.t, torch.full_like(noisy.t, 0.3)))
    expected = torch.exp(-0.3 * masses.pace(noisy))
    report.close(f"later and pace follow log h {words}", (1 - clean - fresh)[where], expected[where])
    arrived = t.mass - t.alpha / s.alpha * s.mass
    law = masses.arrivals(s.noisy, noisy.t).probability_of(noisy.tokens)
    report.close(f"arrivals = m_t - k m_s, normalised {words}", law * arrived.sum(0), arrived)
