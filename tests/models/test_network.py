"""How a network is called: its own, another's, compiled, data-parallel or a plain callable, each by the same rule."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import tokenloom as tl
from tokenloom.objectives import CrossEntropy, MarkovNELBO

K, L, B = 11, 6, 5


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return torch.randint(0, K, (B, L), generator=generator), 0.05 + 0.9 * torch.rand(B, generator=generator)


class Counted(nn.Linear):
    """A head that counts the rows it is asked about; not a plain Linear, so it says that it is linear."""

    is_linear = True
    rows = 0

    def __call__(self, features: Tensor) -> Any:
        self.rows += features.shape[:-1].numel()
        return super().__call__(features)


class Foreign(nn.Module):
    """A network of somebody else's: features and head, no class of `tokenloom.nn`."""

    length = 7
    timeless = True

    def __init__(self, head: nn.Module | None = None) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.table = nn.Embedding(K, 8)
        self.mix = nn.Linear(8, 8)
        self.head = Counted(8, K) if head is None else head

    def features(self, tokens: Tensor, time: Tensor) -> Tensor:
        x: Tensor = self.table(tokens)
        mixed: Tensor = torch.tanh(self.mix(x + x.mean(1, keepdim=True)))
        return mixed

    def forward(self, tokens: Tensor, time: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(tokens, time))
        return logits


class Split(Foreign):
    """One that a wrapper can ask for features."""

    num_outputs = K

    def forward(self, tokens: Tensor, time: Tensor, features_only: bool = False) -> Tensor:
        features = self.features(tokens, time)
        logits: Tensor = features if features_only else self.head(features)
        return logits


def trained(network: Callable[..., Any], inner: nn.Module) -> tuple[tl.Loss, dict[str, Tensor]]:
    """The loss of a model with this network, and the gradient of every parameter of the network inside it."""
    inner.zero_grad()
    model, (x_0, t) = tl.DiffusionModel(network, tl.Uniform(K)), batch()
    loss = tl.training_loss(model, CrossEntropy(), x_0, t, torch.Generator().manual_seed(9))
    torch.autograd.backward(loss.mean)
    return loss, {name: part.grad.clone() for name, part in inner.named_parameters() if part.grad is not None}


def drawn(network: Callable[..., Any]) -> Tensor:
    model = tl.DiffusionModel(network, tl.Uniform(K))
    return tl.sample(model, 4, length=L, steps=6, generator=torch.Generator().manual_seed(4))


def check_same(network: Callable[..., Any], inner: Foreign, calls: Callable[[], int] = lambda: 0) -> tuple[int, int]:
    """It trains and draws as a plain callable, which computes every logit; the rows of its head, and calls, in each."""

    def plain(tokens: Tensor, time: Tensor) -> Tensor:
        return inner(tokens, time)  # type: ignore[no-any-return]

    (expected, slopes), tokens = trained(plain, inner), drawn(plain)
    counted = inner.head if isinstance(inner.head, Counted) else Counted(8, K)
    counted.rows = 0
    found, gradients = trained(network, inner)
    assert counted.rows == 0, "training takes the head apart"
    after_training = calls()
    torch.testing.assert_close(found.per_token, expected.per_token)
    assert gradients.keys() == slopes.keys()
    for name, slope in slopes.items():
        torch.testing.assert_close(gradients[name], slope)
    assert torch.equal(drawn(network), tokens)
    if counted is inner.head:
        assert id(tl.DiffusionModel(network, tl.Uniform(K)).linear_head) == id(counted)
        assert 0 < counted.rows < 6 * 4 * L
    return after_training, calls() - after_training


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("parallel", [False, True])
def test_a_compiled_or_data_parallel_network_is_called_itself_and_keeps_its_lazy_head(
    parallel: bool, process_group: None
) -> None:
    inner, calls = Split(), []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            calls.append(True)
            return graph.forward(*arguments)

        return run

    network: Any = DistributedDataParallel(inner) if parallel else torch.compile(inner, backend=backend)
    if parallel:
        network.register_forward_pre_hook(lambda module, arguments: calls.append(True))
    assert min(check_same(network, inner, lambda: len(calls))) > 0
    with pytest.raises(ValueError, match="takes 5 logits per position, but the network has 11"):
        tl.DiffusionModel(network, tl.Uniform(5))
    torch.compiler.reset()


class Capped(nn.Linear):
    """A head that is no longer linear."""

    def forward(self, features: Tensor) -> Tensor:
        return torch.tanh(super().forward(features))


@pytest.mark.parametrize(
    ("head", "linear"),
    [
        (nn.Linear(8, K, bias=False), True),
        (Capped(8, K), False),
        (nn.Sequential(nn.Linear(8, K)), False),
        (nn.LayerNorm(8), False),
    ],
    ids=["without bias", "overridden", "sequential", "norm"],
)
def test_only_a_linear_head_is_taken_apart(head: nn.Module, linear: bool) -> None:
    assert (tl.DiffusionModel(Foreign(head), tl.Uniform(K)).linear_head is not None) == linear


@pytest.mark.parametrize("head", [None, nn.Linear(8, K, bias=False), Capped(8, K)], ids=str)
def test_a_network_of_somebody_else_s_uses_its_head_lazily_whatever_it_is(head: nn.Module | None) -> None:
    network = Foreign(head)
    check_same(network, network)
    model = tl.DiffusionModel(network, tl.Uniform(K))
    assert (model.length, model.timeless) == (7, True)


def test_a_plain_callable_trains_and_is_sampled() -> None:
    table = torch.randn(K, K, generator=torch.Generator().manual_seed(5), requires_grad=True)
    seen: list[Tensor] = []

    def network(tokens: Tensor, time: Tensor) -> Tensor:
        seen.append(time)
        return table[tokens] + time[:, None, None]

    model, (x_0, t) = tl.DiffusionModel(network, tl.Uniform(K)), batch()
    loss = tl.training_loss(model, MarkovNELBO(), x_0, t, torch.Generator().manual_seed(9))
    assert torch.autograd.grad(loss.mean, table)[0].abs().sum() > 0
    assert torch.equal(seen[0], t)
    assert (model.length, model.timeless, model.linear_head, model.device) == (None, False, None, None)
    with torch.no_grad():
        tokens = tl.sample(model, 3, length=L, steps=4, generator=torch.Generator().manual_seed(4))
    assert tokens.shape == (3, L)
    assert len(seen) > 2
