"""The interface of a model, whether its predictions come from a network or are exact."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.models.network import LinearHead
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.posteriors import Predicted_co
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.support.about import About


@runtime_checkable
class Model(Protocol[Predicted_co]):
    """Everything that samplers, bounds and probes use of a model; networks and oracles both satisfy it."""

    @property
    def process(self) -> Process: ...
    @property
    def predicts(self) -> type[Predicted_co]: ...
    @property
    def about(self) -> About: ...
    @property
    def tokenizer(self) -> Tokenizer | None: ...
    @property
    def length(self) -> int | None: ...  # the longest sequence, where there is a limit
    @property
    def device(self) -> torch.device | None: ...  # None where it has no tensor of its own
    @property
    def causal(self) -> bool: ...  # the output at a position depends on the inputs before it only
    @property
    def hollow(self) -> bool: ...  # the output at a position provably ignores the input at it
    @property
    def timeless(self) -> bool: ...  # it is known to ignore the time
    @property
    def marks_given(self) -> bool: ...  # the flags of given positions are an input
    @property
    def linear_head(self) -> LinearHead | None: ...  # the head, where it is one linear map

    def body(self, noisy: Noisy) -> Tensor:
        """Compute the features of every position."""

    def head(self, features: Float[Tensor, "rows features"]) -> Float[Tensor, "rows out"]:
        """Compute logits from the features of some positions."""

    def logits(self, noisy: Noisy) -> Float[Tensor, "batch length out"]:
        """Compute the output at every position, for `interpret`."""

    def interpret(self, logits: Float[Tensor, "batch length out"], noisy: Noisy) -> Predicted_co:
        """Read logits as the posterior they are."""

    def predict(self, noisy: Noisy) -> Predicted_co:
        """Compute the posterior at x_t."""

    def with_process(self, process: Process) -> "Model[Predicted_co]":
        """Return the same predictions under another process that shows the network the same."""
