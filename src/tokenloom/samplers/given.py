"""Given positions of a sample: shown clean, or noised to the level of every step, and given back as they are."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from tokenloom.checks import check_device, check_mask
from tokenloom.model import architecture
from tokenloom.oracle import ExactModel
from tokenloom.processes import AbsorbingUniform, Masked, MaskedUniform, Process
from tokenloom.randomness import Randomness
from tokenloom.samplers.evaluator import Model
from tokenloom.state import Noisy
from tokenloom.types import Flags, Tokens

Given = Literal["auto", "clean", "noised"]
Fixed = tuple[Int[Tensor, "*rows length"], Bool[Tensor, "*rows length"]]
"""Given tokens and the flags of their positions, for every row or one for all."""


@dataclass(frozen=True)
class Pin:
    """Holds the given positions."""

    process: Process
    tokens: Tokens | None = None
    flags: Flags | None = None
    clean: bool = True

    @classmethod
    def make(cls, model: Model, fixed: Fixed | None, noisy: Noisy, given: Given) -> "Pin":
        if fixed is None:
            return cls(model.process)
        tokens, flags = (part.expand(len(noisy.tokens), -1) if part.ndim == 1 else part for part in fixed)
        if given not in get_args(Given):
            raise ValueError(f"given must be one of {', '.join(get_args(Given))}, got {given!r}")
        if given == "noised" and model.causal:
            raise ValueError("a causal network reads given tokens as they are, got given='noised'; leave it at auto")
        if tokens.shape != noisy.tokens.shape:
            raise ValueError(
                f"fixed tokens have shape {list(tokens.shape)}, but {list(noisy.tokens.shape)} are to be sampled"
            )
        check_mask("the flags of fixed", flags, noisy.tokens)
        check_device("fixed tokens", tokens, noisy.tokens)
        tokens = torch.where(flags, tokens, 0)
        model.process.check_clean(tokens)
        return cls(model.process, tokens, flags, _shows_given(model) if given == "auto" else given == "clean")

    def __call__(self, noisy: Noisy, generator: Randomness | None) -> Noisy:
        if self.tokens is None or self.flags is None:
            return noisy
        if not self.clean:
            level = replace(noisy, tokens=self.tokens)
            noised = self.process.marginal(level, self.tokens).draw(generator)
            return replace(noisy, tokens=torch.where(self.flags, noised, noisy.tokens))
        noisy = replace(noisy, tokens=torch.where(self.flags, self.tokens, noisy.tokens), fixed=self.flags)
        if isinstance(self.process, AbsorbingUniform) and noisy.aux is not None:
            other = (self.tokens + 1) % self.process.vocab_size  # a token other than U is clean to the network
            noisy = replace(noisy, aux=torch.where(self.flags & (noisy.aux == self.tokens), other, noisy.aux))
        return noisy


def _shows_given(model: Model) -> bool:
    """Whether a clean token among noisy ones is something the model knows."""
    if (
        model.causal
        or isinstance(model, ExactModel)
        or isinstance(model.process, Masked | MaskedUniform | AbsorbingUniform)
    ):
        return True
    inner = architecture(model.network)
    return inner is not None and inner.config.fixed
