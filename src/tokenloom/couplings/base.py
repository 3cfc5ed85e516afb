r"""The path from x_0 to its noise, and the part of it that a state shows.

Given what is shown, a position still has its clean token with probability `level` (alpha) and is noise otherwise, with
mass m at x_t.  Going down from t to s, of the noise at x_t a share a = `clean` came after s and is clean at s, and a
share b = `fresh` came after s and is another draw of the noise at s.  These four numbers are all of a coupling.  With
p = nu at x_t, and lost = m / (alpha p + m) the probability that x_t is noise,

    from x_0 or a leave-one-out posterior nu   prediction a lost   noise b lost
    from a denoiser mu                         prediction a        noise b (1 - mu_x + mu_x m/(alpha + m))

and the rest stays: Bayes' rule, and its average over the denoiser.  The first form at mu, or the second at nu, is
another law, except where tokens say all or nothing.  The rates are the same lines with the derivatives of a and b.
A token that is never noise (m = 0) is clean and stays, whatever is predicted.

    Markov               a + b = 1 - h_s/h_t, of which a share alpha_s is clean     with h = m/alpha
    one path per token   a = 1 - m_s/m_t, b = 0      maximal; absorbing, given U; transition times, given tau
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.randomness import Randomness
from tokenloom.noise.law import Law
from tokenloom.noise.masses import StillMasses
from tokenloom.state import NetworkInput, Noisy
from tokenloom.support.registry import Registry
from tokenloom.support.typed import check_fields
from tokenloom.types import Auxiliary, Flags, PerPosition, PerRow, Tokens

if TYPE_CHECKING:
    from tokenloom.process import Process


@dataclass(frozen=True)
class Coupling(ABC):
    """The joint law of x_s and x_t given x_0."""

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, process: "Process") -> None:  # noqa: B027  # most exist for every noise
        """Raise unless this coupling exists for the noise of a process."""

    def level(self, process: "Process", noisy: Noisy) -> PerPosition:
        """Return the probability that a position still has its clean token, given what the state shows."""
        return noisy.alpha_t.double()[:, None].expand(noisy.tokens.shape)

    def remains(self, process: "Process", noisy: Noisy) -> PerPosition:
        """Return the probability that corruption keeps the clean token: `level`, unless a network cannot see it."""
        return self.level(process, noisy)

    def law(self, process: "Process", noisy: Noisy) -> Law:
        """Return the law of a lost token, given what the state shows."""
        return process.masses.law(noisy, noisy.t)

    def mass(self, process: "Process", noisy: Noisy) -> PerPosition:
        """Return the probability of being noise and x_t, given what the state shows."""
        return process.masses.mass(noisy)

    @abstractmethod
    def shares(self, process: "Process", noisy: Noisy, s: PerRow) -> tuple[PerPosition, PerPosition]:
        """a and b: of the noise at x_t, what came after s and is clean at s, and what is another draw; any if m = 0."""

    @abstractmethod
    def rates(self, process: "Process", noisy: Noisy) -> tuple[PerPosition, PerPosition]:
        """Return the derivatives of a and b in t at s = t, for 0 < alpha_t < 1; any if m = 0."""

    def network_input(self, process: "Process", noisy: Noisy) -> NetworkInput:
        """Turn a state into what a network reads."""
        absorbing = noisy.aux if process.shows_auxiliary else None
        return NetworkInput(noisy.tokens, noisy.t, noisy.alpha_t, absorbing, noisy.given)

    def mask(self, process: "Process") -> int | None:
        """Return the id that a network is shown for a lost token, where there is one."""
        return process.noise.mask


@dataclass(frozen=True)
class Chain(Coupling):
    """A coupling whose way up is Markov, given what is shown: noise can be added to a state without knowing x_0."""

    @abstractmethod
    def kept(self, process: "Process", noisy: Noisy, t: PerRow) -> tuple[PerPosition, Law]:
        """Return the probability that a token is not lost until a later time, and the law of a lost one."""

    @abstractmethod
    def loss_rate(self, process: "Process", noisy: Noisy) -> tuple[PerPosition, Law]:
        """Return the rate at which the way up loses a token, and the law of what it becomes."""


@dataclass(frozen=True)
class Clocked(Coupling):
    """A coupling whose rates have a closed integral: the next jump is drawn without an error in the step."""

    @abstractmethod
    def later(self, process: "Process", t: PerRow, waiting: PerRow) -> PerRow:
        """Return the earlier time at which the integral of a + b's rates, over `pace`, is `waiting`."""

    @abstractmethod
    def pace(self, process: "Process", noisy: Noisy) -> PerPosition:
        """Return the speed of each position's clock, in units of that of `later`; 0 where nothing jumps."""


@dataclass(frozen=True)
class OneWay(Clocked):
    """Keep x_0 until some time tau with P(tau <= t) = 1 - alpha_t, then one draw of the noise for ever.

    A token changes at most once on the way down, to its clean token: b = 0, so no noise is ever drawn there.
    """

    def __init_subclass__(cls) -> None:
        if cls.shares is not OneWay.shares:
            raise TypeError(f"{cls.__name__} is one-way: it defines found, and its shares follow")

    def check(self, process: "Process") -> None:
        if not isinstance(process.masses, StillMasses):
            raise ValueError(
                f"the {type(self).__name__} coupling needs noise that only grows, and the mass of some token of "
                f"{type(process.noise).__name__} noise falls before t = 1; use the Markov coupling"
            )

    def shares(self, process: "Process", noisy: Noisy, s: PerRow) -> tuple[PerPosition, PerPosition]:
        found = self.found(process, noisy, s)
        return found, torch.zeros_like(found)

    def rates(self, process: "Process", noisy: Noisy) -> tuple[PerPosition, PerPosition]:
        """lambda = -alpha'/(1 - alpha), the hazard of tau at t given that it is not after t."""
        found = (-process.alpha_prime(noisy.t) / (1 - noisy.alpha_t.double()))[:, None].expand(noisy.tokens.shape)
        return found, torch.zeros_like(found)

    def found(self, process: "Process", noisy: Noisy, s: PerRow) -> PerPosition:
        """1 - m_s/m_t = (alpha_s - alpha_t)/(1 - alpha_t), for noise that stands still."""
        alpha_s, alpha_t = process.alpha(s)[:, None], noisy.alpha_t.double()[:, None]
        lost = torch.where(alpha_t < 1, 1 - alpha_t, 1)
        return ((alpha_s - alpha_t) / lost).expand(noisy.tokens.shape)

    def later(self, process: "Process", t: PerRow, waiting: PerRow) -> PerRow:
        """1 - alpha_s = (1 - alpha_t) exp(-waiting)."""
        return process.masses.time_at_lost((1 - process.alpha(t)) * torch.exp(-waiting))

    def pace(self, process: "Process", noisy: Noisy) -> PerPosition:
        return (self.mass(process, noisy) > 0).double()


@dataclass(frozen=True)
class Lifted(OneWay):
    """A one-way coupling that shows a part of the path: U or tau, in `aux` of a state."""

    @abstractmethod
    def auxiliary(self, process: "Process", tokens: Tokens, generator: Randomness | None) -> Auxiliary:
        """Draw the auxiliary variable from its own law."""

    def prior(self, process: "Process", noisy: Noisy, generator: Randomness | None) -> Noisy:
        """Complete a state at t = 1, where every token is lost; its auxiliary variable is drawn already."""
        return noisy

    @abstractmethod
    def resample(self, process: "Process", x_0: Tokens, x_s: Noisy, generator: Randomness | None) -> Auxiliary:
        """Redraw the auxiliary variable given x_0 and x_s, in the Markov chain of the same noise."""

    def hold(self, process: "Process", noisy: Noisy) -> Noisy:
        """Change the auxiliary variable where a position is given, so that it does not call a clean token lost."""
        return noisy


@dataclass(frozen=True)
class Timed(Lifted):
    """A lifted coupling that shows tau: a position either has its clean token still or has lost it.

    A network sees lost tokens as masks, and not tau itself.
    """

    def lost(self, noisy: Noisy) -> Flags:
        """Return flags of tau <= t."""
        lost = shown(noisy, "the transition times tau") <= noisy.t[:, None]
        return lost if noisy.given is None else lost & ~noisy.given

    def mask(self, process: "Process") -> int:
        return process.vocab_size if process.noise.mask is None else process.noise.mask

    def masked_view(self, process: "Process", noisy: Noisy) -> Tokens:
        """x~_t(tau): the tokens, with the mask for lost ones."""
        return noisy.tokens.masked_fill(self.lost(noisy), self.mask(process))

    def network_input(self, process: "Process", noisy: Noisy) -> NetworkInput:
        return replace(super().network_input(process, noisy), tokens=self.masked_view(process, noisy))

    def level(self, process: "Process", noisy: Noisy) -> PerPosition:
        return (~self.lost(noisy)).double()

    def mass(self, process: "Process", noisy: Noisy) -> PerPosition:
        """1 where the token is lost: what it is says nothing then."""
        return self.lost(noisy).double()

    def found(self, process: "Process", noisy: Noisy, s: PerRow) -> PerPosition:
        """[s < tau], which is known."""
        if not isinstance(process.masses, StillMasses):
            raise ValueError(
                f"{process.title} has no chain with its times fixed, because the mass of some token of its noise falls "
                "before t = 1; redraw them, as mudm:resample=true does"
            )
        return (shown(noisy, "the transition times tau") > s[:, None]).double()


def probability_lost(process: "Process", x_0: Tokens, x_s: Noisy) -> PerPosition:
    """P(x_s is noise | x_0, x_s): 1 where it differs from x_0, else m_s / (alpha_s + m_s) at x_0."""
    mass = process.masses.mass(replace(x_s, tokens=x_0))
    return torch.where(x_s.tokens == x_0, mass / (x_s.alpha_t.double()[:, None] + mass), 1)


def shown(noisy: Noisy, what: str) -> Float[Tensor, "batch length"] | Tokens:
    """Return the auxiliary variable of a state, which must have one."""
    if noisy.aux is None:
        raise ValueError(f"the state lacks {what}, its auxiliary variable; corrupt() and prior() provide it")
    return noisy.aux


COUPLINGS: Registry[Coupling] = Registry("coupling", "tokenloom.couplings", "tokenloom.couplings")
