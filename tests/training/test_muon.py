"""Muon: directions against the singular value decomposition, steps against their law, and who is moved by it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import tokenloom as tl
from tests.training.helpers import tiny
from tokenloom.training.build import build_model
from tokenloom.training.muon import Muon, matrices_of, orthogonal
from tokenloom.training.setup import optimiser_of, prepare


@pytest.mark.parametrize("shape", [(8, 8), (32, 8), (8, 32), (1, 5), (48, 16)])
def test_a_direction_has_the_singular_vectors_of_its_matrix_and_singular_values_near_one(
    shape: tuple[int, int],
) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    U, S, V = torch.linalg.svd(matrix, full_matrices=False)
    found = U.T @ orthogonal(1e-3 * matrix) @ V.T  # the scale does not matter
    expected = torch.diag(found.diagonal())
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    large = S > 0.2 * S.max()
    assert bool((found.diagonal()[large] > 0.6).all())
    assert bool((found.diagonal() < 1.25).all())


def test_no_gradient_is_no_direction() -> None:
    assert torch.equal(orthogonal(torch.zeros(3, 4)), torch.zeros(3, 4))


def test_matrices_follow_the_law_and_the_rest_is_moved_as_by_adam_alone() -> None:
    generator = torch.Generator().manual_seed(2)
    start = [torch.randn(shape, generator=generator) for shape in ((6, 3), (5,), (4, 2))]
    weight, bias, table = (nn.Parameter(value.clone()) for value in start)
    alone = [nn.Parameter(value.clone()) for value in start[1:]]
    mine = Muon([bias, table], [weight], 0.1, (0.9, 0.999), 1e-8, 0.5)
    adam = torch.optim.AdamW(alone, lr=0.1, weight_decay=0.5)
    expected, momentum = start[0].clone(), torch.zeros(6, 3)
    for _ in range(3):
        gradients = [torch.randn(value.shape, generator=generator) for value in start]
        for parameter, gradient in zip((weight, bias, table), gradients, strict=True):
            parameter.grad = gradient
        for parameter, gradient in zip(alone, gradients[1:], strict=True):
            parameter.grad = gradient
        mine.step()
        adam.step()
        momentum = 0.95 * momentum + gradients[0]
        ahead = gradients[0] + 0.95 * momentum
        expected = expected * (1 - 0.1 * 0.5) - 0.1 * 0.2 * 6**0.5 * orthogonal(ahead)
    torch.testing.assert_close(weight.detach(), expected)
    assert all(torch.equal(one, other) for one, other in zip((bias, table), alone, strict=True))


@pytest.mark.parametrize("time", [True, False])
def test_matrices_are_the_linear_maps_between_hidden_vectors(time: bool) -> None:
    config = tl.nn.TransformerConfig(7, 7, 4, width=8, depth=2, heads=2, condition=4, time=time)
    network = tl.nn.DiT(config)
    names = {name for name, value in network.named_parameters() if any(value is each for each in matrices_of(network))}
    blocks = {
        f"blocks.{i}.{part}.weight" for i in (0, 1) for part in ("attention.qkv", "attention.out", "expand", "contract")
    }
    assert names == blocks | ({"time.mlp.0.weight", "time.mlp.2.weight"} if time else set())


def test_every_parameter_is_moved_once_and_a_model_in_parts_or_without_matrices_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(tmp_path, optimiser={"kind": "muon"})
    model = build_model(config, config.data.load())
    optimiser = optimiser_of(model, config)
    moved = [id(value) for group in optimiser.param_groups for value in group["params"]]
    assert sorted(moved) == sorted(map(id, model.parameters()))
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.ndim < 2)
    with pytest.raises(ValueError, match="muon moves matrices, and the network dit has none"):
        optimiser_of(model, config)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="needs whole matrices on each process"):
        prepare(model, replace(config, run=replace(config.run, strategy="fsdp")))
