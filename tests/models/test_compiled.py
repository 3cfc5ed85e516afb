"""A compiled network predicts, draws and learns what it did before, and each layout is compiled once."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from threading import Thread

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

import tokenloom as tl
from tests.nn.test_networks import awake
from tokenloom.models import compiled
from tokenloom.nn import DiT, Transformer, TransformerConfig

K, L = 7, 5
Cell = Callable[..., tl.Process]
PROCESSES: list[Cell] = [tl.Uniform, tl.Masked, tl.AbsorbingUniform, tl.MaxCoupling, tl.Hybrid]

pytestmark = [
    pytest.mark.usefixtures("as_a_user", "traced"),
    # PyTorch's own, while it traces the shape checks of the tests and loads its code generator
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
]


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are captured and run as they are; generating code takes a compiler and seconds for each."""
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")
    monkeypatch.setattr(compiled, "_SIZES", {})


def network_of(process: tl.Process) -> Transformer:
    config = TransformerConfig(
        K, process.input_states, L, width=8, depth=1, heads=2, condition=4, dropout=0.0,
        absorbing=process.shows_auxiliary,
    )  # fmt: skip
    return awake(DiT(config))


def model_of(kind: Cell) -> tl.DiffusionModel:
    process = kind(K)
    return tl.DiffusionModel(network_of(process), process, predicts=process.preferred)


def both(kind: Cell) -> tuple[tl.DiffusionModel, tl.DiffusionModel]:
    plain = model_of(kind)
    other = deepcopy(plain)
    other.compile()
    return plain, other


def state(model: tl.DiffusionModel, rows: int) -> tl.Noisy:
    generator = torch.Generator().manual_seed(rows)
    x_0 = torch.randint(K - 1, (rows, L), generator=generator)
    return model.process.corrupt(x_0, torch.linspace(0.1, 0.9, rows, dtype=torch.float64), generator)


@pytest.mark.parametrize("kind", PROCESSES)
def test_features_and_logits_of_any_number_of_rows_are_those_of_the_network(kind: Cell) -> None:
    plain, other = both(kind)
    with torch.no_grad():
        for rows in (6, 5, 4, 1, 2, 0):
            noisy = state(plain, rows)
            features = plain.body(noisy)
            torch.testing.assert_close(other.body(noisy), features)
            torch.testing.assert_close(other.head(features.flatten(0, 1)), plain.head(features.flatten(0, 1)))


@pytest.mark.parametrize("top_p", [1.0, 0.8])
@pytest.mark.parametrize("kind", PROCESSES)
def test_the_same_tokens_are_drawn(kind: Cell, top_p: float) -> None:
    drawn = [tl.sample(model, 5, steps=6, generator=tl.RowGenerators.spawn(3, 5), top_p=top_p) for model in both(kind)]
    assert torch.equal(*drawn)


@pytest.mark.parametrize("kind", [tl.Uniform, tl.AbsorbingUniform])
def test_a_network_that_its_owner_compiled_draws_the_same(kind: Cell) -> None:
    plain = model_of(kind)
    other = tl.DiffusionModel(torch.compile(plain.network, backend="eager"), plain.process, predicts=plain.predicts)
    drawn = [tl.sample(model, 5, steps=6, generator=tl.RowGenerators.spawn(3, 5)) for model in (plain, other)]
    assert torch.equal(*drawn)


def test_a_layout_is_compiled_once_and_sizes_that_fit_share_one() -> None:
    model = both(tl.Uniform)[1]

    def sizes() -> list[int]:
        (known,) = compiled._SIZES.values()
        return sorted(known)

    with torch.no_grad():
        model.body(state(model, 6))
        assert sizes() == [6]
        for rows in (5, 4, 6):  # which 6 is at most half as much again as
            model.body(state(model, rows))
        assert sizes() == [6]
        model.body(state(model, 2))
        assert sizes() == [2, 6]
        before = counters["stats"]["unique_graphs"]
        for rows in (6, 5, 2):
            model.body(state(model, rows))
        assert counters["stats"]["unique_graphs"] == before


@pytest.mark.parametrize("order", [1, -1])
def test_any_order_of_sizes_takes_few_of_them(order: int) -> None:
    numbers = range(1, 1001)[::order]
    found = [compiled.fitting_size("a layout", rows) for rows in numbers]
    assert all(rows <= size <= 1.5 * rows for rows, size in zip(numbers, found, strict=True))
    assert len(set(found)) < 20


def test_threads_keep_the_compiled_code_too() -> None:
    model, limits = both(tl.Uniform)[1], []

    def work() -> None:
        from torch._dynamo import config

        with torch.no_grad():
            model.body(state(model, 3))
        limits.append(config.cache_size_limit)

    for _ in range(2):
        thread = Thread(target=work)
        thread.start()
        thread.join()
    assert limits == [compiled.MOST_CODE] * 2


def test_a_head_that_is_a_method_remembers_its_sizes() -> None:
    class Network(torch.nn.Module):
        length = L

        def features(self, tokens: Tensor, time: Tensor) -> Tensor:
            return torch.nn.functional.one_hot(tokens, K).double()

        def head(self, features: Tensor) -> Tensor:
            return 2 * features

        def forward(self, tokens: Tensor, time: Tensor) -> Tensor:
            return self.head(self.features(tokens, time))

    model = tl.DiffusionModel(Network(), tl.Uniform(K))
    model.compile()
    with torch.no_grad():
        for rows in (6, 5, 4):
            torch.testing.assert_close(model.head(torch.eye(rows, K).double()), 2 * torch.eye(rows, K).double())
    assert list(compiled._SIZES.values()) == [{6}]


def test_a_network_that_returns_something_else_still_gets_its_sentence() -> None:
    model = tl.DiffusionModel(lambda tokens, time: {"logits": tokens}, tl.Uniform(K))
    model.compile()
    with pytest.raises(ValueError, match="got a dict; pass a function that returns its logits"):
        model.predict(state(model_of(tl.Uniform), 2))


def test_a_wrapped_network_is_named() -> None:
    model = tl.DiffusionModel(torch.compile(model_of(tl.Uniform).network, backend="eager"), tl.Uniform(K))
    with pytest.raises(ValueError, match="the network is wrapped in a OptimizedModule already"):
        model.compile()


def test_a_second_run_compiles_nothing() -> None:
    model = both(tl.Uniform)[1]
    sampler = tl.Sampler(steps=8)
    sampler.run(model, 4, generator=torch.Generator().manual_seed(0))
    before = counters["stats"]["unique_graphs"]
    assert before
    sampler.run(model, 4, generator=torch.Generator().manual_seed(0))
    assert counters["stats"]["unique_graphs"] == before


def test_a_copy_uses_its_own_weights_and_the_compiled_code() -> None:
    model = both(tl.Uniform)[1]
    noisy = state(model, 3)
    with torch.no_grad():
        model.body(noisy)
        other, before = deepcopy(model), counters["stats"]["unique_graphs"]
        for parameter in other.parameters():
            parameter.mul_(1.5)
        found = other.body(noisy)
        assert counters["stats"]["unique_graphs"] == before
        other.compiled = False
        torch.testing.assert_close(found, other.body(noisy))


def test_another_process_keeps_it_compiled() -> None:
    model = both(tl.Masked)[1]
    assert model.with_process(tl.Masked(K, schedule=tl.CosineSchedule())).compiled


@pytest.mark.parametrize("objective", [tl.objectives.CrossEntropy(), tl.objectives.NELBO()])
def test_the_same_gradients_are_learnt_from(objective: tl.objectives.Objective) -> None:
    x_0, t = torch.randint(K, (4, L)), torch.rand(4)
    found: list[list[Tensor]] = []
    for model in both(tl.Uniform):
        loss = tl.training_loss(model, objective, x_0, t, torch.Generator().manual_seed(1))
        found.append(list(torch.autograd.grad(loss.mean, list(model.parameters()))))
    for plain, other in zip(*found, strict=True):
        torch.testing.assert_close(plain, other)


def test_a_plain_callable_is_compiled_too() -> None:
    table = torch.randn(K, K, dtype=torch.float64)

    def network(tokens: Tensor, time: Tensor) -> Tensor:
        return table[tokens] * time[:, None, None]

    drawn = []
    for compile_it in (False, True):
        model = tl.DiffusionModel(network, tl.Uniform(K))
        if compile_it:
            model.compile()
        drawn.append(tl.sample(model, 4, length=L, steps=5, generator=tl.RowGenerators.spawn(0, 4)))
    assert torch.equal(*drawn)


def test_it_is_saved_as_the_network_it_is(tmp_path: Path) -> None:
    plain, other = both(tl.Uniform)
    plain.save(tmp_path / "plain")
    other.save(tmp_path / "other")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_options_of_torch_compile_are_named() -> None:
    with pytest.raises(ValueError, match=r"compile takes no options here, got mode; compile the network itself"):
        model_of(tl.Uniform).compile(mode="max-autotune")


def test_generated_code_predicts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiler that users get."""
    monkeypatch.setattr(compiled, "BACKEND", "inductor")
    plain, other = both(tl.Uniform)
    with torch.no_grad():
        noisy = state(plain, 4)
        # times and positions are float32 whatever the network is, and sines of large angles differ in the last digit
        torch.testing.assert_close(other.body(noisy), plain.body(noisy), rtol=0, atol=1e-4)
