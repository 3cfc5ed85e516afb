r"""A process: noise x coupling x schedule, with every law that follows from the three.

    q(x_t | x_0) = alpha_t [x_t = x_0] + m_t(x_t),      m_t = (1 - alpha_t) w_t                        (`eq:transition`)

for every coupling.  As a function of x_0 it takes two values, so all that x_t says of its own x_0 is

    evidence = log q(x_t | x_0 = x_t) - log q(x_t | x_0 != x_t) = log(1 + alpha_t / m_t(x_t)),

0 where the token says nothing (a mask) and +inf where it reveals x_0 (a visible token of a masked process).

A process is exactly its three parts: it cannot be subclassed, and what it can do is asked of the parts.  Methods check
their arguments; `couplings/steps.py` has the same laws for callers that have checked.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from tokenloom.couplings import steps
from tokenloom.couplings.base import Coupling, Lifted
from tokenloom.couplings.capabilities import Capabilities
from tokenloom.couplings.markov import Markov
from tokenloom.couplings.steps import Endpoint, Mixture, Rates
from tokenloom.drawing.randomness import Randomness, device_named, uniform
from tokenloom.noise.base import Noise
from tokenloom.noise.law import Law
from tokenloom.noise.masses import Masses
from tokenloom.posteriors import OverTokens, Posterior
from tokenloom.schedules import LinearSchedule, Schedule
from tokenloom.state import NetworkInput, Noisy
from tokenloom.support.checks import check_mask, check_order, check_same_shape, check_time, check_tokens
from tokenloom.support.memory import check_memory
from tokenloom.support.typed import check_fields, checked
from tokenloom.types import Auxiliary, Flags, Logits, PerPosition, PerRow, Tokens, sealed


@sealed
@dataclass(frozen=True)
class Process(Capabilities):
    """A forward law with its reversals."""

    noise: Noise
    """The law of a lost token."""
    coupling: Coupling = field(default_factory=Markov)
    """The law of the path to it, and the part of that path which a state shows."""
    schedule: Schedule = field(default_factory=LinearSchedule)
    """The signal alpha_t, falling from 1."""

    def __post_init__(self) -> None:
        check_fields(self)
        self.coupling.check(self)

    @cached_property
    def masses(self) -> Masses:  # type: ignore[override]
        """The levels and noise masses in time."""
        return self.noise.masses(self.schedule)

    @checked
    def with_schedule(self, schedule: Schedule) -> "Process":
        """Build the same process with another schedule."""
        return replace(self, schedule=schedule)

    @checked
    def with_coupling(self, coupling: Coupling) -> "Process":
        """Build the process with the same one-time marginals under another coupling."""
        return replace(self, coupling=coupling)

    @property
    def name(self) -> str:
        """The registered name of this cell, or the names of its noise and its coupling."""
        return self._names[0]

    @property
    def title(self) -> str:  # type: ignore[override]
        """The name of this process in messages."""
        return self._names[1]

    @cached_property
    def _names(self) -> tuple[str, str]:
        from tokenloom.cells import CELLS

        noise, coupling = type(self.noise), type(self.coupling)
        named = "/".join(getattr(kind, "name", kind.__name__) for kind in (noise, coupling))
        return CELLS.get((noise, coupling), (named, f"{noise.__name__} noise, {coupling.__name__} coupling"))

    def alpha(self, t: PerRow) -> PerRow:
        """alpha_t in float64."""
        return self.masses.alpha(t)

    def alpha_prime(self, t: PerRow) -> PerRow:
        """d alpha / dt, in float64."""
        return self.masses.alpha_prime(t)

    def time_at(self, alpha: Tensor) -> Tensor:
        """Return the time at which the level is alpha, the inverse of `alpha`."""
        return self.masses.time_at_lost(1 - alpha)

    @cached_property
    def vocab_size(self) -> int:
        """K, the number of real tokens; a mask outside the vocabulary is not counted."""
        return self.noise.vocab_size

    @cached_property
    def num_states(self) -> int:
        """The number of ids a position can take: K, or K + 1 with a mask outside the vocabulary."""
        return self.noise.num_states

    @cached_property
    def input_states(self) -> int:
        """The number of ids in a network's input: those of a state, and the mask where only the network sees it."""
        return self.num_states if self.mask is None else max(self.num_states, self.mask + 1)

    @cached_property
    def mask(self) -> int | None:
        """The id that stands for a lost token and that clean data never contains, where there is one."""
        return self.coupling.mask(self)

    @cached_property
    def mask_in_vocabulary(self) -> int | None:
        """The mask, if it lies inside the vocabulary: an id that clean data may not contain."""
        return self.mask if self.mask is not None and self.mask < self.vocab_size else None

    def restrict(self, logits: Logits) -> Logits:
        """Exclude the mask, where it lies inside the vocabulary: no prediction may contain it."""
        mask = self.mask_in_vocabulary
        if mask is None:
            return logits
        nothing = torch.full_like(logits[..., :1], -torch.inf)
        return torch.cat([logits[..., :mask], nothing, logits[..., mask + 1 :]], -1)

    def network_input(self, noisy: Noisy) -> NetworkInput:
        """Turn a state into what a network reads."""
        return self.coupling.network_input(self, noisy)

    def hold(self, noisy: Noisy, tokens: Tokens, given: Flags) -> Noisy:
        """Show given positions clean."""
        held = replace(noisy, tokens=torch.where(given, tokens, noisy.tokens), given=given)
        return self.coupling.hold(self, held) if isinstance(self.coupling, Lifted) else held

    def move_to(self, noisy: Noisy, tokens: Tokens, s: PerRow) -> Noisy:
        """Return the state after a step to time s: new tokens, everything else carried over."""
        return replace(noisy, tokens=tokens, t=s, alpha_t=self.alpha(s))

    def law(self, noisy: Noisy) -> Law:
        """Return the law of a lost token, given what the state shows."""
        return self.coupling.law(self, noisy)

    def level(self, noisy: Noisy) -> PerPosition:
        """Return the level of each position's own token, given what the state shows; 1 at given positions."""
        level = self.coupling.level(self, noisy)
        return level if noisy.given is None else level.masked_fill(noisy.given, 1)

    def evidence(self, noisy: Noisy) -> PerPosition:
        """Return the evidence of each token on its own clean token, as above; +inf at given positions."""
        evidence = noisy.evidence
        if evidence is None:
            level, mass = self.coupling.level(self, noisy), self.coupling.mass(self, noisy)
            # the inner where keeps 0 / 0, and its gradient, out of the branch that is not taken
            evidence = torch.where(mass > 0, torch.log1p(level / torch.where(mass > 0, mass, 1)), torch.inf)
            if self.noise.mask is not None:  # a mask is never a clean token, so it says nothing
                evidence = evidence.masked_fill(noisy.tokens == self.noise.mask, 0)
        return evidence if noisy.given is None else evidence.masked_fill(noisy.given, torch.inf)

    @checked
    def corrupt(self, x_0: Tokens, t: PerRow, generator: Randomness | None = None, given: Flags | None = None) -> Noisy:
        """Draw x_t ~ q_{t|0}(. | x_0), with its auxiliary variable; given positions stay clean."""
        self.check_clean(x_0, given)
        check_time("t", t, x_0)
        return self.corrupted(x_0, t, generator, given)

    def corrupted(self, x_0: Tokens, t: PerRow, generator: Randomness | None, given: Flags | None) -> Noisy:
        """`corrupt`, without checks."""
        clean = Noisy(x_0, t, self.alpha(t), self.auxiliary(x_0, generator), given)
        return replace(clean, tokens=steps.marginal(self, clean, x_0).draw(generator))

    def auxiliary(self, tokens: Tokens, generator: Randomness | None) -> Auxiliary | None:
        """Draw the auxiliary variable from its own law, without checks; None where a state has none."""
        return self.coupling.auxiliary(self, tokens, generator) if isinstance(self.coupling, Lifted) else None

    @checked
    def prior(
        self, batch: int, length: int, generator: Randomness | None = None, device: torch.device | str | None = None
    ) -> Noisy:
        """Draw the state that sampling starts from, at t = 1, where nothing of x_0 is left."""
        if batch < 0 or length < 1:
            raise ValueError(f"a prior has at least 0 rows of length at least 1, got batch={batch}, length={length}")
        check_memory(16 * batch * length, f"a batch of {batch} sequences of length {length}", "draw fewer at a time")
        if device is None:
            device = "cpu" if generator is None else generator.device
        place = device_named(device)
        one = torch.ones(batch, device=place, dtype=torch.float64)
        blank = torch.zeros(batch, length, device=place, dtype=torch.int64)
        state = Noisy(blank, one, self.alpha(one), self.auxiliary(blank, generator))
        tokens = self.masses.law(state, one).draw(uniform((batch, length), generator, place))
        state = replace(state, tokens=tokens)
        return self.coupling.prior(self, state, generator) if isinstance(self.coupling, Lifted) else state

    @checked
    def marginal(self, noisy: Noisy, endpoint: Posterior | Tokens) -> Mixture:
        """q_{t|0} averaged over the endpoint, at the time of `noisy`: alpha_t nu + (1 - alpha_t) w."""
        return steps.marginal(self, noisy, self._endpoint(noisy, endpoint))

    @checked
    def forward(self, noisy: Noisy, t: PerRow) -> Mixture:
        """q_{t|s}(. | x_s), from a state at s to a later time."""
        self.check_state(noisy)
        check_time("t", t, noisy.tokens)
        check_order(noisy.t, t, "forward")
        return steps.forward(self, noisy, t)

    @checked
    def forward_rates(self, noisy: Noisy, x_0: Tokens | None = None) -> Rates:
        """Return rates of the noising chain; the maximal coupling needs x_0."""
        self.check_state(noisy)
        if x_0 is not None:
            self.check_clean(x_0)
            check_same_shape("x_0", x_0, noisy.tokens)
        return self._finite(steps.forward_rates(self, noisy, x_0), noisy)

    @checked
    def bridge(self, noisy: Noisy, s: PerRow, endpoint: Posterior | Tokens) -> Mixture:
        """Return the law of x_s given x_t and the endpoint, for s < t.

        A `LeaveOneOut` is plugged into Bayes' formula, over a `Denoiser` the bridge is averaged, and clean tokens are
        x_0 itself.
        """
        endpoint = self._endpoint(noisy, endpoint)
        check_time("s", s, noisy.tokens)
        check_order(s, noisy.t)
        return steps.bridge(self, noisy, s, endpoint)

    @checked
    def reverse_rates(self, noisy: Noisy, endpoint: Posterior | Tokens) -> Rates:
        """Return rates of the chain that runs from t = 1 down to 0."""
        return self._finite(steps.reverse_rates(self, noisy, self._endpoint(noisy, endpoint)), noisy)

    @checked
    def resample(self, x_0: Tokens, x_s: Tokens, s: PerRow, generator: Randomness | None = None) -> Auxiliary | None:
        """Redraw the auxiliary variable given x_0 and x_s; None where a state has none."""
        check_tokens("x_0", x_0, self.vocab_size)
        check_tokens("x_s", x_s, self.num_states)
        check_same_shape("x_0", x_0, x_s)
        check_time("s", s, x_s)
        return self.resampled(x_0, Noisy(x_s, s, self.alpha(s)), generator)

    def resampled(self, x_0: Tokens, x_s: Noisy, generator: Randomness | None) -> Auxiliary | None:
        """`resample`, without checks."""
        return self.coupling.resample(self, x_0, x_s, generator) if isinstance(self.coupling, Lifted) else None

    def check_clean(self, x_0: Tokens, given: Flags | None = None) -> None:
        """Raise unless x_0 is clean data of this process."""
        check_tokens("x_0", x_0, self.vocab_size, forbidden=self.mask_in_vocabulary)
        if given is not None:
            check_mask("given", given, x_0)

    def check_state(self, noisy: Noisy) -> None:
        """Raise unless this is a state of this process."""
        check_fields(noisy)
        check_tokens("x_t", noisy.tokens, self.num_states)
        check_time("t", noisy.t, noisy.tokens)
        check_time("alpha_t", noisy.alpha_t, noisy.tokens)
        if noisy.aux is not None:
            check_same_shape("aux", noisy.aux, noisy.tokens)
            if not noisy.aux.is_floating_point():
                check_tokens("aux", noisy.aux, self.num_states)
        if noisy.given is not None:
            check_mask("given", noisy.given, noisy.tokens)

    def _finite(self, rates: Rates, noisy: Noisy) -> Rates:
        """Return the rates, unless some are infinite, as where nothing of x_0 is left."""
        infinite = ~rates.weights.isfinite().flatten(1).all(1)
        if bool(infinite.any()):
            t = float(noisy.t[infinite][0])
            raise ValueError(f"rates of {self.title} are infinite at t = {t:g}; ask for them inside (0, 1)")
        return rates

    def _endpoint(self, noisy: Noisy, endpoint: Posterior | Tokens) -> Endpoint:
        """Check clean tokens, or a law of them, against a state; return it without the mask as a clean token."""
        self.check_state(noisy)
        if isinstance(endpoint, torch.Tensor):
            self.check_clean(endpoint)
            check_same_shape("x_0", endpoint, noisy.tokens)
            return endpoint
        if isinstance(endpoint, OverTokens):
            endpoint.check(noisy, self)
            return replace(endpoint, logits=self.restrict(endpoint.logits))
        raise ValueError(
            f"a step of {self.title} takes a Denoiser, a LeaveOneOut or clean tokens, got a "
            f"{type(endpoint).__name__}; convert(..., {self.preferred.__name__}, x_t, alpha_t, process) first"
        )
