"""Samplers of this library as a scheduler of Hugging Face's `diffusers`, for its `DiffusionGemmaPipeline`.

    pipe.scheduler = TokenloomScheduler(sampler="ancestral", corrector="random-scan", top_p=0.95)

The pipeline evaluates the network; `samplers/driven.py` says what a step and a correction of it are.  The pipeline
finds its arguments by their names in the signature of `step`, and counts corrections in `config.corrector_steps`.
"""

from dataclasses import dataclass
from typing import Any

import torch
from diffusers import ConfigMixin, SchedulerMixin
from diffusers.configuration_utils import FrozenDict, register_to_config
from diffusers.utils import BaseOutput
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.truncation import COLDEST
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens
from tokenloom.samplers.driven import DrivenSampler, Memory, randomness_of
from tokenloom.samplers.sampler import Sampler
from tokenloom.support.typed import check_type, checked
from tokenloom.support.words import nearest
from tokenloom.types import Tokens

KINDS: dict[str, type[OverTokens]] = {"denoiser": Denoiser, "leave-one-out": LeaveOneOut}
"""Posteriors by the names that a config stores."""


@dataclass
class TokenloomSchedulerOutput(BaseOutput):
    """The outcome of a step, for the pipeline."""

    prev_sample: Tokens
    """The canvas after the step."""
    pred_logits: Tensor
    """The network's logits, unchanged, for self-conditioning and the pipeline's stop rule."""


class SchedulerConfig(FrozenDict):
    """The options of a scheduler, and beside them what the pipeline asks: `corrector_steps` follows from them."""

    @property
    def corrector_steps(self) -> int:
        """Evaluations that the pipeline spends on corrections after a step."""
        corrector = Sampler.parse(self["sampler"], corrector=self["corrector"]).corrector
        return 0 if corrector is None else corrector.evaluations


class TokenloomScheduler(SchedulerMixin, ConfigMixin):
    """A sampler of this library in the place of `DiscreteDDIMScheduler`.

    Args:
        num_inference_steps: Steps of the grid until `set_timesteps`, which the pipeline calls with its own number.
        sampler: A predictor as `Sampler.parse` reads it, such as `psi:kappa=0.9`; `+ corrector` may follow.
        corrector: A corrector, such as `random-scan:steps=2`, or None.
        predicts: The posterior that the network's logits are: `denoiser` or `leave-one-out`.
        temperature: Divides the logits; 1 keeps the law, 0 draws the most probable token.
        top_p: Keep the smallest set of most probable tokens with at least this mass, in (0, 1].
        top_k: Keep this many of the most probable tokens; None keeps all.
        truncates: The posterior that temperature, top-p and top-k act on; None is what the network predicts.
    """

    order = 1

    @register_to_config  # type: ignore[untyped-decorator]
    def __init__(
        self,
        *,  # diffusers' from_config takes what was passed by position for a default, and drops it
        num_inference_steps: int = 48,
        sampler: str = "ancestral",
        corrector: str | None = None,
        predicts: str = "denoiser",
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int | None = None,
        truncates: str | None = None,
    ) -> None:
        for name, text in (("sampler", sampler), ("corrector", corrector)):
            check_type(name, text, str | None if name == "corrector" else str)
        kind = _kind("predicts", predicts)
        self.driven = DrivenSampler(
            Sampler.parse(
                sampler,
                corrector=corrector,
                temperature=COLDEST if temperature == 0 else temperature,
                top_p=top_p,
                top_k=top_k,
                on=kind if truncates is None else _kind("truncates", truncates),
            ),
            kind,
        )
        self.driven.check()
        self.set_timesteps(num_inference_steps)

    @property
    def config(self) -> SchedulerConfig:
        """The options, as the pipeline reads them."""
        return SchedulerConfig(self._internal_dict)

    @checked
    def set_timesteps(self, num_inference_steps: int, device: str | torch.device | None = None) -> None:
        """Set the number of steps, and forget the last run."""
        if num_inference_steps < 1:
            raise ValueError(f"num_inference_steps must be at least 1, got {num_inference_steps}")
        self.num_inference_steps = num_inference_steps
        self.timesteps = torch.arange(num_inference_steps, device=device)
        self._memory: Memory | None = None
        self._corrections = 0
        self._acting = self.driven

    @checked
    def step(
        self,
        model_output: Float[Tensor, "batch length vocab"],
        timestep: int | Tensor,
        sample: Tokens,
        *,
        temperature: float | None = None,
        generator: torch.Generator | list[torch.Generator] | None = None,
        return_dict: bool = True,
    ) -> TokenloomSchedulerOutput | tuple[Any, ...]:
        """Draw the canvas after step `timestep`, in 0..num_inference_steps - 1, from the one before it.

        Args:
            model_output: The network's logits at `sample`.
            timestep: The index of the step; 0 begins a canvas.
            sample: The canvas that the logits were computed at.
            temperature: Replaces the scheduler's own, also for the corrections of this step; None, and 0, which is the
                pipeline's default, leave it.
            generator: The source of random numbers, or one for each row.
            return_dict: False returns a tuple.
        """
        index, source = self._index(timestep, model_output, sample), randomness_of(generator, sample)
        self._acting = self.driven.at_temperature(temperature) if temperature else self.driven
        if index == 0:
            self._memory, self._corrections = None, 0
        count = self.num_inference_steps
        tokens, self._memory = self._acting.step(model_output, sample, index, count, source, self._memory)
        return _output(tokens, model_output, return_dict)

    @checked
    def step_correct(
        self,
        model_output: Float[Tensor, "batch length vocab"],
        timestep: int | Tensor,
        sample: Tokens,
        *,
        generator: torch.Generator | list[torch.Generator] | None = None,
        return_dict: bool = True,
    ) -> TokenloomSchedulerOutput | tuple[Any, ...]:
        """Correct the canvas that step `timestep` left, once, by logits evaluated at it.

        After the last step there is no noise left to redraw, and the canvas is returned unchanged.
        """
        index = self._index(timestep, model_output, sample)
        if self.driven.sampler.corrector is None:
            raise ValueError("this scheduler has no corrector; make one with corrector='random-scan'")
        source, count = randomness_of(generator, sample), self.num_inference_steps
        tokens = self._acting.correct(model_output, sample, index, count, source, self._corrections)
        self._corrections += 1
        return _output(tokens, model_output, return_dict)

    def _index(self, timestep: int | Tensor, logits: Tensor, sample: Tensor) -> int:
        """Return the index of a step, after checking what it is asked to do."""
        index = int(timestep)
        if not 0 <= index < self.num_inference_steps:
            raise ValueError(
                f"timestep must be in 0..{self.num_inference_steps - 1}, got {index}; set_timesteps sets the number"
            )
        if sample.dtype != torch.int64:
            raise ValueError(f"sample must be an int64 tensor, got {sample.dtype}")
        if logits.ndim != 3 or logits.shape[:2] != sample.shape:
            expected = [*sample.shape, "vocab"]
            raise ValueError(f"model_output must have shape {expected}, got {list(logits.shape)}")
        if logits.shape[-1] < 2:
            raise ValueError("model_output must have at least 2 tokens to draw from, got 1")
        if sample.device != logits.device:
            raise ValueError(f"sample is on {sample.device} but model_output is on {logits.device}; move one")
        if sample.is_cpu and sample.numel() and not 0 <= int(sample.min()) <= int(sample.max()) < logits.shape[-1]:
            raise ValueError(
                f"sample must hold ids in 0..{logits.shape[-1] - 1}, got {int(sample.min())}..{int(sample.max())}"
            )
        return index


def _kind(name: str, text: str) -> type[OverTokens]:
    """Return the posterior of this name."""
    if text not in KINDS:
        raise ValueError(f"{name} must be denoiser or leave-one-out, got {text!r}; {nearest(str(text), list(KINDS))}")
    return KINDS[text]


def _output(tokens: Tokens, logits: Tensor, return_dict: bool) -> TokenloomSchedulerOutput | tuple[Any, ...]:
    return TokenloomSchedulerOutput(tokens, logits) if return_dict else (tokens, logits)
