r"""Does a coupling keep its laws with a noise, and a process its bound?  Every law is summed over all states.

sum over x_t of q(x_t | x_0) q(x_s | x_0, x_t) = q(x_s | x_0)             steps down keep the marginals
sum over x_s of q(x_r | x_0, x_s) q(x_s | x_0, x_t) = q(x_r | x_0, x_t)   two steps are one
the step from nu = the step from mu = the average of q(x_s | x_0, x_t) over mu
"""

import itertools
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tokenloom.couplings.base import Clocked, Coupling, Lifted
from tokenloom.couplings.steps import rate_bound, stay_bound
from tokenloom.noise.base import Noise
from tokenloom.objectives.likelihood import nelbo
from tokenloom.oracles.exact import Oracle
from tokenloom.posteriors import Denoiser, LeaveOneOut
from tokenloom.process import Process
from tokenloom.schedules import LinearSchedule
from tokenloom.state import Noisy
from tokenloom.testing.noises import check_noise, check_size
from tokenloom.testing.report import Report

TIMES = ((0.2, 0.45, 0.7), (0.01, 0.05, 0.15), (0.7, 0.85, 0.97))
"""Times r < s < t of the checks."""
STEP = 1e-7
ROWS = 2000
ERRORS = 4
"""Standard errors allowed: a law that holds is called broken with probability 6.3e-5, by each statistical check."""


def check_process(process: Process, seed: int = 0) -> Report:
    """Check noise and coupling by enumerating at most 16 tokens, and the bound at exact posteriors against -log p."""
    report = Report(f"process {process.title}")
    report.laws |= check_noise(process.noise, process.schedule).laws
    report.laws |= check_coupling(process.coupling, process.noise).laws
    for predicts in (LeaveOneOut, Denoiser):
        model = Oracle(table_for(process), process, predicts=predicts)
        x_0 = model.sample(ROWS, torch.Generator().manual_seed(seed))
        found = nelbo(model, x_0, generator=torch.Generator().manual_seed(seed), batch=1000)
        paid = found.per_sequence + model.log_likelihood(x_0)
        excess, error = paid.mean().item(), paid.std().item() / math.sqrt(ROWS)
        below = f"it is {-excess:.3g} nats below, {-excess / error:.1f} standard errors"
        report.note(f"the bound of a {predicts.__name__} is never below -log p", excess > -ERRORS * error, below)
        if process.tight:
            words = f"it is {excess:.3g} nats above, {excess / error:.1f} standard errors"
            report.note(f"the bound of an exact {predicts.__name__} is -log p", abs(excess) < ERRORS * error, words)
    return report


def table_for(process: Process) -> Tensor:
    """Draw a law of two (or as many as the noise has) correlated clean tokens."""
    length, generator = process.noise.law().length or 2, torch.Generator().manual_seed(1)
    logits = torch.randn([process.vocab_size] * length, generator=generator, dtype=torch.float64)
    if (mask := process.mask_in_vocabulary) is not None:
        for axis in range(length):
            logits.select(axis, mask).fill_(-torch.inf)
    return torch.softmax(1.5 * logits.flatten(), 0).view(logits.shape)


def check_coupling(coupling: Coupling, noise: Noise) -> Report:
    """Check a coupling with a noise of at most 16 tokens, for which it must exist."""
    check_size(noise)
    process = Process(noise, coupling, LinearSchedule(eps=0.0))
    report = Report(f"coupling {type(coupling).__name__} with noise {type(noise).__name__}")
    for times, place in itertools.product(TIMES, range(noise.law().length or 1)):
        plain = _Position(process, place, times, f"at position {place}")
        for words, shown in plain.auxiliaries().items():
            _check_steps(replace(plain, words=plain.words + words, shown=shown), report)
    return report


@dataclass(frozen=True)
class _Position:
    """The laws of one position, as matrices over clean tokens and states."""

    process: Process
    place: int
    times: tuple[float, float, float]
    words: str
    shown: Tensor | None = None
    """The auxiliary variable of every state."""

    @property
    def clean(self) -> list[int]:
        return [token for token in range(self.process.vocab_size) if token != self.process.noise.mask]

    def auxiliaries(self) -> dict[str, Tensor | None]:
        """Return the auxiliary variables that a state may show: none, each U, or a time in each interval."""
        process, (r, s, t) = self.process, self.times
        if not isinstance(process.coupling, Lifted):
            return {"": None}
        drawn = process.coupling.auxiliary(process, torch.zeros(1, process.noise.law().length or 1).long(), None)
        if drawn.is_floating_point():
            between = {"up to r": r / 2, "up to s": (r + s) / 2, "up to t": (s + t) / 2, "after t": 1.0}
            return {f", lost {name}": torch.tensor(time, dtype=torch.float64) for name, time in between.items()}
        states = self.state(torch.arange(process.num_states).unsqueeze(1), 0.5)
        possible = process.masses.law(states, states.t).probability_of(states.tokens) > 0
        return {f", U = {token}": token for token in states.tokens[possible]}

    def state(self, tokens: Tensor, t: float) -> Noisy:
        time = torch.full((len(tokens),), t, dtype=torch.float64)
        aux = None if self.shown is None else self.shown.expand(tokens.shape)
        return Noisy(tokens, time, self.process.alpha(time), aux, None, torch.full_like(tokens, self.place))

    def pairs(self) -> Tensor:
        """Every clean token with every state, [pairs, 2]."""
        return torch.tensor(list(itertools.product(self.clean, range(self.process.num_states))))

    def marginal(self, t: float) -> Tensor:
        """q(x_t | x_0), [clean, states]."""
        x_0 = torch.tensor(self.clean).unsqueeze(1)
        return self.process.marginal(self.state(x_0, t), x_0).dense()[:, 0]

    def bridge(self, s: float, t: float) -> Tensor:
        """q(x_s | x_0, x_t), [clean, states at t, states at s]."""
        pairs = self.pairs()
        noisy = self.state(pairs[:, 1:], t)
        law = self.process.bridge(noisy, torch.full_like(noisy.t, s), pairs[:, :1]).dense()[:, 0]
        return law.view(len(self.clean), self.process.num_states, -1)


def _check_steps(at: _Position, report: Report) -> None:
    r, s, t = at.times
    middle, late = at.marginal(s), at.marginal(t)
    down, further, whole = at.bridge(s, t), at.bridge(r, s), at.bridge(r, t)
    report.close(f"q(x_t | x_0) sums to 1 {at.words}", late.sum(-1), torch.ones_like(late[:, 0]))
    report.close(f"q(x_s | x_0, x_t) sums to 1 {at.words}", down.sum(-1), torch.ones_like(down[..., 0]))
    report.close(f"steps down keep the marginals {at.words}", torch.einsum("ib,iba->ia", late, down), middle)
    both = torch.einsum("iba,iar->ibr", down, further)
    possible = (late > 0).unsqueeze(-1)
    report.close(f"two steps down are one {at.words}", torch.where(possible, both, 0), torch.where(possible, whole, 0))
    _check_posteriors(at, late, down, report)
    _check_evidence(at, late, report)
    if at.process.has_jump_rates:
        _check_rates(at, report)
    if at.process.markov:
        noisy = at.state(torch.arange(at.process.num_states).unsqueeze(1), s)
        up = at.process.forward(noisy, torch.full_like(noisy.t, t)).dense()[:, 0]
        report.close(f"steps up keep the marginals {at.words}", middle @ up, late)
        pair = middle.unsqueeze(-1) * up
        report.close(f"up and down have one joint law {at.words}", pair, (late.unsqueeze(-1) * down).transpose(1, 2))


def _check_posteriors(at: _Position, late: Tensor, down: Tensor, report: Report) -> None:
    """Bayes' rule for some prior law of x_0, and both ways to step from its posteriors."""
    prior = torch.linspace(1, 2, len(at.clean), dtype=torch.float64)
    nu = torch.zeros(at.process.vocab_size, dtype=torch.float64)
    nu[at.clean] = prior / prior.sum()
    joint = nu[at.clean].unsqueeze(1) * late
    tokens = (joint.sum(0) > 0).nonzero()
    mu = torch.zeros(len(tokens), at.process.vocab_size, dtype=torch.float64)
    mu[:, at.clean] = (joint / joint.sum(0)).T[tokens[:, 0]]
    expected = torch.einsum("ri,ira->ra", mu[:, at.clean], down[:, tokens[:, 0]])
    noisy = at.state(tokens, at.times[2])
    s = torch.full_like(noisy.t, at.times[1])
    plugged = at.process.bridge(noisy, s, LeaveOneOut(nu.log().expand(len(tokens), 1, -1)))
    averaged = at.process.bridge(noisy, s, Denoiser(mu.log().unsqueeze(1)))
    for name, law in (("leave-one-out posterior", plugged), ("denoiser", averaged)):
        report.close(f"the step from the {name} is exact {at.words}", law.dense()[:, 0], expected)
    enough = plugged.weights[..., 0] >= stay_bound(at.process, noisy, s) - 1e-12
    report.note(f"no step stays less than its bound {at.words}", bool(enough.all()))


def _check_evidence(at: _Position, late: Tensor, report: Report) -> None:
    """At the clean tokens that can be seen, whose likelihood takes one value at x_0 = x_t and another elsewhere."""
    columns = late[:, at.clean]
    own, others = columns.diagonal(), (columns - 2 * torch.diag(columns.diagonal())).amax(0)
    evidence = at.process.evidence(at.state(torch.tensor(at.clean).unsqueeze(1), at.times[2]))[:, 0]
    revealing = (own > 0) & (others <= 0)
    expected = torch.where(others > 0, (own / others.clamp(min=1e-300)).log(), 0)
    law = f"the evidence is the log-ratio of likelihoods {at.words}"
    report.close(law, evidence[others > 0], expected[others > 0])
    report.note(f"a token that only x_0 can make reveals it {at.words}", bool(evidence[revealing].isposinf().all()))


def _check_rates(at: _Position, report: Report) -> None:
    pairs = at.pairs()
    noisy = at.state(pairs[:, 1:], at.times[1])
    rates = at.process.reverse_rates(noisy, pairs[:, :1])
    step = at.process.bridge(noisy, noisy.t - STEP, pairs[:, :1]).dense().scatter(-1, pairs[:, 1:, None], 0.0) / STEP
    report.close(f"rates are the derivative of the bridge {at.words}", rates.off_diagonal(), step, 1e-4)
    path = at.process.path
    if isinstance(path, Clocked):
        clean, fresh = path.shares(at.process, noisy, path.later(at.process, noisy.t, torch.full_like(noisy.t, 0.3)))
        pace = path.pace(at.process, noisy)
        expected = torch.exp(-0.3 * pace)[pace > 0]
        report.close(f"its clock is the integral of its rates {at.words}", (1 - clean - fresh)[pace > 0], expected)
    leaving, bound = rates.off_diagonal().sum(-1), rate_bound(at.process, noisy)
    report.note(f"no rate exceeds its bound {at.words}", bool((leaving <= bound * (1 + 1e-6)).all()))
