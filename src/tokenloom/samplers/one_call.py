"""Sampling in one call, for those who do not keep their settings."""

from collections.abc import Sequence

from tokenloom.drawing.randomness import Randomness
from tokenloom.drawing.truncation import Truncation
from tokenloom.models.protocol import Model
from tokenloom.samplers.given import GivenTokens
from tokenloom.samplers.kernel import Corrector, Predictor
from tokenloom.samplers.results import OnStep
from tokenloom.samplers.sampler import Sampler
from tokenloom.support.typed import checked
from tokenloom.types import Tokens


@checked
def sample(
    model: Model,
    batch: int,
    *,
    length: int | None = None,
    steps: int = 128,
    sampler: Sampler | Predictor | str = "ancestral",
    corrector: Corrector | str | None = None,
    truncation: Truncation | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    forbid: Sequence[int] = (),
    given: GivenTokens | None = None,
    prompt: str | None = None,
    generator: Randomness | None = None,
    on_step: OnStep | None = None,
) -> Tokens:
    """Draw sequences; `Sampler` holds the same settings as one value, and its `run` also says what they cost.

    Args:
        model: The model to sample.
        batch: How many sequences.
        length: Positions of each; the model's own if None.
        steps: The budget of network evaluations per sequence, the corrector's included.
        sampler: A predictor by name, as in `psi:kappa=0.9`, or as an object; or a whole `Sampler`.
        corrector: By name or as an object.
        truncation: What is kept of every prediction; or give the next four.
        temperature: Below 1 sharper, above 1 flatter.
        top_p: Mass of the most probable tokens that are kept, in (0, 1].
        top_k: How many of the most probable tokens are kept.
        forbid: Token ids never drawn from a prediction.
        given: Given tokens and the flags of their positions, [batch, length] or one [length] for all.
        prompt: A text that every sequence begins with, for a model with a tokenizer.
        generator: Where random numbers come from; with `RowGenerators` a row does not depend on its batch.
        on_step: Called after every step.

    Returns:
        The sequences that were drawn.

    Raises:
        ValueError: If a setting is wrong, the sampler cannot run the model, or what is given does not fit it.
    """
    settings = Sampler.of(
        sampler,
        corrector,
        truncation=truncation,
        steps=steps,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        forbid=forbid,
    )
    drawn = settings.run(model, batch, length=length, given=given, prompt=prompt, generator=generator, on_step=on_step)
    return drawn.tokens
