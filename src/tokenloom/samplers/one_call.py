"""Sampling in one call, for those who do not keep their settings."""

from dataclasses import replace
from typing import Any

from tokenloom.drawing.randomness import Randomness
from tokenloom.models.protocol import Model
from tokenloom.samplers.given import GivenTokens
from tokenloom.samplers.kernel import Predictor
from tokenloom.samplers.results import OnStep
from tokenloom.samplers.sampler import Sampler
from tokenloom.support.typed import checked
from tokenloom.types import Tokens


@checked
def sample(
    model: Model,
    batch: int,
    *,
    sampler: Sampler | Predictor | str = "ancestral",
    length: int | None = None,
    given: GivenTokens | None = None,
    prompt: str | None = None,
    generator: Randomness | None = None,
    on_step: OnStep | None = None,
    **settings: Any,
) -> Tokens:
    """Draw sequences; `Sampler` holds the same settings as one value, and its `run` also says what they cost.

    Args:
        model: The model to sample.
        batch: How many sequences.
        sampler: A sampler by name, as in `psi:kappa=0.9 + informed`, a predictor, or a whole `Sampler`.
        length: Positions of each; the model's own if None.
        given: Given tokens and the flags of their positions, [batch, length] or one [length] for all.
        prompt: A text that every sequence begins with, for a model with a tokenizer.
        generator: Where random numbers come from; with `RowGenerators` a row does not depend on its batch.
        on_step: Called after every step.
        **settings: Fields of `Sampler`, such as `steps`, `top_p`, `temperature` or `corrector`.

    Returns:
        The sequences that were drawn.

    Raises:
        ValueError: If a setting is wrong, the sampler cannot run the model, or what is given does not fit it.
    """
    if isinstance(sampler, Sampler):
        if settings:
            raise ValueError(
                f"a Sampler holds all settings; change them with dataclasses.replace, got {', '.join(settings)} too"
            )
        chosen = sampler
    elif isinstance(sampler, str):
        chosen = Sampler.parse(sampler, **settings)
    else:
        chosen = replace(Sampler.parse("ancestral", **settings), predictor=sampler)
    drawn = chosen.run(model, batch, length=length, given=given, prompt=prompt, generator=generator, on_step=on_step)
    return drawn.tokens
