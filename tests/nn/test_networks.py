"""What each network may see, how large it is, and that its parts do what they are for."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

import tokenloom as tl
from tokenloom.nn import (
    CausalTransformer,
    DiT,
    HollowTransformer,
    Task,
    Transformer,
    TransformerConfig,
    TransformerOptions,
)
from tokenloom.nn.conditioning import Fusion
from tokenloom.sudoku.network import GridNetwork, grid_relations

K, L = 7, 10
SMALL = TransformerConfig(K, K, L, width=16, depth=2, heads=2, condition=8, dropout=0.0)
NETWORKS = [DiT, CausalTransformer, HollowTransformer]


def awake(network: Transformer, seed: int = 0) -> Transformer:
    """Weights away from zero, so that every path is open."""
    torch.manual_seed(seed)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.4)
    return network.double().eval()


def tokens(batch: int = 3) -> Tensor:
    return torch.randint(0, K, (batch, L), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def reloaded(model: tl.DiffusionModel[Any], noisy: tl.Noisy, folder: Path) -> tl.DiffusionModel[Any]:
    """The model after saving and loading: it predicts the same in every bit."""
    model.save(folder / "model")
    loaded = tl.load(folder / "model")
    assert isinstance(loaded, tl.DiffusionModel)
    assert torch.equal(model.predict(noisy).logits, loaded.predict(noisy).logits)  # type: ignore[attr-defined]
    return loaded


@torch.no_grad()
def sensitivity(logits: Callable[[Tensor], Tensor], x: Tensor, size: int, first: int = 0) -> Tensor:
    """How much output i moves, at most, when input j becomes another of `size` tokens: [output, input]."""
    before, moved = logits(x), []
    for position in range(x.shape[1]):
        changes = []
        for shift in range(1, size):
            perturbed = x.clone()
            perturbed[:, position] = first + (perturbed[:, position] - first + shift) % size
            changes.append((logits(perturbed) - before).abs().amax((0, 2)))
        moved.append(torch.stack(changes).amax(0))
    return torch.stack(moved, 1)


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_parameter_counts_at_the_paper_s_size() -> None:
    """About 170M for DiT, and 7M (4%) more with the absorbing sequence."""
    paper = TransformerConfig(50257, 50257, 1024)
    with torch.device("meta"):
        plain, absorbing = DiT(paper), DiT(replace(paper, absorbing=True))
    assert count(plain) == pytest.approx(170e6, rel=0.01)
    assert count(absorbing) - count(plain) == pytest.approx(7e6, rel=0.02)
    assert count(absorbing) / count(plain) - 1 == pytest.approx(0.04, abs=0.003)


@pytest.mark.parametrize(
    ("kind", "sees", "least"),
    [
        (DiT, torch.ones(L, L), 1e-6),
        (HollowTransformer, 1 - torch.eye(L), 1e-6),
        (CausalTransformer, torch.ones(L, L).tril(-1), 1e-9),
    ],
    ids=["all", "all but its own", "those before"],
)
def test_an_output_depends_on_the_inputs_it_may_see(kind: type[Transformer], sees: Tensor, least: float) -> None:
    """By perturbation, exactly 0 elsewhere, for every token at every position."""
    network, t = awake(kind(SMALL)), torch.rand(3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    change = sensitivity(lambda x: network(x, t), tokens(), K)
    assert bool((change[sees == 0] == 0).all())
    assert bool((change[sees == 1] > least).all())


@pytest.mark.parametrize("kind", NETWORKS)
def test_head_at_chosen_positions_gives_the_logits_there(kind: type[Transformer]) -> None:
    network = awake(kind(SMALL))
    x, t = tokens(), torch.rand(3, dtype=torch.float64)
    chosen = torch.tensor([1, 4])
    torch.testing.assert_close(network.head(network.features(x, t)[:, chosen]), network(x, t)[:, chosen])


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_new_network_predicts_the_uniform_law(kind: type[Transformer]) -> None:
    assert kind(SMALL)(tokens(), torch.rand(3)).abs().max() == 0


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("times", [(0.1, 0.9), (0.010, 0.011)])
def test_time_matters_unless_switched_off(kind: type[Transformer], times: tuple[float, float]) -> None:
    x, (early, late) = tokens(), (torch.full((3,), t, dtype=torch.float64) for t in times)
    network, timeless = awake(kind(SMALL)), awake(kind(replace(SMALL, time=False)))
    assert (network(x, early) - network(x, late)).abs().max() > 1e-3
    assert torch.equal(timeless(x, early), timeless(x, late))


def test_absorbing_sequence_and_given_positions_are_seen() -> None:
    network = awake(DiT(replace(SMALL, absorbing=True, given=True)))
    x, t = tokens(), torch.rand(3, dtype=torch.float64)
    u = (x + 1) % K
    given = torch.zeros(3, L, dtype=torch.bool)
    base = network(x, t, u, given)
    assert (network(x, t, x, given) - base).abs().max() > 1e-3
    assert (network(x, t, u, ~given) - base).abs().max() > 1e-3


def fused(w: dict[str, Tensor], x: Tensor, u: Tensor, fusion: str) -> Tensor:
    """Each fusion by its formula, one sum of products per input."""
    own = w["absorbing.weight"] if fusion == "separate_linear" else w["table.weight"]
    one_x, one_u, same = one_hot(x, K).double(), one_hot(u, K).double(), (x == u).double()

    def linear(name: str) -> Tensor:
        of_x, of_u, of_match = torch.split(w[f"{name}weight"], [SMALL.width, SMALL.width, 1], 1)
        product = "blk,kd,hd->blh"
        said = torch.einsum(product, one_x, w["table.weight"], of_x) + torch.einsum(product, one_u, own, of_u)
        return said + torch.einsum("bl,hd->blh", same, of_match) + w[f"{name}bias"]

    if fusion == "separate_linear":
        return linear("mix.")
    hidden = linear("mix.0.")
    hidden = hidden / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    mixed = torch.einsum("blh,dh->bld", hidden, w["mix.2.weight"]) + w["mix.2.bias"]
    return mixed + torch.where((x != u).unsqueeze(-1), w["table.weight"][x], 0) if fusion == "gated" else mixed


@pytest.mark.parametrize("fusion", get_args(Fusion))
def test_the_absorbing_sequence_is_fused_as_its_formula_says(fusion: Fusion) -> None:
    embedding = awake(DiT(replace(SMALL, absorbing=True, fusion=fusion))).embedding
    x = tokens()
    u = torch.where(x % 2 == 0, x, (x + 1) % K)
    assert (embedding(x, u, None) - fused(dict(embedding.state_dict()), x, u, fusion)).abs().max() < 1e-12


def test_a_fusion_without_the_absorbing_sequence_or_in_a_grid_network_is_refused() -> None:
    options = TransformerOptions(width=16, heads=2, fusion="separate_linear")
    plain = Task(K, K, L)
    with pytest.raises(ValueError, match="fusion separate_linear is for networks that read U; train with --method"):
        options.build(plain)
    assert isinstance(options.build(replace(plain, absorbing=True)), DiT)
    with pytest.raises(ValueError, match="a grid network reads U as flags"):
        GridNetwork(replace(GRID, absorbing=True, fusion="separate_linear"), grid_relations(4))


def test_relations_decide_who_is_heard() -> None:
    """With a strong bias on the row and none elsewhere, a cell hears its row only."""
    relations = grid_relations(4)
    assert relations.shape == (4, 16, 16)
    assert relations.sum((1, 2)).tolist() == [64, 64, 64, 16]
    network = DiT(GRID, relations)
    awake(network)
    (bias,) = (parameter for name, parameter in network.named_parameters() if name.endswith("attention.bias"))
    with torch.no_grad():
        bias.zero_()[:, 0] = 200.0
    x, t = torch.randint(0, 4, (1, 16)), torch.tensor([0.5], dtype=torch.float64)
    assert torch.equal(sensitivity(lambda x: network(x, t), x, 4) > 1e-9, relations[0])


GRID = TransformerConfig(4, 4, 16, width=16, depth=1, heads=2, condition=8, dropout=0.0, rotary=False)
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: DiT(replace(SMALL, width=15)), "width must be an even multiple of heads, got width 15 and heads 2"),
    (lambda: DiT(replace(SMALL, depth=0)), "depth must be at least 1, got 0"),
    (lambda: DiT(replace(SMALL, num_states=K + 2)), f"num_states must be {K} .*{K + 1}, got {K + 2}"),
    (lambda: DiT(replace(SMALL, dropout=1.0)), r"dropout must be in \[0, 1\), got 1.0"),
    (lambda: DiT(SMALL)(torch.zeros(1, L + 1).long(), torch.rand(1)), f"at most {L} positions, got {L + 1}"),
    (lambda: DiT(replace(SMALL, absorbing=True))(tokens(), torch.rand(3)), "on the absorbing sequence U"),
    (lambda: DiT(GRID, grid_relations(9)), r"relations .*\[kinds, 16, 16\], got \[4, 81, 81\]"),
    (lambda: grid_relations(8), "a grid has side 4, 6 or 9, got 8"),
]


@pytest.mark.parametrize(("make", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_what_does_not_fit_is_named(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_network_with_relations_reads_shorter_sequences() -> None:
    network = DiT(GRID, grid_relations(4))
    assert network(torch.zeros(2, 7, dtype=torch.int64), torch.rand(2)).shape == (2, 7, 4)
