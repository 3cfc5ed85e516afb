"""A model: predictions with a meaning, whether they come from a network or are exact."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tokenloom.models.network import LinearHead, NetworkCall
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.posteriors import (
    Denoiser,
    LeaveOneOut,
    Posterior,
    Score,
    add_evidence,
    as_posterior,
    check_representation,
)
from tokenloom.processes.base import Process
from tokenloom.schedules import Schedule
from tokenloom.state import Noisy
from tokenloom.support.about import About
from tokenloom.support.typed import checked


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
        """Features of every position, [batch, length, features]."""

    def head(self, features: Float[Tensor, "rows features"]) -> Float[Tensor, "rows out"]:
        """Logits from the features of some positions."""

    def interpret(self, logits: Float[Tensor, "batch length out"], noisy: Noisy) -> Posterior:
        """Logits as the posterior they are."""

    def predict(self, noisy: Noisy) -> Posterior:
        """The posterior at x_t."""

    def with_process(self, process: Process) -> "Model":
        """The same predictions under another process that shows the same."""


class DiffusionModel(nn.Module):
    """A network together with what its output means: the process it denoises and the posterior it predicts.

    `network` is any callable (tokens, time) -> logits; `models/network.py` says what else it may offer.  `tokenizer`
    turns tokens into text and back, and `about` is what is known of the model; both are saved with it.
    """

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
        _check_network(self.call, self.process, predicts)

    @property
    def call(self) -> NetworkCall:
        """The network with the way it is called."""
        return NetworkCall(self.network)

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
        """Whether the network is known to ignore the time."""
        return bool(self.call.attribute("timeless", False))

    @property
    def marks_given(self) -> bool:
        """Whether the network is shown which positions are given."""
        return bool(self.call.attribute("marks_given", False))

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
        """The network's posterior at x_t; a denoiser puts all mass on tokens that are already revealed."""
        features = self.body(noisy)
        rows = self.head(features.flatten(0, 1))
        logits = rows.view(*noisy.tokens.shape, rows.shape[-1])
        prediction = self.interpret(logits, noisy)
        prediction.check(noisy, self.process)
        return prediction

    def body(self, noisy: Noisy) -> Tensor:
        """All of the network but its head, [batch, length, features]; the logits where it does not split."""
        self.process.check_state(noisy)
        shown, call = self.process.network_input(noisy), self.call
        return call.features(shown) if call.splits else call.logits(shown, num_outputs(self.process, self.predicts))

    def head(self, features: Float[Tensor, "rows features"]) -> Float[Tensor, "rows out"]:
        """Logits from the features of some positions."""
        logits: Tensor = self.call.inner.head(features) if self.call.splits else features
        return logits

    def interpret(self, logits: Float[Tensor, "batch length out"], noisy: Noisy) -> Posterior:
        """Logits as the posterior they are (`eq:carry-over-uniform`)."""
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
        """The same network under another process that shows it what it was trained on."""
        return DiffusionModel(self.network, process, None, self.predicts, self.tokenizer, self.about)

    @checked
    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return self._known_tokenizer().encode(text)

    @checked
    def decode(self, tokens: Int[Tensor, "batch length"], end: int | None = None) -> list[str]:
        """One text per row; with `end`, up to and without the first such token."""
        rows: list[list[int]] = tokens.tolist()
        return [self._known_tokenizer().decode(row[: row.index(end)] if end in row else row) for row in rows]

    def _known_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ValueError("this model carries no tokenizer; pass one as DiffusionModel(..., tokenizer=...)")
        return self.tokenizer

    def describe(self, **known: Any) -> "DiffusionModel":
        """Add to what is known of the model, in place."""
        self.about = replace(self.about, **known)
        return self

    @checked
    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, for `tokenloom.load`."""
        from tokenloom.models.store import save_model

        save_model(self, folder)


_MODES = Lock()
_USERS: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
_FOUND: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Without dropout; every part of the model gets back the mode it was in.

    The mode of a module is shared by all threads, so each module counts its users: the first one in switches it to
    eval, the last one out gives back what was found.  By module, not by model, for two models may share a network.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    with _MODES:
        for module in modules:
            if not _USERS.get(module):
                _FOUND[module] = module.training
            _USERS[module] = _USERS.get(module, 0) + 1
            module.training = False
    try:
        yield
    finally:
        with _MODES:
            for module in modules:
                _USERS[module] -= 1
                if not _USERS[module]:
                    module.training = _FOUND[module]


def num_outputs(process: Process, predicts: type[Posterior]) -> int:
    """Logits per position: one for each state for the score, else one for each token."""
    return process.num_states if predicts is Score else process.vocab_size


def _check_network(call: NetworkCall, process: Process, predicts: type[Posterior]) -> None:
    """Raise where what the network says of itself contradicts the process."""
    kind, outputs = type(process).__name__, num_outputs(process, predicts)
    if call.attribute("causal", process.sequential) != process.sequential:
        raise ValueError(
            f"a causal network sees only what lies before a position and goes with LeftToRight, got {kind}"
            if call.attribute("causal", False)
            else f"{kind} needs a causal network, and this one sees every position; use CausalTransformer"
        )
    if call.attribute("num_states", process.input_states) < process.input_states:
        raise ValueError(
            f"{kind} shows ids 0..{process.input_states - 1}, but the network embeds {call.inner.num_states} ids; "
            f"build it with num_states={process.input_states}"
        )
    if call.attribute("num_outputs", outputs) != outputs:
        raise ValueError(
            f"predicting {predicts.__name__} under {kind} takes {outputs} logits per position, "
            f"but the network has {call.inner.num_outputs}"
        )
    if call.attribute("hollow", False) and not process.all_or_nothing and predicts is not LeaveOneOut:
        raise ValueError(
            f"a hollow network does not see a position's own token, so under {kind} it predicts "
            f"LeaveOneOut, not {predicts.__name__}; convert its prediction instead"
        )
    if call.attribute("reads_absorbing", process.shows_auxiliary) != process.shows_auxiliary:
        raise ValueError(
            f"a network with absorbing={call.inner.reads_absorbing} does not fit {kind}: the absorbing sequence U is "
            "shown under AbsorbingUniform, and there always"
        )
