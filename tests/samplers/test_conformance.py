"""What every predictor and corrector must do, over the registries: a new kernel joins by being registered.

So does a new process: every kernel runs under every process that it supports.  All draws have fixed seeds and no test
here is statistical.
"""

import re
import sys
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from inspect import signature
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin

import pytest
import torch
from torch import Tensor, nn

import tokenloom as tl
from tests import brute
from tests.samplers.helpers import CELLS, EXTREMES, KERNELS, PROCESSES, Cell, kernel_of, process_of, supported
from tokenloom.nn import CausalTransformer, DiT, TransformerConfig
from tokenloom.samplers import CORRECTORS, PREDICTORS, Predictor
from tokenloom.samplers.given import ShowGiven

K, L, ROWS, STEPS = 4, 3, 12, 4
P0 = brute.random_p0(K, L)
KINDS: list[Cell] = [*CELLS, tl.LeftToRight]
SHORT = {"gillespie": "gillespie:floor=0.9"}
"""Jump by jump for part of the way: what is tested here shows there."""
Run = tuple[str, str | None, Cell]


@cache
def made(kind: Cell) -> tl.Process:
    """A tenth of the signal is left at t = 1, which spares Gillespie most of its jumps."""
    return process_of(kind, K, L, tl.LinearSchedule(eps=0.1))


PREDICTED: list[Run] = [
    (SHORT.get(name, name), None, kind)
    for name in PREDICTORS
    for kind in KINDS
    if PREDICTORS[name].supports(made(kind))
]
CORRECTED: list[Run] = [
    ("ancestral", name, kind) for name in CORRECTORS for kind in KINDS if CORRECTORS[name].supports(made(kind))
]
EXTREME: list[Run] = [
    (setting, None, supported(type(kernel))[-1])
    if isinstance(kernel := kernel_of(setting), Predictor)
    else ("ancestral", setting, supported(type(kernel))[-1])
    for setting in EXTREMES
    if setting not in SHORT.values()
]
"""Each under the last of the registered processes that it supports."""
RUNS = PREDICTED + CORRECTED + EXTREME
PAIRS: list[Run] = [
    (predictor, corrector, kind)
    for predictor, _, kind in PREDICTED
    for corrector in CORRECTORS
    if kind in PROCESSES and not predictor.startswith("mudm") and CORRECTORS[corrector].supports(made(kind))
]
"""Every predictor beside every corrector; mudm runs under transition times, which no corrector supports."""
NAMED = [run for run in RUNS if run[2] in (*PROCESSES, tl.LeftToRight)]
"""Under the registered processes alone, where the noise makes no difference."""
every_run = pytest.mark.parametrize(("predictor", "corrector", "kind"), RUNS)
every_named_run = pytest.mark.parametrize(("predictor", "corrector", "kind"), NAMED)
every_kernel = pytest.mark.parametrize("name", KERNELS)
unchecked = pytest.mark.usefixtures("as_a_user")
"""Shape checks take most of the time of a small run; the first test below makes every run with them."""
GIVEN = torch.tensor([1, 3, 0])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class CausalTable(nn.Module):
    """p(x^l | x^1 .. x^{l-1}) of the table, whatever stands at l and after it."""

    causal, length = True, L

    def forward(self, tokens: Tensor, time: Tensor) -> Tensor:
        rows = []
        for position in range(L):
            before = P0.sum(dim=tuple(range(position + 1, L))) if position < L - 1 else P0
            rows.append(before[tuple(tokens[:, :position].unbind(1))].log().expand(len(tokens), -1))
        return torch.stack(rows, 1)


@cache
def exact(kind: Cell) -> tl.Oracle | tl.DiffusionModel:
    """The exact posteriors of the table."""
    if kind is tl.LeftToRight:
        return tl.DiffusionModel(CausalTable(), made(kind))
    return tl.Oracle(P0, made(kind), predicts=tl.Denoiser)


def plain(kind: Cell, shown: list[int] | None = None) -> tl.DiffusionModel:
    """A callable that counts the rows it is shown."""
    process = made(kind)

    def network(tokens: Tensor, time: Tensor, absorbing: Tensor | None = None) -> Tensor:
        assert (absorbing is not None) == process.shows_auxiliary
        if shown is not None:
            shown.append(len(tokens))
        logits: Tensor = torch.cos(1.7 * tokens[..., None] + torch.arange(K)) + time[:, None, None]
        return logits.roll(1, 1) if process.sequential else logits

    return tl.DiffusionModel(network, process, predicts=tl.Denoiser)


@cache
def network(states: int, absorbing: bool, causal: bool) -> DiT | CausalTransformer:
    torch.manual_seed(0)
    kind = CausalTransformer if causal else DiT
    made = kind(TransformerConfig(K, states, L, 16, 1, 2, 8, time=not causal, absorbing=absorbing))
    torch.nn.init.normal_(made.head.weight)  # type: ignore[arg-type]
    return made.eval()


@every_run
def test_a_run_passes_its_shape_checks(predictor: str, corrector: str | None, kind: Cell) -> None:
    assert tl.sample(exact(kind), 5, steps=STEPS, sampler=predictor, corrector=corrector).shape == (5, L)


@dataclass(frozen=True)
class Recorded:
    """A run of a callable that counts the rows it is shown."""

    sampler: tl.Sampler
    samples: tl.Samples
    steps: list[tl.Step]
    shown: list[int]


@cache
def recorded(predictor: str, corrector: str | None, kind: Cell) -> Recorded:
    """The run that most tests below look at."""
    sampler, shown, steps = tl.Sampler.parse(predictor, corrector=corrector, steps=STEPS), list[int](), list[tl.Step]()
    samples = sampler.run(plain(kind, shown), ROWS, length=L, generator=generator(), on_step=steps.append)
    return Recorded(sampler, samples, steps, shown.copy())


@unchecked
@every_run
def test_output_is_real_tokens_that_the_seed_decides_whether_run_or_taken_step_by_step(
    predictor: str, corrector: str | None, kind: Cell
) -> None:
    run = recorded(predictor, corrector, kind)
    tokens = run.samples.tokens
    assert tokens.shape == (ROWS, L)
    assert tokens.dtype == torch.int64
    assert bool(((tokens >= 0) & (tokens < K)).all())
    again = run.sampler.steps(plain(kind), ROWS, length=L, generator=generator())
    for step, other in zip(again, run.steps, strict=True):
        assert (step.index, step.count, step.time) == (other.index, other.count, other.time)
        assert torch.equal(step.tokens, other.tokens)
    assert step.time == 0
    assert torch.equal(again.samples.tokens, tokens)
    assert torch.equal(again.samples.evaluations, run.samples.evaluations)
    assert not torch.equal(run.sampler.run(plain(kind), ROWS, length=L, generator=generator(1)).tokens, tokens)


@unchecked
@every_run
def test_callback_sees_every_step_once(predictor: str, corrector: str | None, kind: Cell) -> None:
    """What a sampler remembers is its own: the states of a run are those of the process (of mudm's, a lifted one)."""
    run = recorded(predictor, corrector, kind)
    seen, lifted = run.steps, made(kind).lifted or predictor.startswith("mudm")
    extra = 0 if corrector is None else CORRECTORS.parse(corrector).evaluations
    count = (STEPS + extra) // (1 + extra)
    assert [step.index for step in seen] == list(range(1, count + 1))
    times = torch.linspace(1, 0, count + 1, dtype=torch.float64)
    for step, t, s in zip(seen, times[:-1], times[1:], strict=True):
        assert step.count == count
        if "schedule=loop" not in predictor:  # its states say the time of the level they have
            torch.testing.assert_close(step.before.t, t.expand(ROWS))
            torch.testing.assert_close(step.after.t, s.expand(ROWS))
        assert torch.equal(step.changed, step.before.tokens != step.after.tokens)
        assert step.prediction.noisy is step.before
        assert all((state.aux is not None) == lifted for state in (step.before, step.after))
    assert all(earlier.after is later.before for earlier, later in pairwise(seen))
    assert torch.equal(seen[-1].after.tokens, run.samples.tokens)
    assert any(bool(step.changed.any()) for step in seen)


@every_run
def test_evaluations_are_real_calls_and_within_the_budget(predictor: str, corrector: str | None, kind: Cell) -> None:
    """Gillespie has no budget: its cost is the number of jumps it proposes, which no number of steps bounds."""
    run = recorded(predictor, corrector, kind)
    assert sum(run.shown) == int(run.samples.evaluations.sum()) > 0
    assert predictor.startswith("gillespie") or int(run.samples.evaluations.max()) <= STEPS


def first_given(predictor: str, corrector: str | None, kind: Cell, steps: int) -> tl.Samples:
    sampler = tl.Sampler.parse(predictor, corrector=corrector, steps=steps)
    return sampler.run(exact(kind), 20, given=(GIVEN, torch.arange(L) < 1), generator=generator())


@cache
def alone(predictor: str, kind: Cell) -> tl.Samples:
    return first_given(predictor, None, kind, 3)


@unchecked
@pytest.mark.parametrize(("predictor", "corrector", "kind"), PAIRS)
def test_every_predictor_runs_beside_every_corrector(predictor: str, corrector: str, kind: Cell) -> None:
    """A corrector step between each two of three predictor steps: 3 + 2 = 5 evaluations, where there is a budget."""
    first, second = (first_given(predictor, corrector, kind, 5) for _ in range(2))
    assert first.tokens.shape == (20, L)
    assert bool(((first.tokens >= 0) & (first.tokens < K)).all())
    assert torch.equal(first.tokens, second.tokens)
    assert bool((first.tokens[:, 0] == GIVEN[0]).all())
    assert predictor.startswith("gillespie") or int(first.evaluations.max()) <= 5
    assert not torch.equal(first.tokens, alone(predictor, kind).tokens)


MASKED = [run for run in RUNS if "mask_id" in signature(run[2]).parameters]


@unchecked
@pytest.mark.parametrize(("predictor", "corrector", "kind"), MASKED)
def test_a_mask_inside_the_vocabulary_is_never_put_out(predictor: str, corrector: str | None, kind: Cell) -> None:
    p0 = P0.clone()
    for axis in range(L):
        p0.select(axis, 1).zero_()
    options: dict[str, Any] = {"mask_id": 1}
    model = tl.Oracle(p0 / p0.sum(), kind(K, **options), predicts=tl.Denoiser)
    tokens = tl.sample(model, 60, steps=STEPS, sampler=predictor, corrector=corrector, generator=generator())
    assert set(tokens.unique().tolist()) == {0, 2, 3}  # type: ignore[no-untyped-call]


@unchecked
@every_run
def test_a_row_is_the_one_that_would_be_drawn_alone(predictor: str, corrector: str | None, kind: Cell) -> None:
    sampler = tl.Sampler.parse(predictor, corrector=corrector, steps=STEPS)
    together, last = (
        sampler.run(exact(kind), len(seeds), generator=tl.RowGenerators(seeds)) for seeds in ([0, 1, 2], [2])
    )
    assert torch.equal(last.tokens[0], together.tokens[2])
    assert int(last.evaluations[0]) == int(together.evaluations[2])


@unchecked
@pytest.mark.parametrize(
    ("predictor", "corrector", "kind", "show_given"),
    [(*run, show) for run in RUNS for show in ("clean", "noised") if show == "clean" or run[2] is not tl.LeftToRight],
)
def test_given_positions_come_out_as_given_and_stay_so_when_shown_clean(
    predictor: str, corrector: str | None, kind: Cell, show_given: ShowGiven
) -> None:
    tokens, flags = GIVEN.expand(16, L), torch.rand(16, L, generator=generator(3)) < 0.5
    if kind is tl.LeftToRight:
        flags = flags.cumprod(1).bool()  # a beginning
    steps: list[tl.Step] = []
    sampler = tl.Sampler.parse(predictor, corrector=corrector, steps=STEPS, show_given=show_given)
    samples = sampler.run(exact(kind), 16, given=(tokens, flags), generator=generator(), on_step=steps.append)
    assert torch.equal(samples.tokens[flags], tokens[flags])
    assert bool((samples.tokens[~flags] < K).all())
    visited = [steps[0].before.tokens, *(step.after.tokens for step in steps)]
    always = all(torch.equal(state[flags], tokens[flags]) for state in visited)
    assert always == (show_given == "clean")


@unchecked
@every_named_run
def test_a_network_draws_like_a_callable(predictor: str, corrector: str | None, kind: Cell) -> None:
    """The network only computes the logits that are drawn from, the callable all of them."""
    process = made(kind)
    inner = network(process.input_states, process.shows_auxiliary, process.sequential)
    sampler = tl.Sampler.parse(predictor, corrector=corrector, steps=STEPS)
    rows = 2 if predictor.startswith("gillespie") else ROWS
    first, second = (
        sampler.run(tl.DiffusionModel(either, process, predicts=tl.Denoiser), rows, length=L, generator=generator())
        for either in (inner, lambda *shown: inner(*shown))
    )
    assert torch.equal(first.tokens, second.tokens)


@unchecked
@every_named_run
def test_an_empty_batch_is_drawn_as_such(predictor: str, corrector: str | None, kind: Cell) -> None:
    assert tl.sample(exact(kind), 0, steps=4, sampler=predictor, corrector=corrector).shape == (0, L)


@unchecked
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("registry", [PREDICTORS, CORRECTORS], ids=lambda registry: registry.kind)
def test_a_process_it_does_not_support_is_refused_with_a_remedy_that_works(registry: Any, kind: Cell) -> None:
    able = [name for name in registry if registry[name].supports(made(kind))]
    remedy = f"use {', '.join(able)}" if able else f"there is no {registry.kind} for it"
    for name in registry:
        kernel = registry[name]()
        accept = kernel.prepare if isinstance(kernel, Predictor) else kernel.check
        if name in able:
            accept(exact(kind))
        else:
            sentence = f"^{name} needs an? .*, but the model's process is {made(kind).title}; {remedy}$"
            with pytest.raises(ValueError, match=sentence):
                accept(exact(kind))


@every_kernel
def test_its_module_opens_with_a_law(name: str) -> None:
    docstring = sys.modules[KERNELS[name].__module__].__doc__ or ""
    if name == "autoregressive":
        assert "x^l ~ p(. | x^1 .. x^{l-1})" in docstring
    else:
        assert re.search(r"\n    \S", docstring), "the docstring of a sampler states its law as an indented formula"


@every_kernel
def test_its_options_parse_from_text(name: str) -> None:
    kernel = KERNELS[name]
    assert is_dataclass(kernel)
    assert kernel.name == name
    registry: Any = PREDICTORS if name in PREDICTORS else CORRECTORS
    assert registry.parse(name) == kernel()
    for option in fields(kernel):
        if option.default is MISSING:
            continue  # an object, such as the inner predictor of the greedy tail
        text = str(option.default).lower() if option.type is bool else str(option.default)
        for spelt in (option.name, option.name.replace("_", "-")):
            parsed = getattr(registry.parse(f"{name}:{spelt}={text}"), option.name)
            assert parsed == option.default
            assert type(parsed) is type(option.default)
        if get_origin(option.type) is Literal:
            for choice in get_args(option.type):
                assert getattr(registry.parse(f"{name}:{option.name}={choice}"), option.name) == choice


@every_kernel
def test_every_option_of_it_is_run_away_from_its_default(name: str) -> None:
    """A new option joins `EXTREMES`."""
    settings = [kernel_of(setting) for setting in EXTREMES if setting.split(":")[0] == name]
    for option in fields(KERNELS[name]):
        if option.default is not MISSING:
            assert any(getattr(kernel, option.name) != option.default for kernel in settings), option.name


@every_kernel
def test_it_is_public_by_the_name_of_its_class(name: str) -> None:
    kernel = KERNELS[name]
    assert getattr(tl.samplers, kernel.__name__) is kernel
    assert isinstance(getattr(tl.samplers, kernel.__name__)(), kernel)
