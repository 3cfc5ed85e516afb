"""Any noise: every row is a state of one process of the mixture, and its evidence is all that is kept of that."""

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.training.methods import Method, method_of

K, L, ROWS = 3, 2, 60
SCHEDULE = tl.CosineSchedule(eps=1e-3)
ANY = method_of("any", K, SCHEDULE)


def batch(rows: int = ROWS) -> tuple[Tensor, Tensor, Tensor]:
    """Clean tokens, times and given positions."""
    generator = torch.Generator().manual_seed(4)
    x_0 = torch.randint(0, K, (rows, L), generator=generator)
    t = torch.rand(rows, generator=generator, dtype=torch.float64)
    return x_0, t, torch.rand(rows, L, generator=generator) < 0.3


def test_each_row_is_what_one_process_draws_at_the_same_share_of_lost_tokens() -> None:
    """Bit for bit, by drawing each row again from its own generator: first which process, then the state.

    So a row has the law of the mixture: states and evidence are held to their laws in `test_processes.py` and
    `laws/test_grid.py`.
    """
    x_0, t, given = batch()
    noisy = ANY.corrupted(x_0, t, RowGenerators.spawn(7, ROWS), given)
    assert noisy.evidence is not None
    again, drawn = RowGenerators.spawn(7, ROWS), Counter[str]()
    for row in range(ROWS):
        own = again.select([row])
        process = ANY.processes[int(own.uniform((1, 1)) * 4)]
        time = process.masses.time_at_lost(t[row : row + 1]).clamp(0, 1)
        assert process.alpha(time).item() == pytest.approx(1 - t[row].item(), abs=2e-3)  # eps, where less is left
        state = process.corrupt(x_0[row : row + 1], time, own, given[row : row + 1])
        assert torch.equal(noisy.tokens[row], state.tokens[0])
        assert torch.equal(noisy.evidence[row], process.evidence(state)[0])
        drawn[process.name] += 1
    assert set(drawn) == {"uniform", "masked", "absorbing", "hybrid"}
    assert torch.equal(noisy.tokens[given], x_0[given])
    assert noisy.evidence[given].isposinf().all()
    assert not noisy.evidence[~given].isnan().any()
    assert torch.equal(noisy.alpha_t, 1 - t)
    for process in ANY.processes:
        assert torch.equal(process.evidence(noisy), noisy.evidence)


def test_a_row_does_not_depend_on_its_batch() -> None:
    x_0, t, given = batch(12)
    whole = ANY.corrupted(x_0, t, RowGenerators.spawn(3, 12), given)
    rows = torch.tensor([9, 2, 5])
    part = ANY.corrupted(x_0[rows], t[rows], RowGenerators.spawn(3, 12).select(rows.tolist()), given[rows])
    assert part.evidence is not None
    assert whole.evidence is not None
    assert torch.equal(part.tokens, whole.tokens[rows])
    assert torch.equal(part.evidence, whole.evidence[rows])


def test_the_processes_of_a_mixture_share_its_vocabulary_and_schedule() -> None:
    mixture = method_of("any:noises=masked+hybrid:p_uniform=0.4", K, SCHEDULE)
    assert [process.name for process in mixture.processes] == ["masked", "hybrid"]
    assert {(process.vocab_size, process.schedule) for process in mixture.processes} == {(K, SCHEDULE)}
    assert mixture.processes[1] == tl.Hybrid(K, 0.4, schedule=SCHEDULE)
    assert (mixture.input_states, method_of("any:noises=uniform+absorbing", K, SCHEDULE).input_states) == (K + 1, K)
    assert mixture.mixed
    assert mixture.process == tl.Masked(K, schedule=SCHEDULE)


def test_one_process_is_corrupted_as_it_is() -> None:
    x_0, t, given = batch(8)
    for process in (tl.Uniform(K), tl.MaskedUniform(K), tl.Hybrid(K)):
        mine, its = (
            corrupted(x_0, t, RowGenerators.spawn(2, 8), given)
            for corrupted in (Method((process,)).corrupted, process.corrupted)
        )
        assert torch.equal(mine.tokens, its.tokens)
        assert mine.evidence is None
        assert (mine.aux is None) == (its.aux is None)


def test_the_ends_of_the_level_are_clean_and_empty() -> None:
    x_0, _, _ = batch(64)
    for lost, expected in ((0.0, math.inf), (1.0, 0.0)):
        noisy = method_of("any", K, tl.LinearSchedule(eps=0.0)).corrupted(
            x_0, torch.full((64,), lost, dtype=torch.float64), RowGenerators.spawn(1, 64), None
        )
        assert noisy.evidence is not None
        assert (noisy.evidence == expected).all()
        assert lost == 1 or torch.equal(noisy.tokens, x_0)


@pytest.mark.parametrize(
    ("noises", "sentence"),
    [
        ("uniform+mask", "no process 'mask'; did you mean masked"),
        ("uniform+any", "no process 'any'"),
        ("left-to-right", r"see every position, joined by \+, got 'left-to-right'"),
        ("uniform+ar", "no process 'ar'"),
        ("", "no process ''"),
        ("interpolating", "needs its option pi"),
        ("hybrid:p_uniform=0.1+hybrid:p_uniform=0.5", "'hybrid' twice"),
    ],
)
def test_what_is_not_a_noise_is_named(noises: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        method_of(f"any:noises={noises}", K, SCHEDULE)
