"""How a network is called: its own, another's, compiled, data-parallel or a plain callable, each by the same rule."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import tokenloom as tl
from tokenloom.models.network import NetworkCall, unwrapped
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


def losses(network: Callable[..., Any]) -> tuple[tl.Loss, dict[str, Tensor]]:
    """The loss of a model with this network, and the gradient of every parameter by the end of its name."""
    model, (x_0, t) = tl.DiffusionModel(network, tl.Uniform(K)), batch()
    loss = tl.training_loss(model, CrossEntropy(), x_0, t, torch.Generator().manual_seed(9))
    torch.autograd.backward(loss.mean)
    inner = unwrapped(network)
    named = inner.named_parameters() if isinstance(inner, nn.Module) else []
    return loss, {name: part.grad.clone() for name, part in named if part.grad is not None}


def drawn(network: Callable[..., Any]) -> Tensor:
    model = tl.DiffusionModel(network, tl.Uniform(K))
    generator = torch.Generator().manual_seed(4)
    return tl.sample(model, 4, length=L, steps=6, generator=generator)


class Backend:
    """A compiler that changes nothing and counts how often its graphs run."""

    calls = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            self.calls += 1
            return graph.forward(*arguments)

        return run


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def check_wrapped(wrap: Callable[[nn.Module], Callable[..., Any]], calls: Callable[[], int]) -> None:
    """Called itself in training and in sampling, with the numbers of the network inside it, and with its lazy head."""
    expected, slopes = losses(Split())
    inner = Split()
    head, network = inner.head, wrap(inner)
    assert isinstance(head, Counted)
    assert id(NetworkCall(network).linear_head) == id(head)
    found, gradients = losses(network)
    after_training = calls()
    assert after_training > 0
    assert head.rows == 0, "training takes the head apart"
    torch.testing.assert_close(found.per_token, expected.per_token)
    assert gradients.keys() == slopes.keys()
    for name, slope in slopes.items():
        torch.testing.assert_close(gradients[name], slope)
    assert torch.equal(drawn(network), drawn(Split()))
    assert calls() > after_training
    assert 0 < head.rows < 6 * 4 * L
    with pytest.raises(ValueError, match="takes 5 logits per position, but the network has 11"):
        tl.DiffusionModel(network, tl.Uniform(5))


def test_a_compiled_network_is_called_itself_and_keeps_its_lazy_head() -> None:
    backend = Backend()
    check_wrapped(lambda inner: torch.compile(inner, backend=backend), lambda: backend.calls)
    torch.compiler.reset()


def test_a_data_parallel_network_is_called_itself_and_keeps_its_lazy_head(process_group: None) -> None:
    calls: list[bool] = []

    def wrap(inner: nn.Module) -> nn.Module:
        network = DistributedDataParallel(inner)
        network.register_forward_pre_hook(lambda module, arguments: calls.append(True))
        return network

    check_wrapped(wrap, lambda: len(calls))


def test_a_network_of_somebody_else_s_uses_its_lazy_head() -> None:
    """The whole head in training only in chunks, without a call; in sampling the rows of the positions drawn."""
    network = Foreign()
    model = tl.DiffusionModel(network, tl.Uniform(K))
    assert (model.length, model.timeless, id(model.linear_head)) == (7, True, id(network.head))
    plain = losses(lambda tokens, time: network(tokens, time))[0]
    head = network.head
    assert isinstance(head, Counted)
    head.rows = 0
    found, slopes = losses(network)
    assert head.rows == 0
    torch.testing.assert_close(found.per_token, plain.per_token)
    assert slopes["head.weight"].abs().max() > 0
    tokens = drawn(network)
    assert 0 < head.rows < 6 * 4 * L
    assert torch.equal(tokens, drawn(lambda tokens, time: network(tokens, time)))


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
    assert (NetworkCall(Foreign(head)).linear_head is not None) == linear


@pytest.mark.parametrize("head", [nn.Linear(8, K, bias=False), Capped(8, K)], ids=["without bias", "overridden"])
def test_the_loss_is_that_of_the_logits_whatever_the_head(head: nn.Module) -> None:
    network = Foreign(head)
    expected, slopes = losses(lambda tokens, time: network(tokens, time))
    dense = {name: part.grad.clone() for name, part in network.named_parameters() if part.grad is not None}
    network.zero_grad()
    found, slopes = losses(network)
    torch.testing.assert_close(found.per_token, expected.per_token)
    assert slopes.keys() == dense.keys()
    for name, slope in dense.items():
        torch.testing.assert_close(slopes[name], slope)


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
