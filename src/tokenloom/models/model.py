"""A model: predictions with a meaning, whether they come from a network or are exact."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tokenloom.models.network import LinearHead, NetworkCall, check_network, num_outputs, unwrapped
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.models.unseen import warn_unseen
from tokenloom.posteriors import Asked, Denoiser, LeaveOneOut, OverTokens, Predicted_co, carry_over
from tokenloom.process import Process
from tokenloom.schedules import Schedule
from tokenloom.state import NetworkInput, Noisy
from tokenloom.support.about import About
from tokenloom.support.typed import checked


class DiffusionModel(nn.Module, Generic[Predicted_co]):
    """A network together with what its output means: the process it denoises and the posterior it predicts.

    Args:
        network: Any callable (tokens, time) -> logits; `models/network.py` says what else it may offer.
        process: The process it denoises.
        schedule: Replaces that of the process.
        predicts: What its logits are: `LeaveOneOut`, `Denoiser` or `Score`.
        tokenizer: Turns tokens into text and back; saved with the model.
        about: What is known of the model; saved with it.
    """

    compiled = False
    """True if body and head of the network are compiled when they are called; see `compile`."""
    predicts: type[Predicted_co]

    @checked
    def __init__(
        self: "DiffusionModel[Asked]",
        network: Callable[..., Any],
        process: Process,
        schedule: Schedule | None = None,
        predicts: type[Asked] = LeaveOneOut,  # type: ignore[assignment]
        tokenizer: Tokenizer | None = None,
        about: About | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.process = process if schedule is None else process.with_schedule(schedule)
        self.predicts = predicts
        self.tokenizer = tokenizer
        self.about = About() if about is None else about
        check_network(self.call, self.process, predicts)

    @property
    def call(self) -> NetworkCall:
        """The network with its calling convention, kept until the network or `compiled` changes."""
        known: NetworkCall | None = self.__dict__.get("_call")
        if known is None or known.network is not self.network or known.compiled is not self.compiled:
            known = self.__dict__["_call"] = NetworkCall(self.network, self.compiled)
        return known

    @property
    def schedule(self) -> Schedule:
        """The schedule of the process."""
        return self.process.schedule

    @property
    def hollow(self) -> bool:
        """True if the output at a position provably ignores the input at it."""
        return bool(self.call.attribute("hollow", False))

    @property
    def causal(self) -> bool:
        """True if the output at a position depends only on the input before it."""
        return self.process.sequential

    @property
    def timeless(self) -> bool:
        """True if the prediction is known to ignore the time."""
        return self.process.all_or_nothing if self.reads_evidence else bool(self.call.attribute("timeless", False))

    @property
    def reads_evidence(self) -> bool:
        """True if the network reads the evidence of each token, and so works under any process."""
        return bool(self.call.attribute("reads_evidence", False))

    @property
    def marks_given(self) -> bool:
        """True if the flags of given positions are an input of the network."""
        return self.reads_evidence or bool(self.call.attribute("marks_given", False))

    @property
    def length(self) -> int | None:
        """The longest sequence that the network reads, or None if it has no such attribute."""
        length: int | None = self.call.attribute("length", None)
        return length

    @property
    def device(self) -> torch.device | None:
        """The device of the weights; None for a callable without any."""
        first = next(self.parameters(), None)
        return None if first is None else first.device

    @property
    def linear_head(self) -> LinearHead | None:
        """The head of a network that splits, if it is a plain `nn.Linear` or has `is_linear`; else None."""
        head: Any = self.call.inner.head if self.call.splits else None
        return head if type(head) is nn.Linear or getattr(head, "is_linear", False) else None

    @checked
    def predict(self, noisy: Noisy) -> Predicted_co:
        """Compute the network's posterior at x_t; a denoiser puts all mass on tokens that are already revealed."""
        self.process.check_state(noisy)
        prediction = self.interpret(self.logits(noisy), noisy)
        prediction.check(noisy, self.process)
        return prediction

    def logits(self, noisy: Noisy) -> Float[Tensor, "batch length out"]:
        """Compute the network's output at every position, for `interpret`."""
        rows = self.head(self.body(noisy).flatten(0, 1))
        return rows.view(*noisy.tokens.shape, rows.shape[-1])

    def body(self, noisy: Noisy) -> Tensor:
        """Compute everything but the head; the logits themselves if the network does not split."""
        return self.call.body(self._shown(noisy), num_outputs(self.process, self.predicts))

    @property
    def answer_every(self) -> int | None:
        """Loops between two answers of the network that training scores; None for one answer."""
        every: int | None = self.call.attribute("answer_every", None)
        return every

    def stages(self, noisy: Noisy) -> Iterator[Tensor]:
        """Yield the features of every answer that training scores."""
        return self.call.stages(self._shown(noisy))

    def _shown(self, noisy: Noisy) -> NetworkInput:
        shown = self.process.network_input(noisy)
        return replace(shown, evidence=self.process.evidence(noisy)) if self.reads_evidence else shown

    def head(self, features: Float[Tensor, "rows features"]) -> Float[Tensor, "rows out"]:
        """Compute logits from the features of some positions."""
        return self.call.head(features) if self.call.splits else features

    def interpret(self, logits: Float[Tensor, "batch length out"], noisy: Noisy) -> Predicted_co:
        """Read logits as the posterior they are: the one reader of a network's output.

        Ids that clean data cannot hold are ruled out, and a denoiser is a point mass where x_t reveals x_0
        (`eq:carry-over-uniform`).
        """
        if self.process.mask_in_vocabulary is not None and issubclass(self.predicts, OverTokens):
            logits = self.process.restrict(logits)
        if self.predicts is Denoiser:
            logits = carry_over(logits, noisy.tokens, self.process.evidence(noisy).isposinf())
        return self.predicts(logits)  # type: ignore[call-arg]

    @checked
    def with_process(self, process: Process) -> "DiffusionModel[Predicted_co]":
        """Return the same network under another process, with a warning about noise that its training did not show.

        Only a network that reads the evidence works under processes that show it other tokens than its own does.
        """
        if self.reads_evidence:
            warn_unseen(process, self.about, self.length)
        other = DiffusionModel(self.network, process, None, self.predicts, self.tokenizer, self.about)
        other.compiled = self.compiled
        return other

    @checked
    def with_loops(self, loops: int) -> "DiffusionModel[Predicted_co]":
        """Return the same weights with another number of passes through the blocks: fewer are faster."""
        change = getattr(self.network, "with_loops", None)
        if change is None:
            raise ValueError(f"a {type(self.network).__name__} has no loops; leave loops out, or name another model")
        other = DiffusionModel(change(loops), self.process, None, self.predicts, self.tokenizer, self.about)
        other.compiled = self.compiled
        return other

    def compile(self, *args: Any, **options: Any) -> None:
        """Compile the network in place with torch.compile, body and head apart, when they are first called.

        Each is compiled for its first number of rows and once more for any other, which takes from seconds to a minute;
        training and sampling are compiled apart.  Predictions change by rounding alone; saving, copying and training
        are as before.
        """
        if unwrapped(self.network) is not self.network:
            wrapper = type(self.network).__name__
            raise ValueError(f"the network is wrapped in a {wrapper} already; compile the model before wrapping it")
        if args or options:
            given = ", ".join([*map(repr, args), *options])
            raise ValueError(f"compile takes no options here, got {given}; give them to torch.compile(network, ...)")
        self.compiled = True

    @checked
    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        return self._known_tokenizer().encode(text)

    @checked
    def decode(self, tokens: Int[Tensor, "batch length"], whole: bool = False) -> list[str]:
        """Return one text per row, up to its end token unless the `whole` is asked for."""
        if tokens.ndim != 2:
            raise ValueError(f"tokens must have shape [batch, length], got {list(tokens.shape)}")
        tokenizer, rows = self._known_tokenizer(), tokens.tolist()
        return [tokenizer.decode(row if whole else tokenizer.until_end(row)) for row in rows]

    def _known_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ValueError("this model carries no tokenizer; pass one as DiffusionModel(..., tokenizer=...)")
        return self.tokenizer

    def describe(self, **known: Any) -> "DiffusionModel[Predicted_co]":
        """Replace fields of `about`, in place."""
        self.about = replace(self.about, **known)
        return self

    @checked
    def save(self, folder: str | Path) -> None:
        """Write the model to a folder or an address such as s3://bucket/model, for `tokenloom.load`."""
        from tokenloom.models.store import save_model

        save_model(self, folder)
