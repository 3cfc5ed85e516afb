"""What every predictor and corrector must do, over the registries: a new kernel joins by being registered.

So does a new process: every kernel runs under every process that it supports.  All draws have fixed seeds and no test
here is statistical.
"""

from dataclasses import dataclass
from functools import cache
from inspect import signature
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.samplers import helpers
from tests.samplers.helpers import CELLS, EXTREMES, KERNELS, PROCESSES, Cell, generator, kernel_of, process_of
from tokenloom.samplers import CORRECTORS, PREDICTORS, Predictor

K, L, ROWS, STEPS = 4, 3, 12, 4
P0 = brute.random_p0(K, L)
KINDS: list[Cell] = [*CELLS, tl.LeftToRight]
SHORT = {"gillespie": "gillespie:floor=0.9"}
"""Jump by jump for part of the way: what is tested here shows there."""
GIVEN = torch.tensor([1, 3, 0])


@cache
def made(kind: Cell) -> tl.Process:
    """A tenth of the signal is left at t = 1, which spares Gillespie most of its jumps."""
    return process_of(kind, K, L, tl.LinearSchedule(eps=0.1))


class Run(NamedTuple):
    """A predictor, beside a corrector or alone, under a process."""

    predictor: str
    corrector: str | None
    kind: Cell

    @property
    def has_budget(self) -> bool:
        """Gillespie has none: its cost is the number of jumps it proposes, which no number of steps bounds."""
        return not self.predictor.startswith("gillespie")

    def sampler(self, steps: int = STEPS, **settings: Any) -> tl.Sampler:
        settings = {"grid": "uniform", **settings}
        return tl.Sampler.parse(self.predictor, corrector=self.corrector, steps=steps, **settings)


def run_of(setting: str, kind: Cell) -> Run:
    """A predictor alone, or a corrector beside ancestral steps."""
    alone = isinstance(kernel_of(setting), Predictor)
    return Run(setting, None, kind) if alone else Run("ancestral", setting, kind)


NORMAL = [
    run_of(SHORT.get(name, name), kind)
    for name, kernel in KERNELS.items()
    for kind in KINDS
    if kernel.supports(made(kind))
]
EXTREME = [
    run_of(setting, helpers.supported(type(kernel_of(setting)))[-1])
    for setting in EXTREMES
    if setting not in SHORT.values()
]
"""Each under the last of the registered processes that it supports."""
RUNS = NORMAL + EXTREME
PAIRS = [
    Run(run.predictor, corrector, run.kind)
    for run in NORMAL
    for corrector in CORRECTORS
    if run.corrector is None and run.kind in PROCESSES
    if run.predictor != "mudm" and CORRECTORS[corrector].supports(made(run.kind))
]
"""Every predictor beside every corrector; mudm runs under transition times, which no corrector supports."""
NAMED = [run for run in RUNS if run.kind in (*PROCESSES, tl.LeftToRight)]
"""Under the registered processes alone, where the noise makes no difference."""


def identity(run: Run) -> str:
    return f"{run.predictor}-{run.corrector}-{run.kind.__name__}"


every_run = pytest.mark.parametrize("run", RUNS, ids=identity)
every_named_run = pytest.mark.parametrize("run", NAMED, ids=identity)
unchecked = pytest.mark.usefixtures("as_a_user")
"""Shape checks take most of the time of a small run; the first test below makes every run with them."""


@cache
def exact(kind: Cell) -> tl.Oracle | tl.DiffusionModel:
    """The exact posteriors of the table, which only a model that sees every position has."""
    return plain(kind) if kind is tl.LeftToRight else tl.Oracle(P0, made(kind), predicts=tl.Denoiser)


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


@every_run
def test_a_run_passes_its_shape_checks_also_for_an_empty_batch(run: Run) -> None:
    for batch in (5, 0):
        assert run.sampler().run(exact(run.kind), batch, length=L).tokens.shape == (batch, L)


@dataclass(frozen=True)
class Recorded:
    """A run of a callable that counts the rows it is shown."""

    samples: tl.Samples
    steps: list[tl.Step]
    shown: list[int]


@cache
def recorded(run: Run) -> Recorded:
    """The run that most tests below look at."""
    shown, steps = list[int](), list[tl.Step]()
    model = plain(run.kind, shown)
    samples = run.sampler().run(model, ROWS, length=L, generator=generator(), on_step=steps.append)
    return Recorded(samples, steps, shown.copy())


@unchecked
@every_run
def test_output_is_real_tokens_that_the_seed_decides_whether_run_or_taken_step_by_step(run: Run) -> None:
    found = recorded(run)
    tokens = found.samples.tokens
    assert tokens.shape == (ROWS, L)
    assert tokens.dtype == torch.int64
    assert bool(((tokens >= 0) & (tokens < K)).all())
    again = run.sampler().steps(plain(run.kind), ROWS, length=L, generator=generator())
    for step, other in zip(again, found.steps, strict=True):
        assert (step.index, step.count, step.time) == (other.index, other.count, other.time)
        assert torch.equal(step.tokens, other.tokens)
    assert step.time == 0
    assert torch.equal(again.samples.tokens, tokens)
    assert torch.equal(again.samples.evaluations, found.samples.evaluations)
    assert not torch.equal(run.sampler().run(plain(run.kind), ROWS, length=L, generator=generator(1)).tokens, tokens)


@unchecked
@every_run
def test_callback_sees_every_step_once(run: Run) -> None:
    """What a sampler remembers is its own: the states of a run are those of the process (of mudm's, a lifted one)."""
    seen, lifted = recorded(run).steps, made(run.kind).lifted or run.predictor.startswith("mudm")
    extra = 0 if run.corrector is None else CORRECTORS.parse(run.corrector).evaluations
    count = (STEPS + extra) // (1 + extra)
    assert [step.index for step in seen] == list(range(1, count + 1))
    times = torch.linspace(1, 0, count + 1, dtype=torch.float64)
    for step, t, s in zip(seen, times[:-1], times[1:], strict=True):
        assert step.count == count
        if "schedule=loop" not in run.predictor:  # its states say the time of the level they have
            torch.testing.assert_close(step.before.t, t.expand(ROWS))
            torch.testing.assert_close(step.after.t, s.expand(ROWS))
        assert torch.equal(step.changed, step.before.tokens != step.after.tokens)
        assert step.prediction.noisy is step.before
        assert all((state.aux is not None) == lifted for state in (step.before, step.after))
    assert all(earlier.after is later.before for earlier, later in pairwise(seen))
    assert torch.equal(seen[-1].after.tokens, recorded(run).samples.tokens)
    assert any(bool(step.changed.any()) for step in seen)


@every_run
def test_evaluations_are_real_calls_and_within_the_budget(run: Run) -> None:
    found = recorded(run)
    assert sum(found.shown) == int(found.samples.evaluations.sum()) > 0
    assert 0 not in found.shown
    assert not run.has_budget or int(found.samples.evaluations.max()) <= STEPS


@cache
def first_given(run: Run, steps: int) -> tl.Samples:
    given = GIVEN, torch.arange(L) < 1
    return run.sampler(steps).run(exact(run.kind), 20, given=given, generator=generator())


@unchecked
@pytest.mark.parametrize("run", PAIRS, ids=identity)
def test_every_predictor_runs_beside_every_corrector(run: Run) -> None:
    """A corrector step between each two of three predictor steps: 3 + 2 = 5 evaluations, where there is a budget."""
    first, second = first_given(run, 5), first_given.__wrapped__(run, 5)
    assert first.tokens.shape == (20, L)
    assert bool(((first.tokens >= 0) & (first.tokens < K)).all())
    assert torch.equal(first.tokens, second.tokens)
    assert bool((first.tokens[:, 0] == GIVEN[0]).all())
    assert not run.has_budget or int(first.evaluations.max()) <= 5
    assert not torch.equal(first.tokens, first_given(run._replace(corrector=None), 3).tokens)


@unchecked
@pytest.mark.parametrize("run", [run for run in RUNS if "mask_id" in signature(run.kind).parameters], ids=identity)
def test_a_mask_inside_the_vocabulary_is_never_put_out(run: Run) -> None:
    p0 = P0.clone()
    for axis in range(L):
        p0.select(axis, 1).zero_()
    options: dict[str, Any] = {"mask_id": 1}
    model = tl.Oracle(p0 / p0.sum(), run.kind(K, **options), predicts=tl.Denoiser)
    tokens = run.sampler().run(model, 60, generator=generator()).tokens
    assert set(tokens.flatten().tolist()) == {0, 2, 3}


@unchecked
@every_run
def test_a_row_is_the_one_that_would_be_drawn_alone(run: Run) -> None:
    together, last = (
        run.sampler().run(exact(run.kind), len(seeds), length=L, generator=tl.RowGenerators(seeds))
        for seeds in ([0, 1, 2], [2])
    )
    assert torch.equal(last.tokens[0], together.tokens[2])
    assert int(last.evaluations[0]) == int(together.evaluations[2])


@unchecked
@pytest.mark.parametrize("show_given", ["clean", "noised"])
@every_run
def test_given_positions_come_out_as_given_and_stay_so_when_shown_clean(run: Run, show_given: str) -> None:
    tokens, flags = GIVEN.expand(16, L), torch.rand(16, L, generator=generator(3)) < 0.5
    if run.kind is tl.LeftToRight:
        flags, show_given = flags.cumprod(1).bool(), "clean"  # a beginning, which is never shown noised
    steps: list[tl.Step] = []
    samples = run.sampler(show_given=show_given).run(
        exact(run.kind), 16, length=L, given=(tokens, flags), generator=generator(), on_step=steps.append
    )
    assert torch.equal(samples.tokens[flags], tokens[flags])
    assert bool((samples.tokens[~flags] < K).all())
    visited = [steps[0].before.tokens, *(step.after.tokens for step in steps)]
    always = all(torch.equal(state[flags], tokens[flags]) for state in visited)
    assert always == (show_given == "clean")


@unchecked
@every_named_run
def test_a_network_draws_like_a_callable(run: Run) -> None:
    """The network only computes the logits that are drawn from, the callable all of them."""
    process = made(run.kind)
    inner = helpers.network(process, L).eval()
    first, second = (
        run.sampler().run(model, ROWS if run.has_budget else 2, length=L, generator=generator())
        for model in (
            tl.DiffusionModel(either, process, predicts=tl.Denoiser) for either in (inner, lambda *shown: inner(*shown))
        )
    )
    assert torch.equal(first.tokens, second.tokens)


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
            with pytest.raises(ValueError, match=f"^{name} needs .*{made(kind).title}; {remedy}$"):
                accept(exact(kind))
