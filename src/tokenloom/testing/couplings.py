r"""Does a coupling keep its laws with a noise?  Every statement is one about its own laws, summed over all states.

sum over x_t of q(x_t | x_0) q(x_s | x_0, x_t) = q(x_s | x_0)             steps down keep the marginals
sum over x_s of q(x_r | x_0, x_s) q(x_s | x_0, x_t) = q(x_r | x_0, x_t)   two steps are one
the step from nu = the step from mu = the average of q(x_s | x_0, x_t) over mu
"""

import itertools

import torch
from torch import Tensor

from tokenloom.couplings.base import Clocked, Coupling, Lifted
from tokenloom.couplings.steps import rate_bound, stay_bound
from tokenloom.noise.base import Noise
from tokenloom.posteriors import Denoiser, LeaveOneOut
from tokenloom.process import Process
from tokenloom.schedules import LinearSchedule
from tokenloom.state import Noisy
from tokenloom.testing.noises import check_size
from tokenloom.testing.report import Report

TIMES = ((0.2, 0.45, 0.7), (0.01, 0.05, 0.15), (0.7, 0.85, 0.97))
"""Times r < s < t of the checks."""
Times = tuple[float, float, float]
STEP = 1e-7


def check_coupling(coupling: Coupling, noise: Noise) -> Report:
    """Check a coupling with a noise on a small vocabulary.

    Raises:
        ValueError: If the vocabulary is too large to enumerate, or the coupling does not exist for the noise.
    """
    check_size(noise)
    process = Process(noise, coupling, LinearSchedule(eps=0.0))
    report = Report(f"coupling {type(coupling).__name__} with noise {type(noise).__name__}")
    for times, place in itertools.product(TIMES, range(noise.law().length or 1)):
        for words, shown in _shown(process, place, times).items():
            _check_steps(_Position(process, place, shown, times, words), report)
    return report


def _shown(process: Process, place: int, times: Times) -> dict[str, Tensor | None]:
    """Return the values of the auxiliary variable that a state may show: none, each U, or times in each interval."""
    if not isinstance(process.coupling, Lifted):
        return {"": None}
    drawn = process.coupling.auxiliary(process, torch.zeros(1, process.noise.law().length or 1).long(), None)
    if drawn.is_floating_point():
        r, s, t = times
        between = {"up to r": r / 2, "up to s": (r + s) / 2, "up to t": (s + t) / 2, "after t": 1.0}
        return {f", lost {name}": torch.tensor(time, dtype=torch.float64) for name, time in between.items()}
    law = process.masses.law(_state(process, place, torch.zeros(1, 1).long(), 0.5, None), torch.tensor([0.5]).double())
    tokens = [token for token in range(process.num_states) if float(law.probability_of(torch.tensor([[token]]))) > 0]
    return {f", U = {token}": torch.tensor(token) for token in tokens}


def _state(process: Process, place: int, tokens: Tensor, t: float, shown: Tensor | None) -> Noisy:
    time = torch.full((len(tokens),), t, dtype=torch.float64)
    aux = None if shown is None else shown.expand(tokens.shape)
    return Noisy(tokens, time, process.alpha(time), aux, None, torch.full_like(tokens, place))


class _Position:
    """The laws of one position, as matrices over clean tokens and states."""

    def __init__(self, process: Process, place: int, shown: Tensor | None, times: Times, words: str) -> None:
        self.process, self.place, self.shown, self.words = process, place, shown, f"at position {place}{words}"
        self.r, self.s, self.t = times
        self.clean = [token for token in range(process.vocab_size) if token != process.noise.mask]

    def state(self, tokens: Tensor, t: float) -> Noisy:
        return _state(self.process, self.place, tokens, t, self.shown)

    def marginal(self, t: float) -> Tensor:
        """q(x_t | x_0), [clean, states]."""
        x_0 = torch.tensor(self.clean).unsqueeze(1)
        return self.process.marginal(self.state(x_0, t), x_0).dense()[:, 0]

    def bridge(self, s: float, t: float) -> Tensor:
        """q(x_s | x_0, x_t), [clean, states at t, states at s]."""
        pairs = torch.tensor(list(itertools.product(self.clean, range(self.process.num_states))))
        noisy = self.state(pairs[:, 1:], t)
        law = self.process.bridge(noisy, torch.full_like(noisy.t, s), pairs[:, :1]).dense()[:, 0]
        return law.view(len(self.clean), self.process.num_states, -1)


def _check_steps(at: _Position, report: Report) -> None:
    middle, late = at.marginal(at.s), at.marginal(at.t)
    down, further, whole = at.bridge(at.s, at.t), at.bridge(at.r, at.s), at.bridge(at.r, at.t)
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
        noisy = at.state(torch.arange(at.process.num_states).unsqueeze(1), at.s)
        up = at.process.forward(noisy, torch.full_like(noisy.t, at.t)).dense()[:, 0]
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
    noisy = at.state(tokens, at.t)
    s = torch.full_like(noisy.t, at.s)
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
    evidence = at.process.evidence(at.state(torch.tensor(at.clean).unsqueeze(1), at.t))[:, 0]
    revealing = (own > 0) & (others <= 0)
    expected = torch.where(others > 0, (own / others.clamp(min=1e-300)).log(), 0)
    law = f"the evidence is the log-ratio of likelihoods {at.words}"
    report.close(law, evidence[others > 0], expected[others > 0])
    report.note(f"a token that only x_0 can make reveals it {at.words}", bool(evidence[revealing].isposinf().all()))


def _check_rates(at: _Position, report: Report) -> None:
    pairs = torch.tensor(list(itertools.product(at.clean, range(at.process.num_states))))
    noisy = at.state(pairs[:, 1:], at.s)
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
