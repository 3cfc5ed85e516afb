"""What a model is asked, whether its predictions come from a network or are exact."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.models.network import LinearHead
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.posteriors import Posterior
from tokenloom.processes.base import Process
from tokenloom.state import Noisy
from tokenloom.support.about import About


@runtime_checkable
class Model(Protocol):
    """What samplers, bounds and probes ask of a model; networks and oracles both satisfy it."""

    process: Process
    predicts: type[Posterior]

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
        """Features of every position.

        Args:
            noisy: The state x_t.

        Returns:
            Features of shape [batch, length, features].
        """

    def head(self, features: Float[Tensor, "rows features"]) -> Float[Tensor, "rows out"]:
        """Logits from the features of some positions.

        Args:
            features: Features of some positions.

        Returns:
            Logits.
        """

    def interpret(self, logits: Float[Tensor, "batch length out"], noisy: Noisy) -> Posterior:
        """Logits as the posterior they are.

        Args:
            logits: What `head` gave.
            noisy: The state they were computed at.

        Returns:
            A prediction, as `predicts`.
        """

    def predict(self, noisy: Noisy) -> Posterior:
        """The posterior at x_t.

        Args:
            noisy: The state x_t.

        Returns:
            A prediction, as `predicts`.

        Raises:
            ValueError: If the state does not fit the process.
        """

    def with_process(self, process: Process) -> "Model":
        """The same predictions under another process that shows the same.

        Args:
            process: The process to use.

        Returns:
            A new model.

        Raises:
            ValueError: If the predictions make no sense under it.
        """
