"""Several answers of a network with loops: what they are, what they train, and what changes where there is one."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.nn.test_networks import awake
from tests.training.helpers import tiny, train, weights
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.models.network import unwrapped
from tokenloom.nn import CausalTransformer, DiT, TransformerConfig
from tokenloom.nn.transformer import Transformer
from tokenloom.objectives import CrossEntropy
from tokenloom.objectives.head_loss import loss_at
from tokenloom.training.batches import Batch
from tokenloom.training.methods import method_of
from tokenloom.training.setup import batch_loss

SMALL = TransformerConfig(5, 5, 8, width=8, depth=1, heads=2, condition=8, dropout=0.0, loops=6)
TIMES = torch.tensor([0.2, 0.7, 0.9], dtype=torch.float64)


def network(**changes: int | bool | None) -> Transformer:
    torch.manual_seed(0)
    return awake(DiT(replace(SMALL, **changes)))  # type: ignore[arg-type]


def drawn(generator: torch.Generator) -> Tensor:
    return torch.randint(0, 5, (3, 8), generator=generator)


@pytest.mark.parametrize(("every", "loops"), [(None, [6]), (1, [1, 2, 3, 4, 5, 6]), (2, [2, 4, 6]), (4, [4, 6])])
def test_an_answer_is_that_of_the_network_with_so_many_loops(
    every: int | None, loops: list[int], generator: torch.Generator
) -> None:
    tokens, answering = drawn(generator), network(answer_every=every)
    stages = list(answering.stages(tokens, TIMES))
    assert len(stages) == len(loops)
    for found, count in zip(stages, loops, strict=True):
        assert torch.equal(found, network(loops=count).features(tokens, TIMES))
        assert torch.equal(found, answering.with_loops(count).features(tokens, TIMES))
    assert (stages[-1] - stages[0]).abs().amax() > 1e-3 or len(loops) == 1


def test_an_answer_trains_the_loops_since_the_one_before(generator: torch.Generator) -> None:
    """The tokens reach the first answer with a gradient, and the others only without."""
    answering = network(answer_every=2, time=False)
    named = dict(answering.named_parameters())
    table, block = named["embedding.table.weight"], named["blocks.0.expand.weight"]
    first, *others = answering.stages(drawn(generator), TIMES)
    assert torch.autograd.grad(first.square().sum(), table, retain_graph=True)[0].abs().sum() > 0
    for stage in others:
        assert torch.autograd.grad(stage.square().sum(), table, allow_unused=True, retain_graph=True)[0] is None
        assert torch.autograd.grad(stage.square().sum(), block, retain_graph=True)[0].abs().sum() > 0


@pytest.mark.parametrize("every", [None, 2])
def test_the_loss_is_the_mean_over_the_answers(every: int | None, generator: torch.Generator) -> None:
    model = tl.DiffusionModel(network(answer_every=every), tl.Uniform(5))
    x_0, method = drawn(generator), method_of("udm", 5, tl.LinearSchedule())
    free = torch.ones(3, 8, dtype=torch.float64)
    batch = Batch(x_0, TIMES, None, free / free.sum(), (1, 2, 3))
    loss = batch_loss(model, batch, method, CrossEntropy())
    noisy = method.corrupted(x_0, TIMES, RowGenerators((1, 2, 3)), None)
    counts = [6] if every is None else [2, 4, 6]
    each = [loss_at(model.with_loops(count), CrossEntropy(), x_0, noisy, batch.weights).mean for count in counts]
    torch.testing.assert_close(loss, torch.stack(each).mean(), rtol=1e-12, atol=0)


def test_a_resumed_run_with_several_answers_is_the_uninterrupted_one(tmp_path: Path) -> None:
    options = {"loops": 4, "answer_every": 2, "fewest_loops": 2}
    network_options = {"width": 16, "depth": 1, "heads": 2, "condition": 8} | options
    train(tiny(tmp_path / "whole", max_steps=8, network=network_options))
    train(tiny(tmp_path / "parts", max_steps=5, network=network_options))
    train(tiny(tmp_path / "parts", max_steps=8, network=network_options), resume=True)
    assert weights(tmp_path / "parts", 8) == weights(tmp_path / "whole", 8)
    plain = network_options | {"answer_every": None}
    train(tiny(tmp_path / "plain", max_steps=8, network=plain))
    assert weights(tmp_path / "plain", 8) != weights(tmp_path / "whole", 8)


def test_another_number_of_loops_shares_the_weights_and_goes_where_a_model_goes(tmp_path: Path) -> None:
    model = tl.DiffusionModel(network(answer_every=2, fewest_loops=2), tl.Uniform(5))
    more = model.with_loops(9)
    assert next(more.parameters()) is next(model.parameters())
    assert [unwrapped(each.network).config.loops for each in (model, more)] == [6, 9]
    more.save(tmp_path / "more")
    assert unwrapped(tl.load(tmp_path / "more").network).config.loops == 9


def test_who_has_no_loops_is_told() -> None:
    config = replace(SMALL, loops=1)
    for sentence, call in (
        ("only dit and grid networks repeat their blocks, got causal", lambda: CausalTransformer(config).with_loops(2)),
        ("only dit and grid networks", lambda: CausalTransformer(replace(config, answer_every=1))),
        ("answer_every must be in 1..6, the loops, got 7", lambda: network(answer_every=7)),
        ("loops must be at least 1, got 0", lambda: network().with_loops(0)),
        ("a function has no loops", lambda: tl.DiffusionModel(lambda x, t: x, tl.Uniform(5)).with_loops(2)),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()
