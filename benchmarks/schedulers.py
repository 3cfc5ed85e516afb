"""Samplers of diffusers, of transformers and of this library that are handed logits, one step after the other.

Each is asked as its own pipeline asks it: step i of n takes the tokens at alpha = i/n and the logits there, and a
correction of it takes those at alpha = (i+1)/n.  Temperature is 1 where there is one, which keeps the law.

`DiscreteDDIMScheduler` has no top-p: before it stands the filter of transformers, the usual way to have one.  The
sampler of DiffusionGemma is the step of transformers' own `generate` with its defaults, without the stop rule, and ends
with its most probable tokens, as `generate` does.  It draws from the global generator.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

import tokenloom as tl
from tokenloom.posteriors import OverTokens
from tokenloom.support.extras import optional

KINDS: dict[str, type[OverTokens]] = {"denoiser": tl.Denoiser, "leave-one-out": tl.LeaveOneOut}
"""The posteriors that logits can be, by the names of a scheduler's options."""
Step = Callable[[Tensor, int, Tensor, torch.Generator], Tensor]
"""Takes logits, the index of a step, the tokens they were computed at and randomness to tokens."""


@dataclass(frozen=True)
class Setting:
    """What a sampler is made for."""

    vocab: int
    length: int
    steps: int
    predicts: str = "denoiser"
    """The posterior that the logits are, which nobody but this library asks."""
    top_p: float = 1.0


@dataclass(frozen=True)
class Driven:
    """A sampler under way."""

    step: Step
    correct: Step | None = None


Build = Callable[[Setting], Driven]


def _ddim(**options: Any) -> Build:
    def build(setting: Setting) -> Driven:
        scheduler = _diffusers("DiscreteDDIMScheduler")(setting.steps, **options)
        kept = _filter(setting.top_p)

        def step(logits: Tensor, index: int, tokens: Tensor, generator: torch.Generator) -> Tensor:
            return _tokens(scheduler.step(kept(logits), index, tokens, temperature=1.0, generator=generator))

        def correct(logits: Tensor, index: int, tokens: Tensor, generator: torch.Generator) -> Tensor:
            return _tokens(scheduler.step_correct(logits, index, tokens, generator=generator))

        return Driven(step, correct if options else None)

    return build


def _entropy_bound(setting: Setting) -> Driven:
    scheduler = _diffusers("EntropyBoundScheduler")(num_inference_steps=setting.steps)

    def step(logits: Tensor, index: int, tokens: Tensor, generator: torch.Generator) -> Tensor:
        return _tokens(scheduler.step(logits, index, tokens, generator=generator))

    return Driven(step)


def _block_refinement(setting: Setting) -> Driven:
    scheduler = _diffusers("BlockRefinementScheduler")()
    scheduler.set_timesteps(setting.steps, block_length=setting.length)

    def step(logits: Tensor, index: int, tokens: Tensor, generator: torch.Generator) -> Tensor:
        options = {"temperature": 1.0, "top_p": setting.top_p, "generator": generator}
        return _tokens(scheduler.step(logits, index, tokens, **options))

    return Driven(step)


def _diffusion_gemma(setting: Setting) -> Driven:
    optional("transformers", "diffusers")
    theirs: Any = import_module("transformers.models.diffusion_gemma.generation_diffusion_gemma")
    defaults = theirs.DiffusionGemmaGenerationConfig._get_default_generation_params()
    mixin = theirs.DiffusionGemmaGenerationMixin
    sampler = theirs.EntropyBoundSampler(defaults["sampler_config"], setting.length, setting.vocab, setting.steps)
    heat = theirs.LinearTemperatureScheduleLogitsProcessor(defaults["t_min"], defaults["t_max"], setting.steps)
    processors = import_module("transformers").LogitsProcessorList([heat])
    weight = SimpleNamespace(dtype=torch.float32)  # what is fed back to the network is cast to that of its embedding
    embedding = SimpleNamespace(weight=weight)
    network = SimpleNamespace(
        config=SimpleNamespace(text_config=SimpleNamespace(vocab_size=setting.vocab)),
        model=SimpleNamespace(decoder=SimpleNamespace(embed_tokens=embedding)),
    )

    def step(logits: Tensor, index: int, tokens: Tensor, generator: torch.Generator) -> Tensor:
        canvas, most_probable, _, _ = mixin._denoising_step(
            network,
            decoder_forward=lambda **_: SimpleNamespace(logits=logits),
            current_canvas=tokens,
            argmax_canvas=tokens,
            input_ids=tokens,
            decoder_position_ids=None,
            self_conditioning_logits=None,
            mask_mapping=None,
            past_key_values=None,
            finished_denoising=torch.zeros(len(tokens), dtype=torch.bool),
            cur_step=setting.steps - index,
            sampler=sampler,
            logits_processor=processors,
            diffusion_stopping_criteria=None,
        )
        last: Tensor = most_probable if index + 1 == setting.steps else canvas
        return last

    return Driven(step)


def ours(sampler: str, corrector: str | None = None, truncates: str | None = None) -> Build:
    """A sampler of this library, as the scheduler that diffusers takes it for."""

    def build(setting: Setting) -> Driven:
        optional("diffusers", "diffusers")
        scheduler = import_module("tokenloom.diffusers").TokenloomScheduler(
            num_inference_steps=setting.steps,
            sampler=sampler,
            corrector=corrector,
            predicts=setting.predicts,
            top_p=setting.top_p,
            truncates=truncates,
        )

        def step(logits: Tensor, index: int, tokens: Tensor, generator: torch.Generator) -> Tensor:
            return _tokens(scheduler.step(logits, index, tokens, generator=generator))

        def correct(logits: Tensor, index: int, tokens: Tensor, generator: torch.Generator) -> Tensor:
            return _tokens(scheduler.step_correct(logits, index, tokens, generator=generator))

        return Driven(step, None if corrector is None else correct)

    return build


def _diffusers(name: str) -> Any:
    return getattr(optional("diffusers", "diffusers"), name)


def _tokens(output: Any) -> Tensor:
    found: Tensor = output.prev_sample
    return found


def _filter(top_p: float) -> Callable[[Tensor], Tensor]:
    """Return what leaves the smallest set with this mass, of transformers."""
    if top_p == 1:
        return lambda logits: logits
    warper = optional("transformers", "diffusers").TopPLogitsWarper(top_p)
    return lambda logits: warper(None, logits.flatten(0, 1)).view_as(logits)


DISCRETE_DDIM = "DiscreteDDIMScheduler"
SAMPLERS: dict[str, dict[str, Build]] = {
    "diffusers": {
        DISCRETE_DDIM: _ddim(),
        f"{DISCRETE_DDIM}, its corrector": _ddim(corrector_steps=1),
        f"{DISCRETE_DDIM}, its corrector at random positions": _ddim(corrector_steps=1, corrector_selection="random"),
        "EntropyBoundScheduler": _entropy_bound,
        "BlockRefinementScheduler": _block_refinement,
    },
    "transformers": {"EntropyBoundSampler": _diffusion_gemma},
    "tokenloom": {
        "ancestral": ours("ancestral"),
        "psi": ours("psi"),
        "ancestral, random-scan": ours("ancestral", "random-scan"),
        "ancestral, informed": ours("ancestral", "informed"),
        "entropy-bound": ours("entropy-bound"),
    },
}
"""By package and name."""
