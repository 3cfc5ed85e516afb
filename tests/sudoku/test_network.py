"""The grid network: it turns with the symmetries of the rules, and hears of every candidate that matters."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.nn.test_networks import awake
from tokenloom.nn import DiT, TransformerConfig
from tokenloom.objectives import CrossEntropy
from tokenloom.objectives.head_loss import training_loss
from tokenloom.sudoku.network import CandidateHead, GridNetwork, grid_relations, units_of
from tokenloom.sudoku.symmetries import draw_cell_moves

SMALL = TransformerConfig(6, 6, 36, width=8, depth=2, heads=1, condition=8, dropout=0.0, given=True, loops=2)
RELATIONS = grid_relations(6)
TIMES = torch.tensor([0.2, 0.7, 0.9], dtype=torch.float64)


def drawn(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, the absorbing sequence and the given cells of three grids."""
    tokens, absorbing = torch.randint(0, 6, (2, 3, 36), generator=generator)
    return tokens, absorbing, torch.rand(3, 36, generator=generator) < 0.4


@pytest.mark.parametrize("lifted", [False, True])
def test_relabelled_and_moved_grids_have_relabelled_and_moved_logits(lifted: bool, generator: torch.Generator) -> None:
    network = awake(GridNetwork(replace(SMALL, absorbing=lifted), RELATIONS))
    tokens, absorbing, given = drawn(generator)
    labels, moves = torch.randperm(6, generator=generator), draw_cell_moves(3, 6, generator, torch.device("cpu"))
    before = network(tokens, TIMES, absorbing if lifted else None, given)
    moved = [part.gather(1, moves) for part in (tokens, absorbing, given)]
    after = network(labels[moved[0]], TIMES, labels[moved[1]] if lifted else None, moved[2])
    expected = before.gather(1, moves.unsqueeze(-1).expand(-1, -1, 6))
    assert before.std() > 0.01
    torch.testing.assert_close(after[:, :, labels], expected, rtol=1e-9, atol=1e-9)


def test_one_round_reaches_the_peers_of_a_cell_and_no_other(generator: torch.Generator) -> None:
    network = awake(GridNetwork(replace(SMALL, depth=1, loops=1), RELATIONS))
    tokens, _, _ = drawn(generator)
    changed = tokens.clone()
    changed[:, 7] = (changed[:, 7] + 1) % 6
    reached = (network(changed, TIMES) - network(tokens, TIMES)).abs().amax((0, 2)) > 1e-9
    assert torch.equal(reached, RELATIONS[:, 7].any(0))


def test_what_the_network_is_conditioned_on_shows(generator: torch.Generator) -> None:
    network = awake(GridNetwork(replace(SMALL, absorbing=True), RELATIONS))
    tokens, absorbing, given = drawn(generator)
    before = network(tokens, TIMES, absorbing, given)
    for other in ((1 - TIMES, absorbing, given), (TIMES, (absorbing + 1) % 6, given), (TIMES, absorbing, ~given)):
        assert (network(tokens, *other) - before).abs().amax() > 1e-3


@pytest.mark.parametrize("kind", [DiT, GridNetwork])
def test_loops_apply_the_same_blocks_again(kind: type[DiT] | type[GridNetwork], generator: torch.Generator) -> None:
    config = replace(SMALL, rotary=False, heads=2, depth=1)
    once, twice = (awake(kind(replace(config, loops=loops), RELATIONS)) for loops in (1, 2))
    stacked = kind(replace(config, loops=1, depth=2), RELATIONS).double().eval()
    stacked.load_state_dict(once.state_dict(), strict=False)
    stacked.blocks[1].load_state_dict(stacked.blocks[0].state_dict())
    tokens, _, given = drawn(generator)
    assert sum(part.numel() for part in once.parameters()) == sum(part.numel() for part in twice.parameters())
    torch.testing.assert_close(twice(tokens, TIMES, None, given), stacked(tokens, TIMES, None, given))
    assert (twice(tokens, TIMES) - once(tokens, TIMES)).abs().amax() > 1e-3


def test_the_head_is_the_linear_map_its_matrix_says(generator: torch.Generator) -> None:
    network = awake(GridNetwork(SMALL, RELATIONS))
    tokens, _, given = drawn(generator)
    features = network.features(tokens, TIMES, None, given)
    assert isinstance(network.head, CandidateHead)
    torch.testing.assert_close(network.head(features), features @ network.head.weight.T)


def test_the_chunked_loss_has_the_gradient_of_the_whole(generator: torch.Generator) -> None:
    model = tl.DiffusionModel(awake(GridNetwork(SMALL, RELATIONS)), tl.Uniform(6))
    x_0, _, given = drawn(generator)
    loss = training_loss(model, CrossEntropy(), x_0, TIMES, torch.Generator().manual_seed(1), given)
    chunked = torch.autograd.grad(loss.mean, list(model.parameters()))
    noisy = model.process.corrupt(x_0, TIMES, torch.Generator().manual_seed(1), given)
    per_token = CrossEntropy().per_token(model.predict(noisy), x_0, noisy, model.process)
    whole = torch.autograd.grad(per_token[~given].mean(), list(model.parameters()))
    for first, second in zip(chunked, whole, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-6)


def test_wrong_grids_are_met_with_a_sentence(generator: torch.Generator) -> None:
    network, (tokens, _, _) = GridNetwork(SMALL, RELATIONS), drawn(generator)
    with pytest.raises(ValueError, match="reads grids of 36 cells, got 35"):
        network(tokens[:, 1:], TIMES)
    with pytest.raises(ValueError, match="conditioned on the absorbing sequence U"):
        GridNetwork(replace(SMALL, absorbing=True), RELATIONS)(tokens, TIMES)
    with pytest.raises(ValueError, match=r"equally many classes, got \[\]"):
        units_of(RELATIONS[3:])
    with pytest.raises(ValueError, match="loops must be at least 1, got 0"):
        replace(SMALL, loops=0)
    assert [len(part) for part in units_of(RELATIONS)] == [6, 6, 6]


def test_training_applies_the_loops_that_it_draws_and_evaluation_takes_them_all(generator: torch.Generator) -> None:
    """Of 40 draws some number of 2, 3 and 4 is missing with probability 3e-7; the seed decides which comes."""
    network = awake(GridNetwork(replace(SMALL, loops=4, fewest_loops=2), RELATIONS))
    tokens, _, given = drawn(generator)
    expected = {}
    for loops in (2, 3, 4):
        fixed = GridNetwork(replace(SMALL, loops=loops), RELATIONS).double().eval()
        fixed.load_state_dict(network.state_dict())
        expected[loops] = fixed(tokens, TIMES, None, given)
    assert all(torch.equal(network(tokens, TIMES, None, given), expected[4]) for _ in range(3))
    seen = set()
    for seed in range(40):
        torch.manual_seed(seed)
        seen.add(count := len(network.train().rounds()))
        torch.manual_seed(seed)
        found = network(tokens, TIMES, None, given)
        assert [loops for loops, other in expected.items() if torch.equal(found, other)] == [count]
    assert seen == {2, 3, 4}
    with pytest.raises(ValueError, match=r"fewest_loops must be in 1..4, the loops, got 5"):
        replace(SMALL, loops=4, fewest_loops=5)
