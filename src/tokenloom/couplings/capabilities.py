"""The capabilities of a process, read from its noise and its coupling: no flag is set beside them.

A sampler, an objective or a network states what it needs in these words, so that a new noise or coupling is supported
wherever its laws fit.
"""

from functools import cached_property

from tokenloom.couplings.base import Chain, Coupling, Lifted, OneWay, Timed
from tokenloom.couplings.left_to_right import LeftToRight
from tokenloom.couplings.markov import Markov
from tokenloom.couplings.maximal import Maximal
from tokenloom.noise.law import UniformLaw
from tokenloom.noise.masses import Masses, StillMasses
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens, Posterior, Score


class Capabilities:
    """Questions about a coupling and the masses of a noise."""

    coupling: Coupling
    masses: Masses
    title: str

    @cached_property
    def path(self) -> Coupling:
        """The coupling that steps are taken with: under a point mass Markov and maximal coupling are one process, and
        the second never draws noise."""
        return Maximal() if isinstance(self.coupling, Markov) and self._is_point else self.coupling

    @cached_property
    def _is_point(self) -> bool:
        return isinstance(self.masses, StillMasses) and self.masses.fixed.is_point

    @property
    def sequential(self) -> bool:
        """True if positions are drawn one after the other, each given the ones before it."""
        return isinstance(self.coupling, LeftToRight)

    @property
    def lifted(self) -> bool:
        """True if a state carries an auxiliary variable, which `resample` can redraw given x_0 and x_s."""
        return isinstance(self.coupling, Lifted)

    @property
    def has_jump_rates(self) -> bool:
        """True if the reverse chain jumps at random times; given tau they are known."""
        return not isinstance(self.coupling, Timed | LeftToRight)

    @property
    def has_bridge(self) -> bool:
        """True if there is a chain of single steps down: not with times fixed where some noise mass falls."""
        fixed = isinstance(self.coupling, Timed) and not isinstance(self.masses, StillMasses)
        return not self.sequential and not fixed

    @property
    def markov(self) -> bool:
        """True if x_t given x_s, and what is shown, does not depend on x_0."""
        return self._chain is not None

    @cached_property
    def _chain(self) -> Chain | None:
        """The maximal coupling is the Markov one if w is 0 or 1 at every clean token."""
        if isinstance(self.coupling, Maximal) and not self.masses.support.sometimes:
            return Markov()
        return self.coupling if isinstance(self.coupling, Chain) else None

    @property
    def chain(self) -> Chain:
        """Return the coupling that adds noise to a state."""
        if self._chain is None:
            raise ValueError(
                f"{self.title} is not Markov: x_t depends on x_0 beyond x_s; use corrupt(x_0, t) instead of a step up"
            )
        return self._chain

    @property
    def one_way(self) -> bool:
        """True if a token changes at most once on the way down, to its clean token."""
        return not self.sequential and isinstance(self.path, OneWay)

    @property
    def reveals(self) -> bool:
        """True if a token may tell x_0 for certain before t = 0: then a clean token among noisy ones shows as such."""
        return not self.sequential and (self.lifted or self.masses.support.never)

    @property
    def all_or_nothing(self) -> bool:
        """True if a token either tells x_0 for certain or says nothing of it, as a mask does."""
        return isinstance(self.coupling, Timed) or self.masses.support.empty

    @property
    def uniform_noise(self) -> bool:
        """True if a lost token is uniform on the vocabulary, at every position and time, as far as is shown."""
        still = self.masses.fixed if isinstance(self.masses, StillMasses) else None
        return isinstance(still, UniformLaw) and not self._shows_noise

    @property
    def masking(self) -> bool:
        """True if a lost token is the mask and nothing else."""
        return not self.sequential and self._is_point and self.masses.support.empty

    @property
    def shows_auxiliary(self) -> bool:
        """True if the network reads the auxiliary variable beside the tokens; of a point mass it says nothing."""
        return self._shows_noise and not self._is_point

    @property
    def _shows_noise(self) -> bool:
        """True if what is shown changes the law of a lost token."""
        return type(self.coupling).law is not Coupling.law

    @property
    def tight(self) -> bool:
        """True if the bound at the exact posterior is the likelihood."""
        return self.markov or self.sequential

    def bounded(self, predicts: type[Posterior]) -> bool:
        """True if the bound of finite logits is finite at t = 0: not a denoiser's, where noise can produce the data."""
        return predicts is not Denoiser or self.all_or_nothing

    @property
    def preferred(self) -> type[OverTokens]:
        """The representation that exists at every state, for steps of a model that predicts a score."""
        return Denoiser if self.lifted or self.all_or_nothing else LeaveOneOut

    def step_representation(self, predicts: type[Posterior]) -> type[OverTokens]:
        """Return the representation that a reverse step uses: the predicted one, or `preferred` for a score."""
        return self.preferred if predicts is Score else predicts  # type: ignore[return-value]
