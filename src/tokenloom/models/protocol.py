"""What a model is asked, whether its predictions come from a network or are exact."""

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
    """What samplers, bounds and probes ask of a model that predicts a certain posterior; networks and oracles both
    satisfy it."""

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
    def marks_given(self) -> bool: ...  # it is shown which positions are given
    @property
    def linear_head(self) -> LinearHead | None: ...  # the head, where it is one linear map

    def body(self, noisy: Noisy) -> Tensor:
        """Features of every position."""

    def head(self, features: Float[Tensor, "rows features"]) -> Float[Tensor, "rows out"]:
        """Logits from the features of some positions."""

    def logits(self, noisy: Noisy) -> Float[Tensor, "batch length out"]:
        """The output at every position, for `interpret`."""

    def interpret(self, logits: Float[Tensor, "batch length out"], noisy: Noisy) -> Predicted_co:
        """Logits as the posterior they are; everything reads them here."""

    def predict(self, noisy: Noisy) -> Predicted_co:
        """The posterior at x_t."""

    def with_process(self, process: Process) -> "Model[Predicted_co]":
        """The same predictions under another process that shows the same."""
