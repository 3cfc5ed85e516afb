"""States with some token lost, and states without, together are the law of corruption."""

import itertools

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.objectives.lost_tokens import corrupted_given, some_lost

DRAWS = 60_000
LOST = torch.tensor(list(itertools.product([False, True], repeat=3)))


@pytest.mark.parametrize(
    "kept", [(0.9, 0.9, 0.9), (1 - 1e-7,) * 3, (0.2, 1.0, 0.999), (0.0, 0.5, 1.0), (0.0, 0.0, 0.7), (1e-300, 0.9, 0.5)]
)
def test_flags_are_independent_given_that_one_is_set(kept: tuple[float, ...]) -> None:
    """The chi-square test has a false-alarm rate of 1e-6."""
    keep = torch.tensor(kept, dtype=torch.float64)
    numbers = torch.rand(DRAWS, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    flags, probability = some_lost(numbers, -keep.log().expand(DRAWS, 3))
    law = torch.where(LOST, 1 - keep, keep).prod(-1)
    some = law[1:].sum()
    torch.testing.assert_close(probability, some.expand(DRAWS), rtol=1e-9, atol=0)
    assert flags.any(-1).all()
    assert_frequencies(sequence_counts(flags.long(), 2), torch.cat([torch.zeros(1), law[1:] / some]))


def test_a_row_without_free_positions_loses_nothing() -> None:
    flags, probability = some_lost(torch.rand(2, 3, dtype=torch.float64), torch.zeros(2, 3, dtype=torch.float64))
    assert not flags.any()
    assert (probability == 0).all()


CELLS = [tl.Uniform(2), tl.Masked(2), tl.MaxCoupling(2), tl.AbsorbingUniform(2), tl.MaskedUniform(2), tl.Hybrid(2)]


@pytest.mark.parametrize("process", CELLS, ids=lambda process: process.name)
@pytest.mark.parametrize("given", [None, torch.tensor([[True, False, False]])], ids=["free", "given"])
def test_both_kinds_of_states_make_up_the_law_of_corruption(process: tl.Process, given: Tensor | None) -> None:
    """What a network reads of x_t, as at most 27 frequencies; 5.5 deviations are a false-alarm rate of 1e-6."""
    x_0, t = torch.tensor([[0, 1, 1]]).expand(DRAWS, 3), torch.full((DRAWS,), 0.3, dtype=torch.float64)
    flags = None if given is None else given.expand(DRAWS, 3)
    states = process.input_states
    counts, chances = [], []
    for some in (False, True):
        noisy, probability = corrupted_given(process, x_0, t, some, torch.Generator().manual_seed(3), flags)
        shown = process.network_input(noisy)
        assert shown.given is flags
        counts.append(sequence_counts(shown.tokens, states) / DRAWS)
        chances.append(float(probability[0]))
    assert sum(chances) == pytest.approx(1, abs=1e-12)
    law = chances[0] * counts[0] + chances[1] * counts[1]
    plain = process.corrupt(x_0, t, torch.Generator().manual_seed(4), flags)
    drawn = sequence_counts(process.network_input(plain).tokens, states) / DRAWS
    error = (drawn * (1 - drawn) * 2 / DRAWS).sqrt()
    assert ((law - drawn).abs() <= 5.5 * error + 1e-12).all()
