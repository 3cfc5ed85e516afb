"""A sampler is one value: equal where it means the same, read from text, written as JSON and back."""

import json
import re
import sys
from dataclasses import MISSING, FrozenInstanceError, fields, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin

import pytest
import torch

import tokenloom as tl
from tests.samplers.helpers import EXTREMES, KERNELS, K, generator, kernel_of, oracle
from tokenloom.samplers import (
    CORRECTORS,
    PREDICTORS,
    Ancestral,
    Autoregressive,
    Evaluator,
    GreedyTail,
    Informed,
    Psi,
    RandomScan,
)

UNIFORM = oracle(tl.Uniform)
SAMPLERS = [
    tl.Sampler(),
    tl.Sampler.parse("psi:kappa=0.9,since=0.5 + informed:steps=2,temperature=0.5", steps=40),
    tl.Sampler(steps=7, grid="cosine", show_given="noised"),
    tl.Sampler(grid=(1.0, 0.3, 0.1, 0.0)),
    tl.Sampler.parse("psi", temperature=0.5, top_p=0.9, top_k=2, on=tl.Denoiser, forbid=(1, 2)),
    tl.Sampler(GreedyTail(Psi(kappa=0.2))),
    *(tl.Sampler(PREDICTORS[name]()) for name in PREDICTORS),
    *(tl.Sampler(corrector=CORRECTORS[name]()) for name in CORRECTORS),
]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_record_is_json_and_restores_the_same_value(sampler: tl.Sampler) -> None:
    assert tl.Sampler.restore(json.loads(json.dumps(sampler.record()))) == sampler


def test_no_two_settings_have_one_record() -> None:
    records = [json.dumps(sampler.record(), sort_keys=True) for sampler in SAMPLERS]
    assert len(set(records)) == len(set(SAMPLERS))
    assert len(set(SAMPLERS)) == len(SAMPLERS) - 1  # the default twice, as Sampler() and among the predictors


def test_text_objects_and_settings_stand_for_the_same_value() -> None:
    expected = tl.Sampler(Psi(kappa=0.9), Informed(steps=2), steps=40)
    assert tl.Sampler.parse("psi:kappa=0.9 + informed:steps=2", steps=40) == expected
    assert tl.Sampler.parse("psi:kappa=0.9+informed:steps=2", steps=40) == expected
    assert tl.Sampler.parse("psi:kappa=0.9", corrector="informed:steps=2", steps=40) == expected
    assert tl.Sampler.parse("psi:kappa=0.9", corrector=Informed(2), steps=40) == expected
    assert tl.Sampler.parse("psi:kappa=0.9", corrector="none", steps=40) == replace(expected, corrector=None)
    assert hash(tl.Sampler(Psi(0.9), Informed(2), steps=40)) == hash(expected)
    assert tl.Sampler.parse("psi:kappa=0.8 + informed:steps=2", steps=40) != expected
    with pytest.raises(FrozenInstanceError):
        expected.steps = 3  # type: ignore[misc]


def test_times_and_tokens_may_be_given_as_a_tensor_and_a_list() -> None:
    times = [1.0, 0.5, 0.25, 0.0]
    for grid in (times, torch.tensor(times)):
        assert tl.Sampler(grid=grid, forbid=[1, 2]) == tl.Sampler(grid=tuple(times), forbid=(1, 2))
    assert tl.Truncation(forbid=[1, 2]) == tl.Truncation(forbid=(1, 2))


def test_the_budget_is_a_number_that_is_called_to_take_the_steps() -> None:
    sampler = tl.Sampler(steps=3)
    assert sampler.steps == 3
    assert replace(sampler, steps=sampler.steps) == sampler
    run = sampler.steps(UNIFORM, 2)
    assert [step.index for step in run] == [1, 2, 3]
    assert replace(sampler, steps=5).steps(UNIFORM, 2).samples.tokens.shape == (2, 2)


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.5},
        {"top_p": 0.7},
        {"top_k": 2},
        {"forbid": (1,)},
        {"top_k": 1, "on": tl.Denoiser},
        {"temperature": 2.0, "top_k": 2, "forbid": (0,)},
    ],
)
def test_settings_of_a_sampler_truncate_its_predictions(settings: dict[str, Any]) -> None:
    """One step of the run is the step of a kernel beside that truncation."""
    truncation = tl.Truncation(**settings)
    assert tl.Sampler(**settings).truncation == truncation
    plain, cut = (tl.sample(UNIFORM, 200, steps=1, generator=generator(), **options) for options in ({}, settings))
    source = generator()
    prior = UNIFORM.process.prior(200, 2, source)
    by_hand = Ancestral().step(Evaluator(UNIFORM, truncation, 200), prior, torch.zeros_like(prior.t), source)
    assert torch.equal(cut, by_hand.tokens)
    assert not torch.equal(cut, plain)
    assert tl.Sampler(on=tl.Denoiser).truncation is None  # which changes nothing


def test_sample_is_the_sampler_run() -> None:
    settings = tl.Sampler(Psi(0.5), RandomScan(), top_k=2, steps=9)
    tokens = settings.run(UNIFORM, 50, generator=generator()).tokens
    by_name: dict[str, Any] = {"sampler": "psi:kappa=0.5", "corrector": "random-scan", "top_k": 2, "steps": 9}
    for how in ({"sampler": settings}, by_name):
        assert torch.equal(tl.sample(UNIFORM, 50, **how, generator=generator()), tokens)


@pytest.mark.parametrize("function", [tl.sample, tl.Sampler().run, tl.Sampler().steps])
def test_a_third_positional_argument_is_refused(function: Any) -> None:
    with pytest.raises(TypeError, match="positional"):
        function(UNIFORM, 2, 4)


@pytest.mark.parametrize("steps", [3, 10])
def test_a_grid_of_times_costs_what_it_says_beside_a_corrector(steps: int) -> None:
    """Two corrections lie between three steps, whatever the budget says."""
    sampler = tl.Sampler.parse("ancestral + scan", steps=steps, grid=(1.0, 0.6, 0.3, 0.0))
    assert sampler.times(UNIFORM).tolist() == [1.0, 0.6, 0.3, 0.0]
    assert int(sampler.run(UNIFORM, 30, generator=generator()).evaluations.max()) == 5


def test_the_same_value_runs_models_of_any_process() -> None:
    """For a causal one it chooses left to right."""
    causal = tl.DiffusionModel(lambda tokens, time: torch.zeros(*tokens.shape, K), tl.LeftToRight(K))
    sampler = tl.Sampler(steps=2)
    assert sampler.for_model(causal).predictor == PREDICTORS.parse("autoregressive")
    assert sampler.for_model(UNIFORM) == sampler
    assert sampler.run(causal, 4, length=5).evaluations.tolist() == [5] * 4


@pytest.mark.parametrize("name", KERNELS)
def test_the_module_of_a_kernel_opens_with_a_law_and_its_class_is_public(name: str) -> None:
    kernel = KERNELS[name]
    docstring = sys.modules[kernel.__module__].__doc__ or ""
    assert re.search(r"\n    \S", docstring), "the docstring of a sampler states its law as an indented formula"
    assert getattr(tl.samplers, kernel.__name__) is kernel


@pytest.mark.parametrize("name", KERNELS)
def test_options_of_a_kernel_parse_from_text_and_are_run_away_from_their_defaults(name: str) -> None:
    """A new option joins `EXTREMES`."""
    kernel = KERNELS[name]
    assert is_dataclass(kernel)
    registry: Any = PREDICTORS if name in PREDICTORS else CORRECTORS
    assert registry.parse(name) == kernel()
    extremes = [kernel_of(setting) for setting in EXTREMES if setting.split(":")[0] == name]
    for option in fields(kernel):
        if option.default is MISSING:
            continue  # an object, such as the inner predictor of the greedy tail
        text = str(option.default).lower() if option.default in (None, False, True) else str(option.default)
        for spelt in (option.name, option.name.replace("_", "-")):
            parsed = getattr(registry.parse(f"{name}:{spelt}={text}"), option.name)
            assert parsed == option.default
            assert type(parsed) is type(option.default)
        if get_origin(option.type) is Literal:
            for choice in get_args(option.type):
                assert getattr(registry.parse(f"{name}:{option.name}={choice}"), option.name) == choice
        away = any(getattr(extreme, option.name) != option.default for extreme in extremes)
        assert away or kernel is Autoregressive, option.name  # whose tests are test_autoregressive.py


def test_a_flag_needs_no_value() -> None:
    expected = tl.Sampler.parse("ancestral", corrector="scan:steps=2,metropolised=true")
    assert tl.Sampler.parse("ancestral + scan:metropolised,steps=2") == expected
    with pytest.raises(ValueError, match=r"kappa must be a number.*got ''"):
        tl.Sampler.parse("psi:kappa")
