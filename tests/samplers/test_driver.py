"""What the driver owns: budget, grid, callbacks, the mode of the model, what is not evaluated, where a run begins."""

import itertools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
import torch

import tokenloom as tl
from tests.samplers.helpers import SEQUENCES, Cell, K, generator, network, oracle, states, supported
from tokenloom.samplers import CORRECTORS, PREDICTORS, Evaluator, Predictor

UNIFORM, MASKED = oracle(tl.Uniform), oracle(tl.Masked)


# ------------------------------------------------------------------------------------------------ budget and grid


@pytest.mark.parametrize("steps", [7, 8, 10, 33])
@pytest.mark.parametrize("m", [1, 2, 5])
def test_predictor_and_corrector_steps_fit_the_budget_and_fill_it(steps: int, m: int) -> None:
    """n + (n - 1) m <= steps < (n + 1) + n m."""
    run = list(tl.Sampler.parse(f"ancestral + random-scan:steps={m}", steps=steps).steps(UNIFORM, 1))
    n = len(run)
    assert all(step.count == n for step in run)
    assert n + (n - 1) * m <= steps < n + 1 + n * m


@pytest.mark.parametrize(
    ("sampler", "times"),
    [
        (tl.Sampler(steps=4, grid="uniform"), [0.75, 0.5, 0.25, 0.0]),
        (tl.Sampler(steps=4, grid="cosine"), [1 - math.cos(math.pi / 2 * u) for u in (0.75, 0.5, 0.25, 0.0)]),
        (tl.Sampler(steps=100, grid=(1.0, 0.3, 0.1, 0.0)), [0.3, 0.1, 0.0]),
    ],
)
def test_the_times_of_the_grid_are_visited_from_one_to_zero(sampler: tl.Sampler, times: list[float]) -> None:
    """Times that are given take the place of steps."""
    steps = list(sampler.steps(UNIFORM, 3))
    assert [step.time for step in steps] == pytest.approx(times)
    assert float(steps[0].before.t[0]) == 1
    assert steps[-1].time == 0


# --------------------------------------------------------------------------------------------- the model's own mode


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("kind", "sampler"), [(tl.Uniform, "ancestral"), (tl.Masked, "mudm")])
def test_dropout_is_off_where_the_network_is_asked_and_its_owners_mode_is_back_between_steps(
    kind: Cell, sampler: str, training: bool
) -> None:
    """Of every module, also where another process borrows the network, and after the owner has changed the mode."""
    inner = network(kind(K), 4, dropout=0.9).train(training)
    inner.blocks[0].eval()
    model = tl.DiffusionModel(inner, kind(K), predicts=tl.Denoiser)
    modes, evaluated = [module.training for module in inner.modules()], list[bool]()
    inner.blocks[0].register_forward_hook(
        lambda *_: evaluated.append(any(module.training for module in inner.modules()))
    )
    runs = [tl.Sampler.parse(sampler, steps=6).steps(model, 8, generator=generator()) for _ in range(2)]
    for step in itertools.chain(*runs):
        assert [module.training for module in inner.modules()] == modes
        if step.index == 3:
            inner.train(not inner.training)
            modes = [module.training for module in inner.modules()]
    assert torch.equal(runs[0].samples.tokens, runs[1].samples.tokens)
    assert evaluated
    assert not any(evaluated)


def test_the_mode_is_restored_when_the_network_fails() -> None:
    inner = network(tl.Uniform(K), 4)
    inner.blocks[0].register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tl.sample(tl.DiffusionModel(inner, tl.Uniform(K)), 2, steps=2)
    assert all(module.training for module in inner.modules())


@pytest.mark.parametrize("context", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_sampling_is_the_same_in_every_gradient_mode(context: Callable[[], AbstractContextManager[None]]) -> None:
    model = tl.DiffusionModel(network(tl.Uniform(K), 4), tl.Uniform(K))
    expected = tl.sample(model, 8, steps=4, generator=generator())
    with context():
        assert torch.equal(tl.sample(model, 8, steps=4, generator=generator()), expected)


def test_samples_can_be_trained_on() -> None:
    inner = network(tl.Uniform(K), 4)
    tokens = tl.sample(tl.DiffusionModel(inner, tl.Uniform(K)), 8, steps=4)
    loss = inner(tokens, torch.ones(8)).logsumexp(-1).sum()
    (gradient,) = torch.autograd.grad(loss, inner.embedding.table.weight)  # type: ignore[arg-type,union-attr]
    assert bool(gradient.isfinite().all())


# ------------------------------------------------------------------------------------------- what is not evaluated


def test_a_run_that_is_left_asks_the_network_no_more_and_its_steps_stay_as_they_were() -> None:
    inner, calls = network(tl.Uniform(K), 4), list[int]()
    inner.blocks[0].register_forward_pre_hook(lambda *_: calls.append(1))
    model = tl.DiffusionModel(inner, tl.Uniform(K))
    run, seen = (
        tl.Sampler(steps=8, grid="uniform").steps(model, 30, generator=generator()),
        list[tuple[tl.Step, torch.Tensor]](),
    )
    for step in run:
        seen.append((step, step.evaluations.clone()))
        if step.index == 3:
            break
    asked = len(calls)
    assert 0 < asked <= 3
    assert step.time == pytest.approx(5 / 8)
    assert torch.equal(run.samples.tokens, step.tokens)
    assert len(calls) == asked
    next(run)
    assert all(torch.equal(kept.evaluations, then) for kept, then in seen)
    assert int(seen[0][1].sum()) < int(seen[-1][1].sum())


@pytest.mark.usefixtures("as_a_user")
def test_timeless_masked_network_is_not_asked_again_where_nothing_changed() -> None:
    """48 steps over 4 positions: a row is evaluated afresh only after it changed, and tokens are as with asking."""
    inner = network(tl.Masked(K), 4, time=False).eval()
    model = tl.DiffusionModel(inner, tl.Masked(K), predicts=tl.Denoiser)
    run = tl.Sampler(steps=48).steps(model, 16, generator=generator())
    changes = torch.stack([step.changed.any(1) for step in run]).sum(0)
    assert torch.equal(run.samples.evaluations, changes)
    assert int(changes.max()) <= 4
    fresh = tl.DiffusionModel(lambda tokens, time: inner(tokens, time), tl.Masked(K), predicts=tl.Denoiser)
    again = tl.Sampler(steps=48).run(fresh, 16, length=4, generator=generator())
    assert torch.equal(run.samples.tokens, again.tokens)


@pytest.mark.parametrize("sampler", ["reaudm", "ancestral"])
def test_timeless_network_is_asked_again_where_only_the_absorbing_sequence_changed(sampler: str) -> None:
    """The prediction of every step is that of a network asked afresh."""
    inner = network(tl.AbsorbingUniform(K), 4, time=False).eval()
    model = tl.DiffusionModel(inner, tl.AbsorbingUniform(K), predicts=tl.Denoiser)
    for step in tl.Sampler.parse(sampler, steps=6).steps(model, 20, generator=generator()):
        fresh = Evaluator(model, None, 20)(step.before).everywhere(tl.Denoiser)
        torch.testing.assert_close(step.prediction.everywhere(tl.Denoiser).logits, fresh.logits)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("kind", [tl.Uniform, tl.Masked])
def test_rows_without_movers_are_not_evaluated(kind: Cell) -> None:
    """With 100 steps most rows rest in most of them."""
    model = tl.DiffusionModel(lambda tokens, time: torch.zeros(*tokens.shape, K), kind(K), predicts=tl.Denoiser)
    samples = tl.Sampler(steps=100).run(model, 8, length=2, generator=generator())
    assert int(samples.evaluations.sum()) < 8 * 30


def test_asking_in_a_callback_for_what_the_step_computed_costs_nothing() -> None:
    for sampler in ("ancestral", "remasking", "confidence"):
        plain, asked = (
            tl.Sampler.parse(sampler, steps=4).run(MASKED, 50, generator=generator(), on_step=on)
            for on in (None, lambda step: step.prediction.at(step.changed & ~step.before.tokens.ne(K), tl.Denoiser))
        )
        assert torch.equal(plain.evaluations, asked.evaluations)


@pytest.mark.usefixtures("as_a_user")
def test_types_and_values_are_checked_inside_a_callback_too() -> None:
    """A process, a model and a draw look at what they are given, wherever they are called from."""

    def ask(step: tl.Step) -> None:
        with pytest.raises(ValueError, match=r"token ids in 0\.\.2, got 3"):
            UNIFORM.process.corrupt(torch.full((2, 2), K), step.after.t)
        with pytest.raises(ValueError, match="x_t must hold token ids"):
            UNIFORM.predict(replace(step.after, tokens=step.tokens + K))
        with pytest.raises(ValueError, match="logits hold NaN"):
            tl.draw(torch.full((3,), torch.nan))
        with pytest.raises(ValueError, match="logits must be a float tensor"):
            tl.draw([[0.0, 1.0]])  # type: ignore[arg-type]

    tl.sample(UNIFORM, 2, steps=2, on_step=ask)


def test_what_is_taken_among_predictions_is_never_about_other_positions() -> None:
    noisy = states(SEQUENCES, 0.4)
    prediction = Evaluator(UNIFORM, None, len(SEQUENCES))(noisy)
    asked, other, _ = torch.rand(3, *SEQUENCES.shape, generator=generator()) < 0.5
    local = prediction.at(asked, tl.Denoiser)
    for chosen in (torch.ones_like(asked), other, ~asked, torch.zeros_like(asked)):
        among, directly = local.among(chosen), prediction.at(asked & chosen, tl.Denoiser)
        assert torch.equal(among.where.row, directly.where.row)
        assert torch.equal(among.where.column, directly.where.column)
        torch.testing.assert_close(among.posterior.logits, directly.posterior.logits, check_dtype=False)
        assert torch.equal(among.noisy.tokens, noisy.tokens[asked & chosen].unsqueeze(1))
        drawn = among.draw(noisy.tokens, torch.rand(noisy.tokens.shape, generator=generator(1)).double())
        assert torch.equal(drawn[~(asked & chosen)], noisy.tokens[~(asked & chosen)])


# --------------------------------------------------------------------------------- beginning at a state on the way down

FORGETFUL = [name for name in PREDICTORS if PREDICTORS[name].advance is Predictor.advance]
CASES = [(name, kind) for name in FORGETFUL for kind in supported(PREDICTORS[name])]


def visited(model: tl.Model, steps: int = 4) -> list[tl.Noisy]:
    """The states after each of some ancestral steps."""
    return [step.after for step in tl.Sampler(steps=steps).steps(model, 16, generator=generator())]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(("name", "kind"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_a_run_split_at_a_step_and_continued_is_the_same_run(name: str, kind: Cell) -> None:
    """Only the randomness that is left matters, so a second run brings its generator to the same place."""
    model = oracle(kind)
    corrector = "scan" if CORRECTORS["scan"].supports(model.process) else None
    sampler = tl.Sampler.parse(name, corrector=corrector, steps=8)
    source = generator(3)
    whole = sampler.steps(model, 16, generator=source)
    split = [(step.after, source.get_state()) for step in whole]
    middle, randomness = split[len(split) // 2]
    rest = sampler.steps(model, 16, begin=middle, generator=torch.Generator().set_state(randomness))
    assert [step.index for step in rest] == list(range(len(split) // 2 + 2, len(split) + 1))
    assert torch.equal(rest.samples.tokens, whole.samples.tokens)


@pytest.mark.usefixtures("as_a_user")
def test_every_sampler_continues_with_other_settings_from_a_state_of_another() -> None:
    model = oracle(tl.Uniform)
    middle = visited(model, 8)[3]
    for name in PREDICTORS:
        if PREDICTORS[name].supports(model.process):
            tokens = tl.Sampler.parse(name, steps=5).run(model, 16, begin=middle).tokens
            assert tokens.shape == middle.tokens.shape
            assert int(tokens.max()) < 3


def test_a_state_at_the_end_takes_no_step() -> None:
    model = oracle(tl.Masked)
    last = visited(model)[-1]
    samples = tl.Sampler(steps=4).run(model, 16, begin=last)
    assert torch.equal(samples.tokens, last.tokens)
    assert int(samples.evaluations.sum()) == 0


def test_given_positions_are_held_from_there_on() -> None:
    model = oracle(tl.Uniform)
    middle = visited(model)[1]
    given = (torch.tensor([2, 0]), torch.tensor([True, False]))
    assert (tl.Sampler(steps=4).run(model, 16, begin=middle, given=given).tokens[:, 0] == 2).all()


def test_a_state_that_does_not_fit_is_refused() -> None:
    model = oracle(tl.Uniform)
    middle = visited(model)[1]
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
            tl.Sampler(steps=4).run(other, batch, begin=begin)
