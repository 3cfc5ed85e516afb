"""Head and loss in chunks: the same numbers and gradients as the dense way, without the dense tensor."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import tokenloom as tl
from tests.objectives.trained import TRAINED, built
from tests.samplers.helpers import network as small_network
from tokenloom import objectives
from tokenloom.cells import PROCESSES
from tokenloom.models.model import DiffusionModel
from tokenloom.nn import CausalTransformer, DiT, HollowTransformer, Transformer, TransformerConfig
from tokenloom.objectives import head_loss
from tokenloom.posteriors import Posterior

K, L, B = 11, 6, 5
Case = tuple[tl.Process, objectives.Objective, type[Posterior], type[Transformer]]


def registered(name: str, process_name: str, predicts: type[Posterior]) -> Case:
    """An objective with a network that it trains."""
    objective, process = objectives.OBJECTIVES.parse(name), built(process_name, K, L)
    if isinstance(objective, objectives.FiniteStep):
        objective = objectives.FiniteStep(8)
    hollow = HollowTransformer if isinstance(objective, objectives.RatioMatching) else DiT
    return process, objective, predicts, CausalTransformer if process.sequential else hollow


PI = torch.softmax(torch.randn(L, K, generator=torch.Generator().manual_seed(8)), -1)
CASES: list[Case] = [
    *(registered(*case) for case in TRAINED),
    (tl.Masked(K, mask_id=3), objectives.JumpNELBO(), tl.Denoiser, DiT),
    (tl.Masked(K, mask_id=3), objectives.FiniteStep(8), tl.Denoiser, DiT),
    (tl.Uniform(K), objectives.MarkovNELBO(), tl.LeaveOneOut, HollowTransformer),
    (tl.Process(tl.noise.Table(K, PI), tl.couplings.Absorbing()), objectives.JumpNELBO(), tl.LeaveOneOut, DiT),
]
"""All that is registered, a mask inside the vocabulary, a hollow network and a table of absorbing states."""


def label(case: Case) -> str:
    return f"{case[0].name}-{type(case[1]).__name__}-{case[2].__name__}-{case[3].__name__}"


every_case = pytest.mark.parametrize("case", CASES, ids=label)


def make(case: Case, given: bool = False) -> DiffusionModel:
    torch.manual_seed(1)
    process, _, predicts, kind = case
    absorbing = process.shows_auxiliary
    outputs = process.num_states if predicts is tl.Score else K
    sizes = (outputs, process.input_states, L, 16, 2, 2, 8, 0.0)
    network = kind(TransformerConfig(*sizes, absorbing=absorbing, given=given))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return DiffusionModel(network, process, predicts=predicts)


def batch(case: Case) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x_0 = torch.randint(4, K, (B, L), generator=generator)
    return x_0, 0.05 + 0.9 * torch.rand(B, generator=generator)


def gradients(model: nn.Module, mean: Tensor) -> list[Tensor]:
    parameters = list(model.parameters())
    return [
        torch.zeros_like(parameter) if slope is None else slope
        for parameter, slope in zip(parameters, torch.autograd.grad(mean, parameters, allow_unused=True), strict=True)
    ]


@every_case
def test_chunks_give_the_loss_and_gradient_of_the_dense_way(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 4 rows of 30, an incomplete last one included."""
    monkeypatch.setattr(head_loss, "CHUNK_ELEMENTS", 4 * K)
    monkeypatch.setattr(head_loss, "HEAD_SHARE", 1000)
    model, (x_0, t) = make(case), batch(case)
    objective = case[1]
    chunked = head_loss.training_loss(model, objective, x_0, t, torch.Generator().manual_seed(3))
    noisy = model.process.corrupt(x_0, objective.times(t), torch.Generator().manual_seed(3))
    shown = model.process.network_input(noisy)
    logits = model.network(shown.tokens, shown.time, shown.absorbing, shown.given)
    dense = objective.per_token(model.interpret(logits, noisy), x_0, noisy, model.process)
    torch.testing.assert_close(chunked.per_token.float(), dense.detach().float())  # from logits in float32
    torch.testing.assert_close(chunked.mean.float(), dense.mean().float())
    for actual, expected in zip(gradients(model, 3 * chunked.mean), gradients(model, 3 * dense.mean()), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("process", [tl.Masked(K), tl.AbsorbingUniform(K), tl.MaskedUniform(K)], ids=lambda it: it.name)
def test_the_prior_term_in_chunks_is_the_dense_one(process: tl.Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is scored at a state of its own, where some positions are given."""
    monkeypatch.setattr(head_loss, "CHUNK_ELEMENTS", 4 * K)
    monkeypatch.setattr(head_loss, "HEAD_SHARE", 1000)
    case: Case = (process, objectives.JumpNELBO(), tl.Denoiser, DiT)
    model, (x_0, _), term = make(case), batch(case), objectives.PriorTerm()
    given = torch.rand(B, L, generator=torch.Generator().manual_seed(4)) < 0.3
    noisy = term.state(process, x_0, torch.Generator().manual_seed(3), given)
    chunked = head_loss.loss_at(model, term, x_0, noisy)
    dense = term.per_token(model.predict(noisy), x_0, noisy, process).masked_fill(given, 0)
    assert float(dense.detach().sum()) > 0
    torch.testing.assert_close(chunked.per_token.float(), dense.detach().float())
    expected = gradients(model, dense.sum() / (~given).sum())
    for actual, slope in zip(gradients(model, chunked.mean), expected, strict=True):
        assert slope.isfinite().all()
        torch.testing.assert_close(actual, slope, rtol=1e-4, atol=1e-6)


@every_case
@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_given_positions_cost_nothing_and_gradients_are_finite_at_the_ends_of_time(case: Case, eps: float) -> None:
    """t = 0 and t = 1 exactly, alpha_1 = 0 included, and the first step of a grid."""
    model = make((case[0].with_schedule(tl.LinearSchedule(eps)), *case[1:]), given=True)
    (x_0, _), t = batch(case), torch.tensor([0.0, 1.0, 0.05, 0.5, 1e-6])
    given = torch.zeros(B, L, dtype=torch.bool)
    given[:, ::2] = True
    loss = head_loss.training_loss(model, case[1], x_0, t, torch.Generator().manual_seed(4), given)
    assert loss.per_token.isfinite().all()
    assert all(slope.isfinite().all() for slope in gradients(model, loss.mean))
    torch.testing.assert_close(loss.mean.detach(), loss.per_token[~given].mean())
    assert loss.per_token[given].abs().max() == 0


@every_case
def test_losses_hold_under_autocast(case: Case) -> None:
    """bfloat16 features and logits; the loss itself is computed in float32 or better."""
    model, (x_0, t) = make(case), batch(case)
    exact = head_loss.training_loss(model, case[1], x_0, t, torch.Generator().manual_seed(5))
    with torch.autocast("cpu", torch.bfloat16):
        mixed = head_loss.training_loss(model, case[1], x_0, t, torch.Generator().manual_seed(5))
    assert mixed.per_token.dtype == torch.float64
    torch.testing.assert_close(mixed.mean, exact.mean, rtol=0.15, atol=0.15)
    assert all(slope.isfinite().all() and slope.dtype == torch.float32 for slope in gradients(model, mixed.mean))


def test_the_gradient_can_be_asked_for_twice() -> None:
    case = CASES[0]
    model, (x_0, t) = make(case), batch(case)
    loss = head_loss.training_loss(model, objectives.CrossEntropy(), x_0, t)
    first = torch.autograd.grad(2 * loss.mean, list(model.parameters()), retain_graph=True, allow_unused=True)
    second = torch.autograd.grad(2 * loss.mean, list(model.parameters()), allow_unused=True)
    for one, other in zip(first, second, strict=True):
        assert (one is None and other is None) or (one is not None and other is not None and torch.equal(one, other))


def test_an_absorbed_token_that_the_network_rules_out_has_its_true_price() -> None:
    """x_0 = x_t = U at the last step: -log mu, however small mu (a gap of 40 logits costs 40 nats per step)."""
    process = tl.AbsorbingUniform(3)
    t = torch.tensor([0.1], dtype=torch.float64)
    noisy = tl.Noisy(torch.tensor([[1]]), t, process.alpha(t), torch.tensor([[1]]))
    logits = torch.tensor([[[0.0, -40.0, 0.0]]], requires_grad=True)
    loss = objectives.FiniteStep(10).per_token(tl.Denoiser(logits), torch.tensor([[1]]), noisy, process)
    expected = 10 * (40 + torch.tensor(2.0, dtype=torch.float64).log())
    torch.testing.assert_close(loss.detach(), expected.view(1, 1), rtol=1e-6, atol=0)
    assert torch.autograd.grad(loss.sum(), logits)[0].isfinite().all()


class LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the most elements any operation returned."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.elements = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor):
                self.elements = max(self.elements, value.numel())
        return result


def test_no_tensor_of_batch_times_length_times_vocabulary_is_ever_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_loss, "CHUNK_ELEMENTS", 1 << 17)
    size, length, batch_size = 1000, 16, 20
    model = DiffusionModel(DiT(TransformerConfig(size, size, length, 16, 1, 2, 8)), tl.Uniform(size))
    x_0 = torch.randint(0, size, (batch_size, length))
    with LargestTensor() as seen:
        torch.autograd.backward(
            head_loss.training_loss(model, objectives.MarkovNELBO(), x_0, torch.rand(batch_size)).mean
        )
    assert seen.elements <= head_loss.CHUNK_ELEMENTS < batch_size * length * size


@dataclass(frozen=True)
class Surprise(objectives.Objective):
    """-log p(x_0), as somebody would write it first."""

    name: ClassVar[str] = "surprise"

    def representations(self, process: tl.Process) -> tuple[type[Posterior], ...]:
        return tl.Denoiser, tl.LeaveOneOut

    def per_token(self, prediction: Posterior, x_0: Tensor, noisy: tl.Noisy, process: tl.Process) -> Tensor:
        assert isinstance(prediction, tl.Denoiser | tl.LeaveOneOut)
        return -prediction.log_probs.gather(-1, x_0.unsqueeze(-1)).squeeze(-1).double()


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut])
@pytest.mark.parametrize("process", [tl.Masked(5), tl.Masked(5, mask_id=2), tl.Uniform(5)], ids=str)
def test_an_objective_of_one_s_own_costs_the_same_whether_the_network_splits_or_not(
    process: tl.Process, predicts: type[Posterior], given: bool
) -> None:
    """Visible tokens and ids that clean data cannot hold are read alike, whatever an objective does about them."""
    network = small_network(process, 6).eval()
    x_0 = torch.randint(3, 5, (8, 6), generator=torch.Generator().manual_seed(1))
    t, flags = torch.linspace(0.05, 0.95, 8), torch.arange(6).expand(8, 6) < 2 if given else None
    losses = []
    for called in (network, lambda tokens, time: network(tokens, time)):
        model = DiffusionModel(called, process, predicts=predicts)
        loss = head_loss.training_loss(model, Surprise(), x_0, t, torch.Generator().manual_seed(2), flags)
        losses.append((loss, gradients(network, loss.mean)))
    (split, split_slopes), (whole, whole_slopes) = losses
    torch.testing.assert_close(split.mean, whole.mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(split.per_token, whole.per_token, rtol=1e-6, atol=1e-6)
    for one, other in zip(split_slopes, whole_slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_an_oracle_is_scored_by_its_cross_entropy() -> None:
    """Independent positions with p_0 = (1/2, 1/3, 1/6) at t = 1, alpha = 0: -log p_0(x_0), whatever x_t."""
    p0 = torch.tensor([1 / 2, 1 / 3, 1 / 6], dtype=torch.float64)
    oracle = tl.Oracle(torch.outer(p0, p0), tl.Uniform(3, schedule=tl.LinearSchedule(eps=0.0)), predicts=tl.Denoiser)
    x_0 = torch.tensor([[0, 1], [2, 2], [1, 0]])
    loss = head_loss.training_loss(oracle, objectives.CrossEntropy(), x_0, torch.ones(3))
    torch.testing.assert_close(loss.per_token, -p0.log()[x_0])
    torch.testing.assert_close(loss.mean, -p0.log()[x_0].mean())


def test_an_empty_batch_is_no_error() -> None:
    model = make(CASES[0])
    loss = head_loss.training_loss(
        model, objectives.CrossEntropy(), torch.zeros(0, L, dtype=torch.int64), torch.rand(0)
    )
    assert float(loss.mean.detach()) == 0


@every_case
def test_weights_may_be_of_either_precision(case: Case) -> None:
    model, (x_0, t) = make(case), batch(case)
    losses = [
        head_loss.training_loss(model, case[1], x_0, t, torch.Generator().manual_seed(3), weights=weights)
        for weights in (torch.ones(B, L), torch.ones(B, L).double())
    ]
    torch.testing.assert_close(losses[0].mean.float(), losses[1].mean.float())


def test_without_gradients_nothing_is_kept() -> None:
    case = CASES[0]
    model, (x_0, t) = make(case), batch(case)
    with torch.inference_mode():
        loss = head_loss.training_loss(model, objectives.CrossEntropy(), x_0, t)
    assert loss.per_token.shape == (B, L)
    assert not loss.mean.requires_grad


def test_every_objective_trains_some_process_and_every_process_has_one() -> None:
    assert {name for name, _, _ in TRAINED} == set(objectives.OBJECTIVES)
    assert {name for _, name, _ in TRAINED} == set(PROCESSES)
