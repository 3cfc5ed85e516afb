"""How often a step makes the host wait for the device, counted by what is dispatched;
and that not asking changes nothing.

`never_ask` makes every evaluator one of an accelerator, whose values must be waited for.
"""

from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import tokenloom as tl
from tests.conftest import never_ask
from tests.samplers.helpers import Cell, generator, network
from tests.samplers.test_conformance import NAMED, ROWS, K, L, Run, identity, made, plain, recorded
from tokenloom.samplers import Until

WAITS = {
    *("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::bincount"),
    *("aten::_unique2", "aten::unique_dim"),
}
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_"}
MOST = 2
"""Where a prediction is drawn from, and which rows must be evaluated for it."""
PROCESSES = [tl.Uniform, tl.Masked, tl.AbsorbingUniform, tl.MaxCoupling, tl.Hybrid]


class Waits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations whose result, or its shape, the host must know; flags as an index are one."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        by_flags = name in INDEXED and any(part is not None and part.dtype == torch.bool for part in args[1])
        if name in WAITS or by_flags:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture
def slow_answers(monkeypatch: pytest.MonkeyPatch, as_a_user: None) -> None:
    never_ask(monkeypatch)


def waits_per_step(kind: Cell, **options: Any) -> float:
    """Those of twelve steps minus those of four: what a run asks once does not count."""
    process, found = kind(20), list[int]()
    model = tl.DiffusionModel(network(process, 8), process, predicts=process.preferred)
    for steps in (4, 12):
        with Waits() as waits:
            tl.sample(model, 4, steps=steps, generator=generator(), **options)
        found.append(sum(waits.counts.values()))
    return (found[1] - found[0]) / 8


@pytest.mark.usefixtures("slow_answers")
@pytest.mark.parametrize("options", [{}, {"top_p": 0.9}, {"temperature": 0.8}], ids=str)
@pytest.mark.parametrize("kind", PROCESSES)
def test_a_step_waits_for_the_host_at_most_twice(kind: Cell, options: dict[str, float]) -> None:
    assert 0 < waits_per_step(kind, **options) <= MOST


@pytest.mark.asks
@pytest.mark.usefixtures("as_a_user")
def test_where_asking_is_free_more_is_asked() -> None:
    """The count can fail: with the checks of logits and the branches that save work a step asks more often."""
    assert waits_per_step(tl.Masked, top_p=0.9) > MOST


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("top_p", [1.0, 0.8])
@pytest.mark.parametrize("run", NAMED, ids=identity)
def test_not_asking_draws_the_same_tokens(run: Run, top_p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    model, sampler = plain(run.kind), run.sampler(top_p=top_p)
    asked = recorded(run).samples if top_p == 1 else sampler.run(model, ROWS, length=L, generator=generator())
    never_ask(monkeypatch)
    not_asked = sampler.run(model, ROWS, length=L, generator=generator())
    assert torch.equal(asked.tokens, not_asked.tokens)
    assert torch.equal(asked.evaluations, not_asked.evaluations)


def broken_below(time_of_fault: float) -> tl.DiffusionModel:
    """A network that puts out NaN below a time."""

    def network(tokens: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        broken = torch.where(time < time_of_fault, torch.nan, 0.0)
        return broken[:, None, None].expand(*tokens.shape, K).float()

    return tl.DiffusionModel(network, made(tl.Uniform), predicts=tl.LeaveOneOut)


@pytest.mark.usefixtures("slow_answers")
@pytest.mark.parametrize(
    ("fault", "until"), [(0.5, None), (2.0, lambda tokens, rows: rows >= 0)], ids=["at the end", "where all rows stop"]
)
def test_logits_that_nothing_can_be_drawn_from_are_reported(fault: float, until: Until | None) -> None:
    with pytest.raises(ValueError, match=r"logits held NaN, \+inf or only -inf in this run"):
        tl.Sampler(steps=4).run(broken_below(fault), 2, length=L, until=until, generator=generator())
