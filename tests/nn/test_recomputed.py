"""Layers computed without a call give what the call gives, and keep no more than they need."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.nn.test_networks import SMALL, K, L, awake, tokens
from tokenloom.nn import CausalTransformer, DiT, HollowTransformer, Transformer
from tokenloom.nn.block import Block
from tokenloom.nn.linear import FEW, LARGE, Recomputed, linear

BATCH, LENGTH, WIDTH = 2, 3, 8


def normalised(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    return F.layer_norm(x, (WIDTH,), weight) * (1 + scale)


CASES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "an activation": (F.gelu, (torch.randn(BATCH, LENGTH, WIDTH),)),
    "a norm": (normalised, (torch.randn(BATCH, LENGTH, WIDTH), torch.randn(WIDTH), torch.randn(BATCH, 1, WIDTH))),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_the_parts(case: str, bias: bool) -> None:
    function, values = CASES[case]
    linear, inputs = nn.Linear(WIDTH, 5, bias=bias), [value.clone().requires_grad_() for value in values]
    wanted = [*inputs, *linear.parameters()]
    lean, plain = Recomputed(function, tuple(inputs)).through(linear), linear(function(*inputs))
    assert torch.equal(lean, plain)
    found, expected = (torch.autograd.grad(value.square().sum(), wanted) for value in (lean, plain))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_what_needs_no_gradient_gets_none() -> None:
    x, weight = torch.randn(BATCH, LENGTH, WIDTH), torch.randn(WIDTH, requires_grad=True)
    linear, scale = nn.Linear(WIDTH, 5).requires_grad_(False), torch.zeros(1)
    lean, plain = Recomputed(normalised, (x, weight, scale)).through(linear), linear(normalised(x, weight, scale))
    found, expected = (torch.autograd.grad(value.square().sum(), weight)[0] for value in (lean, plain))
    torch.testing.assert_close(found, expected)
    assert [each is None for each, _ in lean.grad_fn.next_functions][:2] == [True, True]  # type: ignore[union-attr]


class Doubled(nn.Linear):
    def forward(self, features: Tensor) -> Tensor:
        return 2 * super().forward(features)


@pytest.mark.parametrize("recompute", [True, False])
def test_a_layer_that_was_replaced_or_hooked_into_is_called(recompute: bool) -> None:
    """Be its input computed again, or its large matrix multiplied from the left."""
    x, own, plain = torch.randn(2, WIDTH, requires_grad=recompute), Doubled(WIDTH, LARGE), nn.Linear(WIDTH, LARGE)
    with torch.set_grad_enabled(recompute):
        plain.register_forward_hook(lambda module, inputs, output: 3 * output)
        for layer, expected in ((own, own(F.gelu(x))), (plain, 3 * F.linear(F.gelu(x), plain.weight, plain.bias))):
            found = Recomputed(F.gelu, (x,)).through(layer) if recompute else linear(layer, F.gelu(x))
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 2, FEW, FEW + 1])
def test_few_rows_give_what_the_layer_gives(rows: int, bias: bool) -> None:
    layer, x = nn.Linear(8, LARGE, bias=bias).double(), torch.randn(rows, 8).double()
    with torch.no_grad():
        found = linear(layer, x)
        torch.testing.assert_close(found, layer(x))
    assert found.is_contiguous()
    assert linear(layer, x).requires_grad  # a gradient goes through the layer


def test_mixed_precision_is_that_of_the_forward_pass() -> None:
    seen: list[torch.dtype] = []
    x, matrix = torch.randn(BATCH, LENGTH, WIDTH, requires_grad=True), torch.randn(WIDTH, WIDTH)
    linear = nn.Linear(WIDTH, 5)

    def product(features: Tensor) -> Tensor:
        result = features @ matrix
        seen.append(result.dtype)
        return result

    with torch.autocast("cpu", torch.bfloat16):
        lean = Recomputed(product, (x,)).through(linear)
        plain = linear(x @ matrix)
    found, expected = (torch.autograd.grad(value.float().square().sum(), [x, linear.weight]) for value in (lean, plain))
    assert seen == [torch.bfloat16] * 2
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() < 0.02 * other.norm()


def test_a_norm_that_was_replaced_or_hooked_into_is_called() -> None:
    network, x, t = awake(DiT(SMALL)), tokens(), torch.rand(3, dtype=torch.float64)
    before = network(x, t)
    block = next(module for module in network.modules() if isinstance(module, Block))
    handle = block.norm_mlp.register_forward_hook(lambda module, inputs, output: output + 1)
    assert (network(x, t) - before).abs().max() > 1e-3
    handle.remove()
    torch.testing.assert_close(network(x, t), before)
    biased = nn.LayerNorm(SMALL.width).double()
    biased.weight.data.copy_(block.norm_mlp.weight)
    nn.init.constant_(biased.bias, 1.0)
    block.norm_mlp = biased
    assert (network(x, t) - before).abs().max() > 1e-3


def kept(network: Transformer) -> int:
    """Numbers that a forward pass keeps for the backward pass, parameters left out; a tensor counts once."""
    own = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    found: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if tensor.is_floating_point() and storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        keep: Any = network.features(tokens(), torch.rand(3, dtype=torch.float64))
    assert keep.requires_grad
    return sum(found.values())


@pytest.mark.parametrize("kind", [DiT, CausalTransformer, HollowTransformer])
def test_recomputed_blocks_give_the_same_gradients_from_less_memory(kind: type[Transformer]) -> None:
    network = awake(kind(SMALL)).train()
    x, t = tokens(), torch.rand(3, dtype=torch.float64)
    gradients = []
    memory = []
    for recompute in (False, True):
        for block in (module for module in network.modules() if isinstance(module, Block)):
            block.recompute = recompute
        memory.append(kept(network))
        network.zero_grad()
        network(x, t).square().sum().backward()
        gradients.append([parameter.grad for parameter in network.parameters()])
    assert memory[1] < 0.4 * memory[0]
    for plain, again in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, again)


def test_a_block_keeps_no_more_than_it_needs() -> None:
    """Per position: x twice, q, k, v, what was attended and its projection, the hidden layer and its projection."""
    network = awake(DiT(SMALL)).train()
    size = 3 * L * SMALL.width
    small = 4 * 3 * SMALL.width * 8 + K  # of a row or a head, not of a position
    per_block = (kept(network) - kept_outside(network)) / SMALL.depth
    assert per_block <= 13 * size + small


def kept_outside(network: Transformer) -> int:
    """What a network without blocks keeps."""
    blocks, network.blocks = network.blocks, nn.ModuleList()
    try:
        return kept(network)
    finally:
        network.blocks = blocks
