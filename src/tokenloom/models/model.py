"""A model: predictions with a meaning, whether they come from a network or are exact."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tokenloom.models.agreement import check_network, num_outputs
from tokenloom.models.network import LinearHead, NetworkCall, unwrapped
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.models.unseen import warn_unseen
from tokenloom.posteriors import (
    Denoiser,
    LeaveOneOut,
    Posterior,
    Score,
    as_posterior,
    check_representation,
)
from tokenloom.processes.base import Process
from tokenloom.schedules import Schedule
from tokenloom.state import Noisy
from tokenloom.support.about import About
from tokenloom.support.log_space import add_evidence
from tokenloom.support.typed import checked


class DiffusionModel(nn.Module):
    """A network together with what its output means: the process it denoises and the posterior it predicts.

    Args:
        network: Any callable (tokens, time) -> logits; `models/network.py` says what else it may offer.
        process: The process it denoises.
        schedule: Replaces that of the process.
        predicts: What its logits are: `LeaveOneOut`, `Denoiser` or `Score`.
        tokenizer: Turns tokens into text and back; saved with the model.
        about: What is known of the model; saved with it.

    Raises:
        ValueError: If what the network says of itself contradicts the process or the representation.
    """

    compiled = False
    """Whether body and head of the network are compiled when they are called; see `compile`."""

    @checked
    def __init__(
        self,
        network: Callable[..., Any],
        process: Process,
        schedule: Schedule | None = None,
        predicts: type[Posterior] = LeaveOneOut,
        tokenizer: Tokenizer | None = None,
        about: About | None = None,
    ) -> None:
        super().__init__()
        check_representation(predicts)
        self.network = network
        self.process = process if schedule is None else process.with_schedule(schedule)
        self.predicts = predicts
        self.tokenizer = tokenizer
        self.about = About() if about is None else about
        check_network(self.call, self.process, predicts)

    @property
    def call(self) -> NetworkCall:
        """The network with the way it is called."""
        return NetworkCall(self.network, self.compiled)

    @property
    def schedule(self) -> Schedule:
        """The schedule of the process."""
        return self.process.schedule

    @property
    def hollow(self) -> bool:
        """Whether the output at a position provably ignores the input at it."""
        return bool(self.call.attribute("hollow", False))

    @property
    def causal(self) -> bool:
        """Whether the output at a position sees only the input before it."""
        return self.process.sequential

    @property
    def timeless(self) -> bool:
        """Whether the prediction is known to ignore the time."""
        return self.process.all_or_nothing if self.reads_evidence else bool(self.call.attribute("timeless", False))

    @property
    def reads_evidence(self) -> bool:
        """Whether the network is shown what each token is worth, and so serves any process."""
        return bool(self.call.attribute("reads_evidence", False))

    @property
    def marks_given(self) -> bool:
        """Whether the network is shown which positions are given."""
        return self.reads_evidence or bool(self.call.attribute("marks_given", False))

    @property
    def length(self) -> int | None:
        """The longest sequence the network reads, where it says so."""
        length: int | None = self.call.attribute("length", None)
        return length

    @property
    def device(self) -> torch.device | None:
        """Where the weights are; None for a callable without any."""
        first = next(self.parameters(), None)
        return None if first is None else first.device

    @property
    def linear_head(self) -> LinearHead | None:
        """The head of a network that splits, where it is linear."""
        return self.call.linear_head

    @checked
    def predict(self, noisy: Noisy) -> Posterior:
        """The network's posterior at x_t; a denoiser puts all mass on tokens that are already revealed.

        Args:
            noisy: The state x_t.

        Returns:
            A prediction, as `predicts`.

        Raises:
            ValueError: If the state does not fit the process, or the network gave NaN or a wrong shape.
        """
        features = self.body(noisy)
        rows = self.head(features.flatten(0, 1))
        logits = rows.view(*noisy.tokens.shape, rows.shape[-1])
        prediction = self.interpret(logits, noisy)
        prediction.check(noisy, self.process)
        return prediction

    def body(self, noisy: Noisy) -> Tensor:
        """All of the network but its head; the logits where it does not split.

        Args:
            noisy: The state x_t.

        Returns:
            Features of shape [batch, length, features].

        Raises:
            ValueError: If the state does not fit the process.
        """
        self.process.check_state(noisy)
        shown, call = self.process.network_input(noisy), self.call
        if self.reads_evidence:
            shown = replace(shown, evidence=self.process.evidence(noisy))
        return call.features(shown) if call.splits else call.logits(shown, num_outputs(self.process, self.predicts))

    def head(self, features: Float[Tensor, "rows features"]) -> Float[Tensor, "rows out"]:
        """Logits from the features of some positions.

        Args:
            features: Features of some positions.

        Returns:
            Logits.
        """
        return self.call.head(features) if self.call.splits else features

    def interpret(self, logits: Float[Tensor, "batch length out"], noisy: Noisy) -> Posterior:
        """Logits as the posterior they are (`eq:carry-over-uniform`).

        Args:
            logits: What `head` gave.
            noisy: The state they were computed at.

        Returns:
            A prediction, as `predicts`.
        """
        if self.predicts is Score:
            return Score(logits)
        restricted = self.process.restrict(logits)
        if self.predicts is LeaveOneOut:
            return LeaveOneOut(restricted)
        evidence = self.process.evidence(noisy)
        known = torch.where(evidence.isposinf(), evidence, 0)
        return as_posterior(add_evidence(restricted, noisy.tokens, known), Denoiser)

    @checked
    def with_process(self, process: Process) -> "DiffusionModel":
        """The same network under another process that shows it what it was trained on; one that reads the evidence
        serves them all, and warns of noise that its training did not show.

        Args:
            process: The process to use.

        Returns:
            A new model that shares the network.

        Raises:
            ValueError: If the network does not fit it.
        """
        if self.reads_evidence:
            warn_unseen(process, self.about, self.length)
        other = DiffusionModel(self.network, process, None, self.predicts, self.tokenizer, self.about)
        other.compiled = self.compiled
        return other

    def compile(self, *args: Any, **options: Any) -> None:
        """Compile the network in place with torch.compile, body and head apart, when they are first called.

        A layout (rows, length, training or not) is compiled once, which takes from seconds to a minute.  Predictions
        change by rounding alone; saving, copying and training are as before.

        Args:
            *args: None; `torch.nn.Module.compile` has some.
            **options: None, likewise.

        Raises:
            ValueError: If there are any, or the network is compiled or data-parallel already.
        """
        if unwrapped(self.network) is not self.network:
            raise ValueError(
                f"the network is wrapped in a {type(self.network).__name__} already; compile the model before that, or "
                "leave it as it is"
            )
        if args or options:
            raise ValueError(
                f"compile takes no options here, got {', '.join([*map(repr, args), *options])}; compile the network "
                "itself with torch.compile(network, ...) for others"
            )
        self.compiled = True

    @checked
    def encode(self, text: str) -> list[int]:
        """The ids of a text.

        Args:
            text: A text in the model's alphabet.

        Returns:
            Token ids.

        Raises:
            ValueError: If the model has no tokenizer.
        """
        return self._known_tokenizer().encode(text)

    @checked
    def decode(self, tokens: Int[Tensor, "batch length"], end: int | None = None) -> list[str]:
        """One text per row.

        Args:
            tokens: Token ids.
            end: A token before which each text ends.

        Returns:
            As many texts as rows.

        Raises:
            ValueError: If the model has no tokenizer.
        """
        rows: list[list[int]] = tokens.tolist()
        return [self._known_tokenizer().decode(row[: row.index(end)] if end in row else row) for row in rows]

    def _known_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ValueError("this model carries no tokenizer; pass one as DiffusionModel(..., tokenizer=...)")
        return self.tokenizer

    def describe(self, **known: Any) -> "DiffusionModel":
        """Add to what is known of the model, in place.

        Args:
            **known: Fields of `About`.

        Returns:
            The model itself.
        """
        self.about = replace(self.about, **known)
        return self

    @checked
    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, for `tokenloom.load`.

        Args:
            folder: Where to; made if it is not there, and a model in it is replaced.

        Raises:
            ValueError: If the network is not registered, or the folder holds something else than a model.
        """
        from tokenloom.models.store import save_model

        save_model(self, folder)
