"""What every predictor and corrector must do, over the registries: a new kernel joins by being registered.

So does a new process: every kernel runs under every process that it supports.  All draws have fixed seeds and no test
here is statistical.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
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

K, L, ROWS, STEPS = 4, 3, 3, 4
P0 = brute.random_p0(K, L)
KINDS: list[Cell] = [*CELLS, tl.LeftToRight]
SHORT = {"gillespie": "gillespie:floor=0.9"}
"""Jump by jump for part of the way: what is tested here shows there."""
Run = tuple[str, str | None, Cell]


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

ShowGiven = Literal["auto", "clean", "noised"]


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


def draws_like_its_network(
    wrap: Callable[[nn.Module], Callable[..., Tensor]], predictor: str, corrector: str | None, kind: Cell
) -> bool:
    process = made(kind)
    inner = network(process.input_states, process.shows_auxiliary, process.sequential)
    rows = 2 if predictor.startswith("gillespie") else ROWS
    first, second = (
        tl.sample(
            tl.DiffusionModel(either, process, predicts=tl.Denoiser),
            rows,
            length=L,
            steps=STEPS,
            sampler=predictor,
            corrector=corrector,
            generator=generator(),
        )
        for either in (inner, wrap(inner))
    )
    return torch.equal(first, second)


@every_run
def test_a_run_passes_its_shape_checks(predictor: str, corrector: str | None, kind: Cell) -> None:
    assert tl.sample(exact(kind), 5, steps=STEPS, sampler=predictor, corrector=corrector).shape == (5, L)


@unchecked
@every_run
def test_output_is_real_tokens_and_the_same_for_a_seed(predictor: str, corrector: str | None, kind: Cell) -> None:
    sampler = tl.Sampler.parse(predictor, corrector=corrector, steps=STEPS)
    first, second, other = (sampler.run(exact(kind), 20, generator=generator(seed)).tokens for seed in (0, 0, 1))
    assert first.shape == (20, L)
    assert first.dtype == torch.int64
    assert int(first.min()) >= 0
    assert int(first.max()) < K
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@unchecked
@pytest.mark.parametrize(("predictor", "corrector", "kind"), PAIRS)
def test_every_predictor_runs_beside_every_corrector(predictor: str, corrector: str, kind: Cell) -> None:
    """A corrector step between each two of three predictor steps: 3 + 2 = 5 evaluations, where there is a budget."""
    tokens, flags = torch.tensor([[1, 3, 0]]).expand(20, L), torch.tensor([[True, False, False]]).expand(20, L)
    sampler = tl.Sampler.parse(predictor, corrector=corrector, steps=5)
    first, second = (sampler.run(exact(kind), 20, given=(tokens, flags), generator=generator()) for _ in range(2))
    assert first.tokens.shape == (20, L)
    assert set(first.tokens.unique().tolist()) <= set(range(K))  # type: ignore[no-untyped-call]
    assert torch.equal(first.tokens, second.tokens)
    assert bool((first.tokens[:, 0] == 1).all())
    assert predictor.startswith("gillespie") or int(first.evaluations.max()) <= 5
    alone = tl.Sampler.parse(predictor, steps=3).run(exact(kind), 20, given=(tokens, flags), generator=generator())
    assert not torch.equal(first.tokens, alone.tokens)


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

    def draw(seeds: list[int]) -> tl.Samples:
        return sampler.run(exact(kind), len(seeds), generator=tl.RowGenerators(seeds))

    together = draw([0, 1, 2])
    for row in (0, 2):
        alone = draw([row])
        assert torch.equal(alone.tokens[0], together.tokens[row])
        assert int(alone.evaluations[0]) == int(together.evaluations[row])


@unchecked
@pytest.mark.parametrize(
    ("predictor", "corrector", "kind", "show_given"),
    [(*run, show) for run in RUNS for show in ("clean", "noised") if show == "clean" or run[2] is not tl.LeftToRight],
)
def test_given_positions_come_out_as_given_and_stay_so_when_shown_clean(
    predictor: str, corrector: str | None, kind: Cell, show_given: ShowGiven
) -> None:
    tokens = torch.tensor([[1, 3, 0]]).expand(60, L)
    flags = torch.rand(60, L, generator=generator(3)) < 0.5
    if kind is tl.LeftToRight:
        flags = flags.cumprod(1).bool()  # a beginning
    steps: list[tl.Step] = []
    sampler = tl.Sampler.parse(predictor, corrector=corrector, steps=STEPS, show_given=show_given)
    samples = sampler.run(exact(kind), 60, given=(tokens, flags), generator=generator(), on_step=steps.append)
    assert torch.equal(samples.tokens[flags], tokens[flags])
    assert bool((samples.tokens[~flags] < K).all())
    visited = [steps[0].before.tokens, *(step.after.tokens for step in steps)]
    always = all(torch.equal(state[flags], tokens[flags]) for state in visited)
    assert always == (show_given == "clean")


@unchecked
@every_named_run
def test_evaluations_are_real_calls_and_within_the_budget(predictor: str, corrector: str | None, kind: Cell) -> None:
    """Gillespie has no budget: its cost is the number of jumps it proposes, which no number of steps bounds."""
    shown: list[int] = []
    sampler = tl.Sampler.parse(predictor, corrector=corrector, steps=STEPS)
    samples = sampler.run(plain(kind, shown), ROWS, length=L, generator=generator(), on_step=lambda step: None)
    assert sum(shown) == int(samples.evaluations.sum()) > 0
    assert predictor.startswith("gillespie") or int(samples.evaluations.max()) <= STEPS


@unchecked
@every_named_run
def test_callback_sees_every_step_once(predictor: str, corrector: str | None, kind: Cell) -> None:
    seen: list[tl.Step] = []
    sampler = tl.Sampler.parse(predictor, corrector=corrector, steps=STEPS)
    tokens = sampler.run(plain(kind), ROWS, length=L, generator=generator(), on_step=seen.append).tokens
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
    assert all(earlier.after is later.before for earlier, later in pairwise(seen))
    assert torch.equal(seen[-1].after.tokens, tokens)
    assert any(bool(step.changed.any()) for step in seen)


@unchecked
@every_run
def test_only_a_lifted_process_has_an_auxiliary_variable_in_its_states(
    predictor: str, corrector: str | None, kind: Cell
) -> None:
    """What a sampler remembers is its own: the states of a run are those of the process (of mudm's, a lifted one)."""
    seen: list[tl.Step] = []
    sampler = tl.Sampler.parse(predictor, corrector=corrector, steps=STEPS)
    sampler.run(exact(kind), ROWS, generator=generator(), on_step=seen.append)
    lifted = made(kind).lifted or predictor.startswith("mudm")
    assert all((state.aux is not None) == lifted for step in seen for state in (step.before, step.after))


@unchecked
@every_named_run
def test_a_network_draws_like_a_callable(predictor: str, corrector: str | None, kind: Cell) -> None:
    """The network only computes the logits that are drawn from, the callable all of them."""
    assert draws_like_its_network(lambda inner: lambda *shown: inner(*shown), predictor, corrector, kind)


@unchecked
@every_named_run
def test_an_empty_batch_is_drawn_as_such(predictor: str, corrector: str | None, kind: Cell) -> None:
    assert tl.sample(exact(kind), 0, steps=4, sampler=predictor, corrector=corrector).shape == (0, L)


REFUSED = [(name, kind) for name in KERNELS for kind in KINDS if not KERNELS[name].supports(made(kind))]


def accept(kernel: Any, model: tl.Model) -> None:
    """Raise unless the kernel takes the model."""
    kernel().prepare(model) if issubclass(kernel, Predictor) else kernel().check(model)


@pytest.mark.parametrize(("name", "kind"), REFUSED)
def test_a_process_it_does_not_support_is_refused_with_a_remedy_that_works(name: str, kind: Cell) -> None:
    registry: Any = PREDICTORS if name in PREDICTORS else CORRECTORS
    sentence = f"^{name} needs a .*, but the model's process is {made(kind).title}; "
    with pytest.raises(ValueError, match=sentence) as refusal:
        accept(KERNELS[name], exact(kind))
    remedy = str(refusal.value).split("; ")[1]
    named = remedy.removeprefix("use ").split(", ") if remedy.startswith("use ") else []
    assert named or remedy == f"there is no {registry.kind} for it"
    for other in registry:
        if other in named:
            accept(registry[other], exact(kind))
        else:
            with pytest.raises(ValueError, match=f"^{other} needs "):
                accept(registry[other], exact(kind))


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
