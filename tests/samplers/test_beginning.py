"""A run that begins at a state on the way down."""

from dataclasses import replace

import pytest
import torch

import tokenloom as tl
from tests.samplers.helpers import Cell, oracle, supported
from tokenloom.samplers import CORRECTORS, PREDICTORS, Predictor

FORGETFUL = [name for name in PREDICTORS if PREDICTORS[name].advance is Predictor.advance]
CASES = [(name, kind) for name in FORGETFUL for kind in supported(PREDICTORS[name])]
STEPS = 8
pytestmark = pytest.mark.usefixtures("as_a_user")  # shape checks are on in `test_conformance.py`, for the same kernels


def states(sampler: tl.Sampler, model: tl.Model, generator: torch.Generator) -> list[tl.Noisy]:
    seen: list[tl.Noisy] = []
    sampler.run(model, 16, generator=generator, on_step=lambda step: seen.append(step.after))
    return seen


@pytest.mark.parametrize(("name", "kind"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_a_run_split_at_a_step_and_continued_is_the_same_run(name: str, kind: Cell) -> None:
    """Only the randomness that is left matters, so a second run brings its generator to the same place."""
    model = oracle(kind)
    corrector = "scan" if CORRECTORS["scan"].supports(model.process) else None
    sampler = tl.Sampler.parse(name, corrector=corrector, steps=STEPS)
    generator = torch.Generator().manual_seed(3)
    split: list[tuple[tl.Noisy, torch.Tensor]] = []
    whole = sampler.run(
        model, 16, generator=generator, on_step=lambda step: split.append((step.after, generator.get_state()))
    )
    middle, randomness = split[len(split) // 2]
    seen: list[int] = []
    rest = sampler.run(
        model,
        16,
        begin=middle,
        generator=torch.Generator().set_state(randomness),
        on_step=lambda step: seen.append(step.index),
    )
    assert torch.equal(rest.tokens, whole.tokens)
    assert seen == list(range(len(split) // 2 + 2, len(split) + 1))


def test_every_sampler_continues_with_other_settings_from_a_state_of_another() -> None:
    model = oracle(tl.Uniform)
    middle = states(tl.Sampler.parse("ancestral", steps=STEPS), model, torch.Generator().manual_seed(0))[3]
    for name in PREDICTORS:
        if PREDICTORS[name].supports(model.process):
            tokens = tl.Sampler.parse(name, steps=5).run(model, 16, begin=middle).tokens
            assert tokens.shape == middle.tokens.shape
            assert int(tokens.max()) < 3


def test_a_state_at_the_end_takes_no_step() -> None:
    model = oracle(tl.Masked)
    last = states(tl.Sampler(steps=4), model, torch.Generator().manual_seed(0))[-1]
    samples = tl.Sampler(steps=4).run(model, 16, begin=last)
    assert torch.equal(samples.tokens, last.tokens)
    assert int(samples.evaluations.sum()) == 0


def test_given_positions_are_held_from_there_on() -> None:
    model = oracle(tl.Uniform)
    middle = states(tl.Sampler(steps=4), model, torch.Generator().manual_seed(0))[1]
    given = (torch.tensor([2, 0]), torch.tensor([True, False]))
    assert (tl.Sampler(steps=4).run(model, 16, begin=middle, given=given).tokens[:, 0] == 2).all()


def test_a_state_that_does_not_fit_is_refused() -> None:
    model, sampler = oracle(tl.Uniform), tl.Sampler(steps=4)
    middle = states(sampler, model, torch.Generator().manual_seed(0))[1]
    lifted = oracle(tl.AbsorbingUniform)
    uneven = replace(middle, t=torch.linspace(0.1, 0.5, 16).double())
    for other, begin, batch, sentence in (
        (model, middle, 3, r"has shape \[16, 2\], but \[3, 2\] are to be sampled"),
        (lifted, middle, 16, "needs the auxiliary variable"),
        (model, replace(middle, aux=middle.tokens), 16, "has no auxiliary variable"),
        (model, uneven, 16, "must share one time, got 0.1 to 0.5"),
        (model, replace(middle, tokens=middle.tokens + 7), 16, "x_t"),
    ):
        with pytest.raises(ValueError, match=sentence):
            sampler.run(other, batch, begin=begin)
