"""What the driver owns: the budget, the grid, given positions, callbacks, the mode of the model."""

import itertools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.samplers.helpers import Cell, K, oracle
from tokenloom.drawing.randomness import Randomness
from tokenloom.nn import DiT, TransformerConfig
from tokenloom.samplers import Corrector, Evaluator

UNIFORM, MASKED = oracle(tl.Uniform), oracle(tl.Masked)


def network(states: int, dropout: float = 0.1, time: bool = True, absorbing: bool = False) -> DiT:
    torch.manual_seed(0)
    config = TransformerConfig(K, states, 4, 16, 1, 2, 8, dropout=dropout, time=time, absorbing=absorbing)
    made = DiT(config)
    torch.nn.init.normal_(made.head.weight)  # type: ignore[arg-type]
    return made


# ------------------------------------------------------------------------------------------------ budget and grid


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("steps", [7, 8, 10, 33])
@pytest.mark.parametrize("m", [1, 2, 5])
def test_predictor_and_corrector_steps_fit_the_budget_and_fill_it(steps: int, m: int) -> None:
    """n + (n - 1) m <= steps < (n + 1) + n m."""
    seen: list[int] = []
    tl.sample(UNIFORM, 1, steps=steps, corrector=f"random-scan:steps={m}", on_step=lambda step: seen.append(step.count))
    n = seen[0]
    assert seen == [n] * n
    assert n + (n - 1) * m <= steps < n + 1 + n * m


@pytest.mark.parametrize(
    ("sampler", "times"),
    [
        (tl.Sampler(steps=4), [0.75, 0.5, 0.25, 0.0]),
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


@dataclass(frozen=True)
class Recording(Corrector):
    """A corrector that only remembers when it was called."""

    calls: tuple[list[float], list[int]]
    name = "recording"

    @property
    def evaluations(self) -> int:
        return 1

    def correct(self, evaluate: Evaluator, noisy: tl.Noisy, generator: Randomness | None, call: int) -> tl.Noisy:
        self.calls[0].append(float(noisy.t[0]))
        self.calls[1].append(call)
        return noisy


def test_corrector_is_called_at_every_level_but_the_last_and_counts_its_calls() -> None:
    corrector = Recording(([], []))
    tl.sample(UNIFORM, 2, steps=7, corrector=corrector)
    assert corrector.calls == ([0.75, 0.5, 0.25], [0, 1, 2])


# --------------------------------------------------------------------------------------------- the model's own mode


def test_dropout_is_off_where_the_network_is_asked_and_every_mode_is_restored_between_steps() -> None:
    model = tl.DiffusionModel(network(K, dropout=0.9), tl.Uniform(K))
    model.network.blocks[0].eval()  # type: ignore[attr-defined]
    modes = [module.training for module in model.modules()]
    evaluated: list[bool] = []
    model.network.blocks[0].register_forward_hook(  # type: ignore[attr-defined]
        lambda *_: evaluated.append(any(module.training for module in model.modules()))
    )
    runs = [tl.Sampler(steps=4).steps(model, 8, generator=torch.Generator().manual_seed(0)) for _ in range(2)]
    for _ in itertools.chain(*runs):
        assert [module.training for module in model.modules()] == modes
    assert torch.equal(runs[0].samples.tokens, runs[1].samples.tokens)
    assert evaluated
    assert not any(evaluated)


def test_a_masked_network_is_left_in_its_mode_by_the_process_that_borrows_it() -> None:
    model = tl.DiffusionModel(network(K + 1), tl.Masked(K), predicts=tl.Denoiser).eval()
    tl.sample(model, 2, steps=2, sampler="mudm")
    assert not any(module.training for module in model.modules())


def test_the_mode_is_restored_when_sampling_fails() -> None:
    model = tl.DiffusionModel(network(K), tl.Uniform(K))

    def stop(step: tl.Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tl.sample(model, 2, steps=2, on_step=stop)
    assert model.training


@pytest.mark.parametrize("context", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_sampling_is_the_same_in_every_gradient_mode(context: Callable[[], AbstractContextManager[None]]) -> None:
    model = tl.DiffusionModel(network(K), tl.Uniform(K))
    expected = tl.sample(model, 8, steps=4, generator=torch.Generator().manual_seed(0))
    with context():
        assert torch.equal(tl.sample(model, 8, steps=4, generator=torch.Generator().manual_seed(0)), expected)


def test_samples_can_be_trained_on() -> None:
    model = tl.DiffusionModel(network(K), tl.Uniform(K))
    tokens = tl.sample(model, 8, steps=4)
    loss = model.network(tokens, torch.ones(8)).logsumexp(-1).sum()
    (gradient,) = torch.autograd.grad(loss, model.network.embedding.table.weight)  # type: ignore[attr-defined]
    assert bool(gradient.isfinite().all())


# ------------------------------------------------------------------------------------------- what is not evaluated


@pytest.mark.usefixtures("as_a_user")
def test_timeless_masked_network_is_not_asked_again_where_nothing_changed() -> None:
    """48 steps over 4 positions: a row is evaluated afresh only after it changed, and tokens are as with asking."""
    model = tl.DiffusionModel(network(K + 1, time=False), tl.Masked(K), predicts=tl.Denoiser)
    run = tl.Sampler(steps=48).steps(model, 16, generator=torch.Generator().manual_seed(0))
    changes = torch.stack([step.changed.any(1) for step in run]).sum(0)
    samples = run.samples
    assert torch.equal(samples.evaluations, changes)
    assert int(samples.evaluations.max()) <= 4
    fresh = tl.DiffusionModel(lambda tokens, time: model.network(tokens, time), tl.Masked(K), predicts=tl.Denoiser)
    fresh.eval()
    model.eval()
    again = tl.Sampler(steps=48).run(fresh, 16, length=4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(samples.tokens, again.tokens)


@pytest.mark.parametrize("sampler", ["reaudm", "ancestral"])
def test_timeless_network_is_asked_again_where_only_the_absorbing_sequence_changed(sampler: str) -> None:
    """The prediction of every step is that of a network asked afresh."""
    inner = network(K, time=False, absorbing=True).eval()
    model = tl.DiffusionModel(inner, tl.AbsorbingUniform(K), predicts=tl.Denoiser)
    for step in tl.Sampler.parse(sampler, steps=6).steps(model, 20, generator=torch.Generator().manual_seed(0)):
        fresh = Evaluator(model, None, 20)(step.before).everywhere(tl.Denoiser)
        torch.testing.assert_close(step.prediction.everywhere(tl.Denoiser).logits, fresh.logits)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("kind", [tl.Uniform, tl.Masked])
def test_rows_without_movers_are_not_evaluated(kind: Cell) -> None:
    """With 100 steps most rows rest in most of them; what the network is shown is what is counted."""
    network_input: list[int] = []

    def flat(tokens: Tensor, time: Tensor) -> Tensor:
        network_input.append(len(tokens))
        return torch.zeros(*tokens.shape, K)

    model = tl.DiffusionModel(flat, kind(K), predicts=tl.Denoiser)
    samples = tl.Sampler(steps=100).run(model, 8, length=2, generator=torch.Generator().manual_seed(0))
    assert sum(network_input) == int(samples.evaluations.sum())
    assert 0 not in network_input
    assert sum(network_input) < 8 * 30


def test_rows_that_are_all_given_cost_nothing() -> None:
    tokens, flags = torch.tensor([[0, 1], [2, 2]]), torch.tensor([[True, True], [False, True]])
    samples = tl.Sampler.parse("ancestral + informed", steps=5).run(UNIFORM, 2, given=(tokens, flags))
    assert samples.tokens[0].tolist() == [0, 1]
    assert int(samples.evaluations[0]) == 0
    assert int(samples.evaluations[1]) > 0


def test_asking_in_a_callback_for_what_the_step_computed_costs_nothing() -> None:
    for sampler in ("ancestral", "remasking", "confidence"):
        plain, asked = (
            tl.Sampler.parse(sampler, steps=4).run(MASKED, 50, generator=torch.Generator().manual_seed(0), on_step=on)
            for on in (None, lambda step: step.prediction.at(step.changed & ~step.before.tokens.ne(K), tl.Denoiser))
        )
        assert torch.equal(plain.evaluations, asked.evaluations)
