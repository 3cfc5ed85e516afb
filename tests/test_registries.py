"""What every objective, schedule and data source must do, over the registries: a new one joins by being there."""

import math
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tests import brute
from tokenloom.cells import PROCESSES
from tokenloom.data.base import SOURCES, source_of
from tokenloom.objectives import OBJECTIVES
from tokenloom.posteriors import Posterior, as_posterior
from tokenloom.schedules import SCHEDULES

K, L, ROWS = 5, 3, 6
REPRESENTATIONS: tuple[type[Posterior], ...] = (tl.LeaveOneOut, tl.Denoiser, tl.Score)


def process_for(name: str) -> tl.Process:
    """A process of each kind on K tokens and L positions."""
    tables = {"pi": brute.random_pi(K, L)} if name == "interpolating" else {}
    return PROCESSES.parse(name, vocab_size=K, **tables)


def trained() -> list[tuple[str, str, type[Posterior]]]:
    """Every objective with every process and representation that it does not refuse."""
    found = []
    for name in OBJECTIVES:
        for kind in PROCESSES:
            for predicts in REPRESENTATIONS:
                try:
                    OBJECTIVES.parse(name).check(process_for(kind), predicts, hollow=True)
                except ValueError:
                    continue
                found.append((name, kind, predicts))
    return found


CASES = trained()


def test_every_objective_trains_some_process_and_every_process_has_one() -> None:
    assert {name for name, _, _ in CASES} == set(OBJECTIVES)
    assert {kind for _, kind, _ in CASES} == set(PROCESSES)


@pytest.mark.parametrize(("name", "kind", "predicts"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_an_objective_is_local_and_its_gradient_is_finite(name: str, kind: str, predicts: type[Posterior]) -> None:
    """The losses of single positions are those of the batch, given positions cost nothing, and slopes are finite."""
    objective, process = OBJECTIVES.parse(name), process_for(kind)
    generator = torch.Generator().manual_seed(0)
    clean = [token for token in range(K) if token != process.mask_in_vocabulary]
    x_0 = torch.tensor(clean)[torch.randint(len(clean), (ROWS, L), generator=generator)]
    noisy = process.corrupt(x_0, objective.times(torch.linspace(0.1, 0.9, ROWS)), generator)
    outputs = process.num_states if predicts is tl.Score else K
    logits = torch.randn(ROWS, L, outputs, generator=generator).requires_grad_()
    losses = objective.per_token(as_posterior(logits, predicts), x_0, noisy, process)
    assert losses.shape == (ROWS, L)
    assert bool(losses.isfinite().all())
    assert bool(torch.autograd.grad(losses.sum(), logits)[0].isfinite().all())
    where = torch.ones(ROWS, L, dtype=torch.bool)
    local = as_posterior(logits.detach()[where].unsqueeze(1), predicts)
    apart = objective.per_token(local, x_0[where].unsqueeze(1), noisy.positions(where), process)
    torch.testing.assert_close(apart.view(ROWS, L), losses.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_falls_from_one_and_has_its_inverse_and_its_slope(name: str) -> None:
    schedule = SCHEDULES.parse(name)
    t = torch.linspace(0, 1, 101, dtype=torch.float64)
    alpha = schedule.alpha(t)
    assert float(alpha[0]) == 1
    assert bool((alpha.diff() < 0).all())
    assert float(alpha[-1]) >= 0
    middle = t[1:-1]
    inverse = schedule.inverse(alpha[1:-1])
    torch.testing.assert_close(inverse, middle, rtol=1e-7, atol=1e-9, msg=lambda text: f"t(alpha(t)) = t: {text}")
    slope = (schedule.alpha(middle + 1e-6) - schedule.alpha(middle - 1e-6)) / 2e-6
    found = schedule.alpha_prime(middle)
    torch.testing.assert_close(found, slope, rtol=1e-5, atol=1e-6, msg=lambda text: f"alpha'(t) is the slope: {text}")


SMALL = {"rows": 40, "valid_rows": 10, "side": 4, "givens": (4, 8), "length": 12}
"""Small values of options that several sources share."""


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_recorded_and_loads_the_same_clean_tokens_again(name: str, tmp_path: Path) -> None:
    kind = SOURCES[name]
    assert is_dataclass(kind)
    known = {item.name for item in fields(kind)}
    options = {key: value for key, value in SMALL.items() if key in known}
    if kind.is_text:
        text = tmp_path / "text.txt"
        text.write_text("the cat sat on the mat. " * 40)
        options |= {"path": str(text)}
    source = SOURCES.restore({"name": name, "kind": name} | options)
    assert source_of(source.record()) == source
    first, second = source.load(), source_of(source.record()).load()
    assert first.fingerprint == second.fingerprint
    assert torch.equal(torch.as_tensor(first.valid), torch.as_tensor(second.valid))
    for table in (first.train, first.valid):
        assert 0 <= int(table.min()) <= int(table.max()) < first.vocab_size
    texts = first.decode(first.valid[:2].long())
    assert len(texts) == 2
    assert all(texts)
    assert source.is_text == (first.tokenizer is not None)
    oracle = source.oracle()
    if oracle is not None:
        assert first.entropy is not None
        assert math.isclose(oracle.entropy() / first.length, first.entropy)
