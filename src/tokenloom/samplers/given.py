"""Given positions of a sample: shown clean, or noised to the level of every step, and returned unchanged."""

import warnings
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from tokenloom.couplings.steps import marginal
from tokenloom.drawing.randomness import Randomness
from tokenloom.models.protocol import Model
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.support.checks import check_device, check_mask
from tokenloom.types import Flags, Tokens

ShowGiven = Literal["auto", "clean", "noised"]
BIASED = (
    "this model does not know which positions are given, so they are shown to it noised, and the samples are not "
    "exactly those of the model given these tokens (off by 0.05 to 0.1 in total variation on small tables); use a "
    "model that marks given positions (as those of `tokenloom train` on text do; TransformerConfig(given=True)) or a "
    "masked one, or pass show_given='noised' to a Sampler to accept it"
)
"""The warning where given tokens are shown noised and nobody asked for it."""
GivenTokens = tuple[Int[Tensor, "*rows length"], Bool[Tensor, "*rows length"]]
"""Given tokens and the flags of their positions, for every row or one for all."""


@dataclass(frozen=True)
class HeldPositions:
    """The given positions, which are put back after every step."""

    process: Process
    tokens: Tokens | None = None
    flags: Flags | None = None
    clean: bool = True

    @classmethod
    def make(cls, model: Model, given: GivenTokens | None, noisy: Noisy, show: ShowGiven) -> "HeldPositions":
        """Check what is given against the model and the batch."""
        if given is None:
            return cls(model.process)
        tokens, flags = (part.expand(len(noisy.tokens), -1) if part.ndim == 1 else part for part in given)
        if show == "noised" and model.causal:
            raise ValueError("a causal model reads given tokens clean, got show_given='noised'; leave it at auto")
        if tokens.shape != noisy.tokens.shape:
            raise ValueError(
                f"given tokens have shape {list(tokens.shape)}, but {list(noisy.tokens.shape)} are to be sampled"
            )
        check_mask("the flags of given", flags, noisy.tokens)
        check_device("given tokens", tokens, noisy.tokens)
        clean = 1 if model.process.mask_in_vocabulary == 0 else 0  # what stands at free positions is not read
        tokens = torch.where(flags, tokens, clean)
        model.process.check_clean(tokens)
        if model.causal:
            _check_beginning(flags)
        knows = model.causal or model.marks_given or model.process.reveals
        if show == "auto" and not knows and bool(flags.any()):
            warnings.warn(BIASED, UserWarning, stacklevel=2)
        return cls(model.process, tokens, flags, knows if show == "auto" else show == "clean")

    def __call__(self, noisy: Noisy, generator: Randomness | None) -> Noisy:
        if self.tokens is None or self.flags is None:
            return noisy
        if self.clean:
            return self.process.hold(noisy, self.tokens, self.flags)
        level = replace(noisy, tokens=self.tokens)
        noised = marginal(self.process, level, self.tokens).draw(generator)
        return replace(noisy, tokens=torch.where(self.flags, noised, noisy.tokens))


def _check_beginning(flags: Flags) -> None:
    """Raise unless all that is given stands before all that is drawn, as left to right needs it."""
    late = (flags & ~flags.cumprod(1).bool()).nonzero()
    if len(late):
        row, position = late[0].tolist()
        raise ValueError(
            f"a causal model only sees what stands before a blank, but position {position} of row {row} is given "
            "behind one; give a beginning (a prompt), or fill in with a model that sees every position"
        )
