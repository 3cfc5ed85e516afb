"""Call any network by one rule, whatever wraps it.

A network is a callable (tokens, time) -> logits.  It may offer more, each on its own:

    features(tokens, time), head(features)   the split: a sampler computes few logits, and training none of them twice
    head.is_linear                           logits are head.weight @ features + head.bias, as those of an nn.Linear
    length, timeless, causal, hollow         longest sequence; whether it ignores the time, the future, its own token
    marks_given                              it takes `given=`, the flags of given positions
    reads_evidence                           it takes `evidence=`, what each token is worth, and ignores the time
    stages(tokens, time), answer_every       features of several answers, for training, unless that is None
    clock                                    "sigma" where its time is -log alpha_t; else it is t
    num_states, num_outputs                  how many ids it embeds, how many logits it puts out

Under a process that shows its auxiliary variable the call is (tokens, time, absorbing), unless the network reads the
evidence, which contains it.  A compiled or data-parallel network is called itself, never the network inside it: with
`features_only=True` if its inner network takes that argument, else for all logits.  `compiled` compiles body and head
apart (`compiled.py`), so that a sampler still asks for few logits.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from tokenloom.models import compiled
from tokenloom.nn.linear import linear
from tokenloom.posteriors import LeaveOneOut, Posterior, Score, check_representation
from tokenloom.process import Process
from tokenloom.state import NetworkInput
from tokenloom.support.typed import without_values


@runtime_checkable
class LinearMap(Protocol):
    """A linear map from the features of a position to its logits: `weight` @ features + `bias` (which may be None)."""

    @property
    def weight(self) -> Tensor: ...
    @property
    def bias(self) -> Tensor | None: ...
    def __call__(self, features: Tensor) -> Tensor: ...


LinearHead = nn.Linear | LinearMap
"""A linear head; `nn.Linear` is named, for since Python 3.12 a protocol does not see the parameters of a module."""


def unwrapped(network: Any) -> Any:
    """Return the network inside compiled and data-parallel wrappers, or the network itself."""
    parallel = isinstance(network, nn.DataParallel | nn.parallel.DistributedDataParallel)
    inner = network.module if parallel else getattr(network, "_orig_mod", None)
    return network if inner is None else unwrapped(inner)


@dataclass(frozen=True)
class NetworkCall:
    """A network, with its arguments chosen by its attributes."""

    network: Callable[..., Any]
    compiled: bool = False

    @cached_property
    def inner(self) -> Any:
        """The network without wrappers."""
        return unwrapped(self.network)

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute of the network inside any wrappers."""
        return getattr(self.inner, name, default)

    @cached_property
    def splits(self) -> bool:
        """True if features and head can be computed apart."""
        if not (hasattr(self.inner, "features") and hasattr(self.inner, "head")):
            return False
        return self.network is self.inner or "features_only" in inspect.signature(self.inner.forward).parameters

    def body(self, shown: NetworkInput, outputs: int) -> Tensor:
        """Compute the features of every position, or all `outputs` logits if the network does not split."""
        arguments, options = self._arguments(shown)
        if self.splits and self.network is not self.inner:
            found: Tensor = self.network(*arguments, **options, features_only=True)
        else:
            call = compiled.call if self.compiled else compiled.run
            try:
                found = call(self.network, "features" if self.splits else None, *arguments, **options)
            except IndexError as error:
                raise ValueError(f"the network fails on {_ids(shown.tokens, outputs)}: {error}") from error
        asked, shape = list(shown.tokens.shape), list(found.shape) if isinstance(found, Tensor) else []
        if why := without_values(found):
            raise ValueError(f"the network must return a dense tensor with values, got {why}")
        if self.splits and shape[:-1] != asked:
            raise ValueError(f"the network's features must have shape {[*asked, 'width']}, {_got(found)}")
        if not self.splits and shape != [*asked, outputs]:
            expected = f"logits of shape {[*asked, outputs]} for tokens of shape {asked}"
            raise ValueError(f"the network must return {expected}, {_got(found)}")
        return found

    def stages(self, shown: NetworkInput) -> Iterator[Tensor]:
        """Yield the features of every answer that training scores."""
        arguments, options = self._arguments(shown)
        found: Iterator[Tensor] = self.inner.stages(*arguments, **options)
        return found

    def head(self, features: Tensor) -> Tensor:
        """Compute logits from the features of some positions, of a network that splits."""
        head = self.inner.head
        logits: Tensor = compiled.call(head, None, features) if self.compiled else linear(head, features)
        return logits

    def _arguments(self, shown: NetworkInput) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        if shown.evidence is not None:
            return (shown.tokens, shown.time), {"evidence": shown.evidence}
        absorbing = () if shown.absorbing is None else (shown.absorbing,)
        sigma = self.attribute("clock", "time") == "sigma"
        time = -shown.alpha.log().to(shown.time.dtype) if sigma else shown.time
        marked = {"given": shown.given} if shown.given is not None and self.attribute("marks_given", False) else {}
        return (shown.tokens, time, *absorbing), marked


def _ids(tokens: Tensor, outputs: int) -> str:
    """Name the ids that a network is shown, and the mask among them."""
    largest = int(tokens.max())
    mask = f", where {largest} is the mask; it must embed {largest + 1} ids" if largest >= outputs else ""
    return f"ids 0..{largest}{mask}"


def _got(output: Any) -> str:
    """Describe what a network returned, with a remedy if logits are a part of it."""
    if isinstance(output, Tensor):
        return f"got {list(output.shape)}"
    remedy = "; pass a function that returns its logits" if isinstance(output, dict) else ""
    if hasattr(output, "logits"):
        remedy = " with logits; pass lambda tokens, time: network(tokens).logits"
    return f"got a {type(output).__name__}{remedy}"


def num_outputs(process: Process, predicts: type[Posterior]) -> int:
    """Count the logits per position: one per state for the score, else one per token."""
    return process.num_states if predicts is Score else process.vocab_size


def check_network(call: NetworkCall, process: Process, predicts: type[Posterior]) -> None:
    """Raise if an attribute of the network contradicts the process, or what it is said to predict."""
    check_representation(predicts)
    kind, name, outputs = process.title, predicts.__name__, num_outputs(process, predicts)
    causal, given = call.attribute("causal", process.sequential), call.attribute("num_outputs", outputs)
    if causal and not process.sequential:
        raise ValueError(f"a causal network sees only earlier positions and goes with LeftToRight, got {kind}")
    if process.sequential and not causal:
        raise ValueError(f"{kind} needs a causal network, and this one sees every position; use CausalTransformer")
    if given != outputs:
        raise ValueError(f"{name} under {kind} takes {outputs} logits per position, but the network has {given}")
    evidence, hollow = (call.attribute(key, False) for key in ("reads_evidence", "hollow"))
    if predicts is not LeaveOneOut and (evidence or (hollow and not process.all_or_nothing)):
        who = "a network that reads the evidence" if evidence else "a hollow network, which does not see its own token,"
        raise ValueError(f"under {kind} {who} predicts LeaveOneOut, not {name}; convert its prediction instead")
    if evidence:
        return
    states, shows = process.input_states, process.shows_auxiliary
    embeds, absorbing = call.attribute("num_states", states), call.attribute("reads_absorbing", shows)
    if embeds < states:
        raise ValueError(f"{kind} shows ids 0..{states - 1}, but the network embeds {embeds}; set num_states={states}")
    if absorbing != shows:
        raise ValueError(f"a network with absorbing={absorbing} does not fit {kind}, which needs absorbing={shows}")
