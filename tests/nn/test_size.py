"""The size of a network is known before it is built."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tokenloom.nn.base import NETWORKS, Task
from tokenloom.nn.size import count_parameters, heads_for
from tokenloom.nn.transformer import TransformerOptions
from tokenloom.sudoku.network import grid_relations


@pytest.mark.parametrize("kind", ["dit", "causal", "hollow", "grid"])
@pytest.mark.parametrize("depth", [1, 3, 4, 6, 8])
def test_the_count_is_that_of_the_network(kind: str, depth: int) -> None:
    """Even depths beyond those that are built, and any depth below."""
    options: Any = replace(NETWORKS[kind].Options(kind=kind), width=16, heads=2, condition=8, depth=depth)  # type: ignore[call-arg]
    task = Task(4, 5, 16, relations=grid_relations(4), given=True)
    assert count_parameters(options, task) == sum(part.numel() for part in options.build(task).parameters())


def test_absurd_sizes_are_counted_at_once() -> None:
    task = Task(65, 65, 128)
    assert count_parameters(TransformerOptions(depth=10**12), task) > 1e17
    assert count_parameters(TransformerOptions(width=10**7), task) > 1e15
    for huge in (TransformerOptions(width=2**62), TransformerOptions(condition=2**62)):
        assert math.isinf(count_parameters(huge, task))
    with pytest.raises(ValueError, match="width must fit into 64 bits, got a number of 31 digits"):
        count_parameters(TransformerOptions(width=10**30), task)


def test_heads_divide_the_width_evenly() -> None:
    assert [heads_for(width) for width in (8, 64, 96, 100, 102, 192, 768, 2**40)] == [1, 2, 3, 2, 3, 6, 24, 64]
