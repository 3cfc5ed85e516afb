"""What every predictor and corrector must do, over the registries: a new kernel joins by being registered.

All draws have fixed seeds and no test here is statistical.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.samplers.helpers import PROCESSES
from tokenloom.nn import DiT, TransformerConfig
from tokenloom.samplers.kernel import CORRECTORS, PREDICTORS, Kernel, Predictor, make

K, L, ROWS, STEPS = 4, 3, 4, 4
P0 = brute.random_p0(K, L)
KERNELS: dict[str, type[Kernel]] = {**PREDICTORS, **CORRECTORS}
SHORT = {"gillespie": "gillespie:floor=0.3"}
"""Jump by jump for part of the way: what is tested here shows there."""
RUNS = [(SHORT.get(name, name), None, kind) for name, kernel in PREDICTORS.items() for kind in kernel.serves]
RUNS += [("ancestral", name, kind) for name, kernel in CORRECTORS.items() for kind in kernel.serves]  # type: ignore[misc]
every_run = pytest.mark.parametrize(("predictor", "corrector", "kind"), RUNS)
every_kernel = pytest.mark.parametrize("name", KERNELS)

Given = Literal["auto", "clean", "noised"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def exact(kind: type[tl.Process]) -> tl.Oracle:
    return tl.Oracle(P0, kind(K), predicts=tl.Denoiser)


def plain(kind: type[tl.Process], shown: list[int] | None = None) -> tl.DiffusionModel:
    """A callable that counts the rows it is shown."""

    def network(tokens: Tensor, time: Tensor, absorbing: Tensor | None = None) -> Tensor:
        assert (absorbing is not None) == (kind is tl.AbsorbingUniform)
        if shown is not None:
            shown.append(len(tokens))
        logits: Tensor = torch.cos(1.7 * tokens[..., None] + torch.arange(K)) + time[:, None, None]
        return logits

    return tl.DiffusionModel(network, kind(K), predicts=tl.Denoiser)


@cache
def network(states: int, absorbing: bool) -> DiT:
    torch.manual_seed(0)
    made = DiT(TransformerConfig(K, states, L, 16, 1, 2, 8, absorbing=absorbing))
    torch.nn.init.normal_(made.head.weight)
    return made.eval()


@cache
def compiled(inner: DiT) -> Callable[..., Tensor]:
    return torch.compile(inner, backend="eager", dynamic=True)


def draws_like_its_network(
    wrap: Callable[[DiT], Callable[..., Tensor]], predictor: str, corrector: str | None, kind: type[tl.Process]
) -> bool:
    inner = network(K + 1 if kind in (tl.Masked, tl.MaskedUniform) else K, kind is tl.AbsorbingUniform)
    rows = 2 if predictor.startswith("gillespie") else ROWS
    first, second = (
        tl.sample(
            tl.DiffusionModel(either, kind(K), predicts=tl.Denoiser),
            rows,
            L,
            STEPS,
            predictor,
            corrector,
            generator=generator(),
        )
        for either in (inner, wrap(inner))
    )
    return torch.equal(first, second)


def every_compiled_network_draws_like_its_network() -> None:
    """Run on its own, for the compiler cannot read the shape checks of the tests."""
    for run in RUNS:
        assert draws_like_its_network(compiled, *run), run


@every_run
def test_output_is_real_tokens_and_the_same_for_a_seed(
    predictor: str, corrector: str | None, kind: type[tl.Process]
) -> None:
    first, second, other = (
        tl.sample(exact(kind), 20, steps=STEPS, predictor=predictor, corrector=corrector, generator=generator(seed))
        for seed in (0, 0, 1)
    )
    assert first.shape == (20, L)
    assert first.dtype == torch.int64
    assert int(first.min()) >= 0
    assert int(first.max()) < K
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@every_run
def test_a_mask_inside_the_vocabulary_is_never_put_out(
    predictor: str, corrector: str | None, kind: type[tl.Process]
) -> None:
    if kind not in (tl.Masked, tl.MaskedUniform):
        return
    p0 = P0.clone()
    for axis in range(L):
        p0.select(axis, 1).zero_()
    process = kind(K, mask_id=1)
    model = tl.Oracle(p0 / p0.sum(), process, predicts=tl.Denoiser)
    tokens = tl.sample(model, 60, steps=STEPS, predictor=predictor, corrector=corrector, generator=generator())
    assert set(tokens.unique().tolist()) == {0, 2, 3}  # type: ignore[no-untyped-call]


@every_run
def test_a_row_is_the_one_that_would_be_drawn_alone(
    predictor: str, corrector: str | None, kind: type[tl.Process]
) -> None:
    def draw(seeds: list[int]) -> tl.Samples:
        randomness = tl.RowGenerators(seeds)
        return tl.run_sampler(
            exact(kind), len(seeds), steps=STEPS, predictor=predictor, corrector=corrector, generator=randomness
        )

    together = draw(list(range(ROWS)))
    for row in range(ROWS):
        alone = draw([row])
        assert torch.equal(alone.tokens[0], together.tokens[row])
        assert int(alone.evaluations[0]) == int(together.evaluations[row])


@every_run
@pytest.mark.parametrize("given", ["clean", "noised"])
def test_given_positions_come_out_as_given_and_stay_so_when_shown_clean(
    predictor: str, corrector: str | None, kind: type[tl.Process], given: Given
) -> None:
    tokens = torch.tensor([[1, 3, 0]]).expand(60, L)
    flags = torch.rand(60, L, generator=generator(3)) < 0.5
    steps: list[tl.Step] = []
    samples = tl.run_sampler(
        exact(kind),
        60,
        steps=STEPS,
        predictor=predictor,
        corrector=corrector,
        fixed=(tokens, flags),
        generator=generator(),
        given=given,
        on_step=steps.append,
    )
    assert torch.equal(samples.tokens[flags], tokens[flags])
    assert bool((samples.tokens[~flags] < K).all())
    states = [steps[0].before.tokens, *(step.after.tokens for step in steps)]
    always = all(torch.equal(state[flags], tokens[flags]) for state in states)
    assert always == (given == "clean")


@every_run
def test_evaluations_are_real_calls_and_within_the_budget(
    predictor: str, corrector: str | None, kind: type[tl.Process]
) -> None:
    """Gillespie has no budget: its cost is the number of jumps it proposes, which no number of steps bounds."""
    shown: list[int] = []
    samples = tl.run_sampler(
        plain(kind, shown), ROWS, L, STEPS, predictor, corrector, generator=generator(), on_step=lambda step: None
    )
    assert sum(shown) == int(samples.evaluations.sum()) > 0
    if not predictor.startswith("gillespie"):
        assert int(samples.evaluations.max()) <= STEPS


@every_run
def test_callback_sees_every_step_once(predictor: str, corrector: str | None, kind: type[tl.Process]) -> None:
    seen: list[tl.Step] = []
    tokens = tl.sample(plain(kind), ROWS, L, STEPS, predictor, corrector, generator=generator(), on_step=seen.append)
    count = STEPS if corrector is None else (STEPS + 1) // 2
    assert [step.index for step in seen] == list(range(1, count + 1))
    times = torch.linspace(1, 0, count + 1, dtype=torch.float64)
    for step, t, s in zip(seen, times[:-1], times[1:], strict=True):
        assert step.count == count
        torch.testing.assert_close(step.before.t, t.expand(ROWS))
        torch.testing.assert_close(step.after.t, s.expand(ROWS))
        assert torch.equal(step.changed, step.before.tokens != step.after.tokens)
        assert step.prediction.noisy is step.before
    assert all(earlier.after is later.before for earlier, later in pairwise(seen))
    assert torch.equal(seen[-1].after.tokens, tokens)
    assert any(bool(step.changed.any()) for step in seen)


@every_run
def test_a_network_draws_like_a_callable(predictor: str, corrector: str | None, kind: type[tl.Process]) -> None:
    """The network only computes the logits that are drawn from, the callable all of them."""
    assert draws_like_its_network(lambda inner: lambda *shown: inner(*shown), predictor, corrector, kind)


def test_a_compiled_network_draws_like_the_network() -> None:
    script = f"import {__name__} as conformance; conformance.every_compiled_network_draws_like_its_network()"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@every_run
def test_an_empty_batch_is_drawn_as_such(predictor: str, corrector: str | None, kind: type[tl.Process]) -> None:
    assert tl.sample(exact(kind), 0, steps=4, predictor=predictor, corrector=corrector).shape == (0, L)


@every_kernel
def test_a_process_it_does_not_serve_is_refused_with_a_way_out(name: str) -> None:
    kernel = KERNELS[name]
    others: list[tl.Process] = [kind(K) for kind in PROCESSES if kind not in kernel.serves]
    others.append(tl.Interpolating(K, brute.random_pi(K, L)))
    registry: dict[str, Any] = dict(PREDICTORS if name in PREDICTORS else CORRECTORS)
    for process in others:
        able = sorted(other for other in registry if type(process) in registry[other].serves)
        serves = ", ".join(kind.__name__ for kind in kernel.serves)
        way_out = f"use {', '.join(able)}" if able else "nothing of its kind does"
        sentence = f"{name} serves {serves}, but the model's process is {type(process).__name__}; {way_out}"
        model = tl.Oracle(P0, process)
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
            kernel().prepare(model) if issubclass(kernel, Predictor) else kernel().check(model)


@every_kernel
def test_its_module_opens_with_a_law(name: str) -> None:
    docstring = sys.modules[KERNELS[name].__module__].__doc__ or ""
    assert re.search(r"\n    \S", docstring), "the docstring of a sampler states its law as an indented formula"


@every_kernel
def test_its_options_parse_from_text(name: str) -> None:
    kernel = KERNELS[name]
    assert is_dataclass(kernel)
    assert kernel.name == name
    registry: dict[str, Any] = dict(PREDICTORS if name in PREDICTORS else CORRECTORS)
    assert make(name, registry) == kernel()
    for option in fields(kernel):
        if option.default is MISSING:
            continue  # an object, such as the inner predictor of the greedy tail
        text = str(option.default).lower() if option.type is bool else str(option.default)
        for spelt in (option.name, option.name.replace("_", "-")):
            parsed = getattr(make(f"{name}:{spelt}={text}", registry), option.name)
            assert parsed == option.default
            assert type(parsed) is type(option.default)
        if get_origin(option.type) is Literal:
            for choice in get_args(option.type):
                assert getattr(make(f"{name}:{option.name}={choice}", registry), option.name) == choice
