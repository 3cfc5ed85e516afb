"""A compiled network predicts, draws and learns what it did before, and few versions of it are compiled."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from threading import Thread

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch._inductor import config as inductor

import tokenloom as tl
from tests.models.test_network import Foreign
from tests.nn.test_networks import awake
from tokenloom.models import compiled
from tokenloom.nn import DiT, TransformerConfig

K, L = 7, 5
Cell = Callable[..., tl.Process]

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


def model_of(kind: Cell) -> tl.DiffusionModel:
    process = kind(K)
    config = TransformerConfig(
        K, process.input_states, L, width=8, depth=1, heads=2, condition=4, dropout=0.0,
        absorbing=process.shows_auxiliary,
    )  # fmt: skip
    return tl.DiffusionModel(awake(DiT(config)), process, predicts=process.preferred)


def both(kind: Cell = tl.Uniform) -> tuple[tl.DiffusionModel, tl.DiffusionModel]:
    """A model, and a compiled copy of it."""
    plain = model_of(kind)
    other = deepcopy(plain)
    other.compile()
    return plain, other


def state(model: tl.DiffusionModel, rows: int) -> tl.Noisy:
    generator = torch.Generator().manual_seed(rows)
    x_0 = torch.randint(K - 1, (rows, L), generator=generator)
    return model.process.corrupt(x_0, torch.linspace(0.1, 0.9, rows, dtype=torch.float64), generator)


def drawn(model: tl.DiffusionModel, top_p: float = 1.0) -> Tensor:
    return tl.sample(model, 5, length=L, steps=6, generator=tl.RowGenerators.spawn(3, 5), top_p=top_p)


def graphs() -> int:
    """Versions compiled so far."""
    return int(counters["stats"]["unique_graphs"])


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Masked, tl.AbsorbingUniform])
def test_features_and_logits_of_any_number_of_rows_are_those_of_the_network(kind: Cell) -> None:
    plain, other = both(kind)
    with torch.no_grad():
        for rows in (6, 5, 4, 1, 2, 0):
            noisy = state(plain, rows)
            features = plain.body(noisy)
            torch.testing.assert_close(other.body(noisy), features)
            torch.testing.assert_close(other.head(features.flatten(0, 1)), plain.head(features.flatten(0, 1)))


@pytest.mark.parametrize("top_p", [1.0, 0.8])
@pytest.mark.parametrize("kind", [tl.Uniform, tl.Masked, tl.AbsorbingUniform, tl.MaxCoupling, tl.Hybrid])
def test_the_same_tokens_are_drawn(kind: Cell, top_p: float) -> None:
    assert torch.equal(*(drawn(model, top_p) for model in both(kind)))


@pytest.mark.parametrize("kind", [tl.Uniform, tl.AbsorbingUniform])
def test_a_network_that_its_owner_compiled_draws_the_same(kind: Cell) -> None:
    plain = model_of(kind)
    other = tl.DiffusionModel(torch.compile(plain.network, backend="eager"), plain.process, predicts=plain.predicts)
    assert torch.equal(*(drawn(model) for model in (plain, other)))
    with pytest.raises(ValueError, match="wrapped in a OptimizedModule already"):
        other.compile()


def test_any_number_of_rows_takes_three_versions_of_a_body_and_of_a_head() -> None:
    """The first number, any other, and a single row."""
    torch.compiler.reset()
    # without the shape checks of the tests, which cut a graph in pieces
    plain = tl.DiffusionModel(Foreign(nn.Linear(8, K)), tl.Uniform(K))
    model = deepcopy(plain)
    model.compile()
    with torch.no_grad():
        for part in ("body", "head"):
            before = graphs()
            for rows in (6, 5, 4, 6, 1, 2, 3, 8, 1, 7, 6):
                asked = state(model, rows) if part == "body" else torch.eye(rows, 8)
                torch.testing.assert_close(getattr(model, part)(asked), getattr(plain, part)(asked))
            assert 0 < graphs() - before <= 3


def test_threads_keep_more_versions_than_pytorch_does_on_its_own() -> None:
    """Ten networks of other sizes, in a thread, whose settings are its own: none of them compiles again."""
    torch.compiler.reset()
    heads = [nn.Linear(width, K) for width in range(2, 12)]
    found: list[int] = []

    def work() -> None:
        with torch.no_grad():
            for head in heads:
                features = torch.ones(3, head.in_features)
                before = graphs()
                torch.testing.assert_close(compiled.call(head, None, features), head(features))
                found.append(graphs() - before)

    for _ in range(2):
        thread = Thread(target=work)
        thread.start()
        thread.join()
    assert found == [1] * 10 + [0] * 10


def test_a_user_s_setting_is_raised_once_and_then_left_alone() -> None:
    import torch._dynamo.config as settings

    compiled.call(nn.Linear(2, K), None, torch.ones(3, 2))
    assert settings.cache_size_limit >= compiled.MOST_CODE
    with settings.patch(cache_size_limit=5):
        compiled.call(nn.Linear(2, K), None, torch.ones(3, 2))
        assert settings.cache_size_limit == 5


def test_a_network_that_returns_something_else_still_gets_its_sentence() -> None:
    model = tl.DiffusionModel(lambda tokens, time: {"logits": tokens}, tl.Uniform(K))
    model.compile()
    with pytest.raises(ValueError, match="got a dict; pass a function that returns its logits"):
        model.predict(state(model_of(tl.Uniform), 2))


def test_a_second_run_compiles_nothing() -> None:
    model, sampler = both()[1], tl.Sampler(steps=8)
    sampler.run(model, 4, generator=torch.Generator().manual_seed(0))
    before = graphs()
    assert before
    sampler.run(model, 4, generator=torch.Generator().manual_seed(0))
    assert graphs() == before


def test_a_copy_uses_its_own_weights_and_the_compiled_code() -> None:
    model = both()[1]
    noisy = state(model, 3)
    with torch.no_grad():
        model.body(noisy)
        other, before = deepcopy(model), graphs()
        for parameter in other.parameters():
            parameter.mul_(1.5)
        found = other.body(noisy)
        assert graphs() == before
        other.compiled = False
        torch.testing.assert_close(found, other.body(noisy))


@pytest.mark.parametrize("objective", [tl.objectives.CrossEntropy(), tl.objectives.NELBO()])
def test_the_same_gradients_are_learnt_from(objective: tl.objectives.Objective) -> None:
    x_0, t = torch.randint(K, (4, L)), torch.rand(4)
    found: list[list[Tensor]] = []
    for model in both():
        loss = tl.training_loss(model, objective, x_0, t, torch.Generator().manual_seed(1))
        found.append(list(torch.autograd.grad(loss.mean, list(model.parameters()))))
    for plain, other in zip(*found, strict=True):
        torch.testing.assert_close(plain, other)


def test_a_plain_callable_is_compiled_too() -> None:
    table = torch.randn(K, K, dtype=torch.float64)

    def network(tokens: Tensor, time: Tensor) -> Tensor:
        return table[tokens] * time[:, None, None]

    models = [tl.DiffusionModel(network, tl.Uniform(K)) for _ in range(2)]
    models[1].compile()
    assert torch.equal(*map(drawn, models))


def test_it_is_saved_as_the_network_it_is_and_another_process_keeps_it_compiled(tmp_path: Path) -> None:
    for name, model in zip(("plain", "other"), both(), strict=True):
        model.save(tmp_path / name)
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert both()[1].with_process(tl.Uniform(K, schedule=tl.CosineSchedule())).compiled


def test_options_of_torch_compile_are_named() -> None:
    with pytest.raises(ValueError, match=r"takes no options here, got mode; give them to torch.compile"):
        model_of(tl.Uniform).compile(mode="max-autotune")


def test_generated_code_predicts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiler that users get, on few operations: each takes it seconds."""
    monkeypatch.setattr(compiled, "BACKEND", "inductor")
    plain = tl.DiffusionModel(Foreign(nn.Linear(8, K)), tl.Uniform(K))
    other = deepcopy(plain)
    other.compile()
    with torch.no_grad(), inductor.patch({"cpp.simdlen": 0, "cpp_cache_precompile_headers": False}):
        for rows in (4, 3):  # code for one number of rows, and for any
            noisy = state(plain, rows)
            features = plain.body(noisy)
            torch.testing.assert_close(other.body(noisy), features)
            torch.testing.assert_close(other.head(features.flatten(0, 1)), plain.head(features.flatten(0, 1)))
