"""What a process can do, as others ask for it: nobody outside this room asks which process it got.

A sampler, an objective or a network states what it needs in these words, so that a new process is supported wherever
its traits fit.  The defaults describe the plain case: a Markov chain with one noise law that leaves every token
in doubt.
"""

from typing import TYPE_CHECKING, ClassVar

from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens, Posterior


class Traits:
    """Class variables are known before a process is built; properties may depend on its options."""

    if TYPE_CHECKING:
        name: ClassVar[str]

    method: ClassVar[str | None] = None
    """What `tokenloom train --method` calls training under this process; None if it is not trained directly."""
    default_predicts: ClassVar[type[Posterior]] = LeaveOneOut
    """What a network predicts unless told otherwise."""
    default_objective: ClassVar[str] = "nelbo"
    """What training minimises unless told otherwise."""

    bridge_takes: ClassVar[tuple[type[OverTokens], ...]] = (LeaveOneOut, Denoiser)
    """The representations that a reverse step can be made from, the preferred one first."""
    markov: ClassVar[bool] = True
    """Whether x_t given x_s does not depend on x_0, so that noise can be added to a state."""
    uniform_noise: ClassVar[bool] = False
    """Whether a lost token is uniform on the vocabulary, at every position and time."""
    point_noise: ClassVar[bool] = False
    """Whether a lost token becomes one known state: the mask, or what the auxiliary variable says."""
    one_way: ClassVar[bool] = False
    """Whether a token changes at most once on the way down, to its clean token."""
    all_or_nothing: ClassVar[bool] = False
    """Whether a token either tells x_0 for certain or says nothing of it, as a mask does."""
    masking: ClassVar[bool] = False
    """Whether a lost token is the mask and nothing else; such a process has an integer `mask`."""
    mask_states: ClassVar[bool] = False
    """Whether a state may contain the mask."""
    lifted: ClassVar[bool] = False
    """Whether a state carries an auxiliary variable, which `resample` can redraw given x_0 and x_s."""
    shows_auxiliary: ClassVar[bool] = False
    """Whether the network reads the auxiliary variable beside the tokens."""
    has_jump_rates: ClassVar[bool] = True
    """Whether the reverse chain jumps at the rates of `reverse_rates`."""
    has_rate_integral: ClassVar[bool] = True
    """Whether `level_after` knows the integral of the largest rate."""
    by_evidence: ClassVar[bool] = False
    """Whether only a network that reads the evidence of each token can be trained under it."""
    sequential: ClassVar[bool] = False
    """Whether positions are drawn one after the other, each given the ones before it."""

    @property
    def reveals(self) -> bool:
        """Whether a token may tell x_0 for certain before t = 0: then a clean token among noisy ones shows as such."""
        return False

    def bound(self, predicts: type[Posterior]) -> str:
        """The objective whose mean over t is the continuous-time bound, for a network that predicts this.

        Args:
            predicts: The representation that the network predicts.

        Returns:
            A name in `tl.objectives.OBJECTIVES`.

        Raises:
            ValueError: If the process has no bound of its own.
        """
        return "rate-nelbo"

    def step_representation(self, predicts: type[Posterior]) -> type[OverTokens]:
        """What a reverse step is made from where the model predicts this: the same if possible.

        Args:
            predicts: The representation that the model predicts.

        Returns:
            One of `bridge_takes`.
        """
        return next((kind for kind in self.bridge_takes if kind is predicts), self.bridge_takes[0])
