"""A network together with what its output means: the process it denoises and the posterior it predicts."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tokenloom.nn import Transformer
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score, add_evidence
from tokenloom.processes import AbsorbingUniform, MaskedUniform, Uniform
from tokenloom.processes.base import Process
from tokenloom.schedules import Schedule
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerRow, Tokens


@dataclass(frozen=True)
class NetworkInput:
    """What a network is shown of a state."""

    tokens: Tokens
    time: PerRow
    absorbing: Tokens | None
    fixed: Flags | None


class DiffusionModel(nn.Module):
    """`network` is one of `tokenloom.nn`, compiled or not, or any callable (tokens, time) -> logits.

    Under `AbsorbingUniform` a callable is given the absorbing sequence too: (tokens, time, absorbing).
    """

    def __init__(
        self,
        network: Callable[..., Tensor],
        process: Process,
        schedule: Schedule | None = None,
        predicts: type[Posterior] = LeaveOneOut,
    ) -> None:
        super().__init__()
        if predicts not in (Denoiser, LeaveOneOut, Score):
            raise ValueError(f"predicts must be Denoiser, LeaveOneOut or Score, got {predicts!r}")
        self.network = network
        self.process = process if schedule is None else process.with_schedule(schedule)
        self.predicts = predicts
        inner = architecture(network)
        if inner is not None:
            _check_network(inner, self.process, predicts)

    @property
    def schedule(self) -> Schedule:
        """The process's own."""
        return self.process.schedule

    @property
    def hollow(self) -> bool:
        """Whether the output at a position provably ignores the input at it."""
        return bool(getattr(self.network, "hollow", False))

    @property
    def causal(self) -> bool:
        """Whether the output at a position sees only the input before it."""
        return bool(getattr(self.network, "causal", False))

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, for `tokenloom.load`."""
        from tokenloom.store import save_model

        save_model(self, folder)

    def predict(self, noisy: Noisy) -> Posterior:
        """The network's posterior at x_t; a denoiser puts all mass on tokens that are already revealed."""
        prediction = self.interpret(self._logits(noisy), noisy)
        prediction.check(noisy, self.process)
        return prediction

    def body(self, noisy: Noisy) -> Tensor:
        """All of the network but its head, [batch, length, features]; all of it where it has no head of its own."""
        if not isinstance(self.network, Transformer):
            return self._logits(noisy)
        shown = self.shown(noisy)
        return self.network.features(shown.tokens, shown.time, shown.absorbing, shown.fixed)

    def head(self, features: Float[Tensor, "rows features"]) -> Float[Tensor, "rows out"]:
        """Logits from the features of some positions."""
        if not isinstance(self.network, Transformer):
            return features
        logits: Tensor = self.network.head(features)
        return logits

    @property
    def timeless(self) -> bool:
        """Whether the network is known to ignore the time."""
        inner = architecture(self.network)
        return inner is not None and not inner.config.time

    def with_process(self, process: Process) -> "DiffusionModel":
        """The same network under another process that shows it what it was trained on."""
        return DiffusionModel(self.network, process, predicts=self.predicts)

    def _logits(self, noisy: Noisy) -> Tensor:
        shown = self.shown(noisy)
        if architecture(self.network) is not None:
            return self.network(shown.tokens, shown.time, shown.absorbing, shown.fixed)
        absorbing = () if shown.absorbing is None else (shown.absorbing,)
        logits = self.network(shown.tokens, shown.time, *absorbing)
        expected = [*shown.tokens.shape, num_outputs(self.process, self.predicts)]
        if list(logits.shape) != expected:
            raise ValueError(
                f"the network must return logits of shape {expected} for tokens of shape {expected[:2]}, "
                f"got {list(logits.shape)}"
            )
        return logits

    def shown(self, noisy: Noisy) -> NetworkInput:
        """The state as the network reads it: behind the mask for `MaskedUniform`, with U for `AbsorbingUniform`."""
        process = self.process
        process.check_state(noisy)
        tokens = process.masked_view(noisy) if isinstance(process, MaskedUniform) else noisy.tokens
        absorbing = noisy.aux if isinstance(process, AbsorbingUniform) else None
        return NetworkInput(tokens, noisy.t, absorbing, noisy.fixed)

    def interpret(self, logits: Float[Tensor, "batch length out"], noisy: Noisy) -> Posterior:
        """Logits as the posterior they are (`eq:carry-over-uniform`)."""
        if self.predicts is Score:
            return Score(logits)
        if self.predicts is LeaveOneOut:
            return LeaveOneOut(self.process.restrict(logits))
        evidence = self.process.evidence(noisy)
        known = torch.where(evidence.isposinf(), evidence, 0)
        return Denoiser(add_evidence(self.process.restrict(logits), noisy.tokens, known))


def architecture(network: object) -> Transformer | None:
    """The network of `tokenloom.nn` inside a compiled or wrapped one, or None for any other callable."""
    inner = getattr(network, "_orig_mod", getattr(network, "module", network))
    return inner if isinstance(inner, Transformer) else None


def num_outputs(process: Process, predicts: type[Posterior]) -> int:
    """Logits a position: one a state for the score, else one a token."""
    return process.num_states if predicts is Score else process.vocab_size


def as_posterior(logits: Tensor, predicts: type[Posterior]) -> Posterior:
    """Logits under the name of what they are, unchanged."""
    return Score(logits) if predicts is Score else Denoiser(logits) if predicts is Denoiser else LeaveOneOut(logits)


def _check_network(network: Transformer, process: Process, predicts: type[Posterior]) -> None:
    config = network.config
    shown = max(process.num_states, process.mask + 1) if isinstance(process, MaskedUniform) else process.num_states
    outputs = num_outputs(process, predicts)
    if config.num_states < shown:
        raise ValueError(
            f"{type(process).__name__} shows ids 0..{shown - 1}, but the network embeds {config.num_states} ids; "
            f"build it with num_states={shown}"
        )
    if config.vocab_size != outputs:
        raise ValueError(
            f"predicting {predicts.__name__} under {type(process).__name__} takes {outputs} logits a position, "
            f"but the network has {config.vocab_size}"
        )
    if network.hollow and isinstance(process, Uniform) and predicts is not LeaveOneOut:
        raise ValueError(
            f"a hollow network does not see a position's own token, so under {type(process).__name__} it predicts "
            f"LeaveOneOut, not {predicts.__name__}; convert its prediction instead"
        )
    if config.absorbing != isinstance(process, AbsorbingUniform):
        raise ValueError(
            f"a network with absorbing={config.absorbing} does not fit {type(process).__name__}: "
            "only AbsorbingUniform shows the absorbing sequence U, and always does"
        )
