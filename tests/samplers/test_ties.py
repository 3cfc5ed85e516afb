"""Who is chosen by a score: the smallest, and of those that are tied who the row's own random number says, never who
a network's rounding in a batch of another size says."""

import itertools

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.laws.helpers import EXACT
from tests.samplers.helpers import Cell, generator
from tests.statistics import assert_frequencies
from tokenloom.samplers.selection import gumbel, mode, smallest

K, L, ROWS = 5, 12, 16
GREEDY = [
    ("confidence", tl.Masked, None),
    ("confidence:score=margin", tl.Masked, None),
    ("confidence:score=entropy", tl.Masked, None),
    ("routing", tl.Uniform, None),
    ("entropy-bound:bound=3", tl.Uniform, None),
    ("entropy-bound:bound=3", tl.Masked, None),
    ("adaptive", tl.Uniform, None),
    ("adaptive:threshold=0.5,on=denoiser", tl.Uniform, None),
    ("greedy-tail", tl.Uniform, None),
    ("ancestral", tl.Uniform, "informed:parallel=3"),
]


def tied(tokens: Tensor, time: Tensor) -> Tensor:
    """The same law at every position, with ties between tokens too, but for rounding that depends on the batch."""
    flat = torch.tensor([2.0, 2.0, 1.0, 1.0, 0.0]).expand(*tokens.shape, K)
    noise = torch.rand(L, K, generator=torch.Generator().manual_seed(len(tokens)))
    return flat * (1 + 3e-7 * (noise - 0.5))


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(("sampler", "kind", "corrector"), GREEDY)
def test_a_row_of_a_batch_is_the_row_alone_where_confidences_are_tied(
    sampler: str, kind: Cell, corrector: str | None
) -> None:
    model = tl.DiffusionModel(tied, kind(K, schedule=EXACT), predicts=tl.Denoiser)
    run = {"length": L, "steps": 9, "sampler": sampler, "corrector": corrector}
    batch = tl.sample(model, ROWS, **run, generator=tl.RowGenerators(range(ROWS)))  # type: ignore[arg-type]
    for row in range(ROWS):
        alone = tl.sample(model, 1, **run, generator=tl.RowGenerators([row]))  # type: ignore[arg-type]
        assert torch.equal(alone[0], batch[row])


def test_tied_positions_are_equally_likely_to_be_chosen() -> None:
    """Of positions 1, 2 and 3, equal within rounding, one joins position 0; false-alarm rate 1e-6."""
    scores = torch.tensor([-1.0, 0.5, 0.5 + 1e-7, 0.5 - 1e-7, 0.6, torch.inf]).double().repeat(30_000, 1)
    flags = smallest(scores, 2, torch.rand(scores.shape, generator=generator(2), dtype=torch.float64))
    assert bool((flags.sum(1) == 2).all())
    assert bool(flags[:, 0].all())
    assert_frequencies(flags.sum(0)[1:], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0.0, 0.0]).double())


def test_a_tie_does_not_spread_along_a_chain_of_close_scores() -> None:
    """Neighbours are within rounding of each other, the ends are not: only those next to the last one chosen are."""
    scores = torch.arange(100).double()[None].repeat(500, 1) * 0.9e-5
    order = torch.rand(scores.shape, generator=generator(1), dtype=torch.float64)
    flags = smallest(scores, 50, order)
    assert bool((flags.sum(1) == 50).all())
    assert bool(flags[:, :48].all())
    assert not bool(flags[:, 51:].any())


def test_ties_leave_infinite_scores_and_counts_beyond_the_row_as_they_are() -> None:
    scores = torch.tensor([[torch.inf, 1.0, -torch.inf, torch.inf], [torch.inf] * 4]).double()
    order = torch.zeros_like(scores)
    for count, expected in ((1, [False, False, True, False]), (2, [False, True, True, False])):
        assert smallest(scores, count, order).tolist() == [expected, [False] * 4]
    assert smallest(scores, torch.tensor([[9], [0]]), order).tolist() == [expected, [False] * 4]
    assert smallest(scores[:, :0], 1, order[:, :0]).shape == (2, 0)


def test_the_mode_of_tokens_within_rounding_is_the_smallest_id() -> None:
    logits = torch.tensor([[[0.0, 3.0, 3.0 + 1e-6, -torch.inf], [-torch.inf, -9.0, -9.1, -20.0]]])
    assert mode(logits).tolist() == [[1, 1]]


def test_selection_picks_the_smallest_scores_of_ties_the_earlier_and_never_an_infinite_one() -> None:
    source = generator(7)
    scores = torch.rand(200, 6, generator=source, dtype=torch.float64)
    scores[torch.rand(200, 6, generator=source) < 0.3] = torch.inf
    counts = torch.randint(0, 8, (200, 1), generator=source)
    for row, count, flags in zip(scores.tolist(), counts.flatten().tolist(), smallest(scores, counts), strict=True):
        finite = [position for position in range(6) if row[position] < torch.inf]
        expected = sorted(finite, key=lambda position: row[position])[:count]
        assert flags.nonzero().flatten().tolist() == sorted(expected)
    assert torch.equal(smallest(scores, 2), smallest(scores, torch.full((200, 1), 2)))
    assert smallest(torch.zeros(1, 4).double(), 2).tolist() == [[True, True, False, False]]


def test_gumbel_top_k_draws_without_replacement() -> None:
    """The first two of a race for p: p_i p_j / (1 - p_i) + p_j p_i / (1 - p_j) for the pair {i, j}."""
    p = torch.tensor([0.5, 0.3, 0.15, 0.05]).double()
    u = torch.rand(60_000, 4, generator=generator(11), dtype=torch.float64)
    flags = smallest(-(p.log() + gumbel(u)), 2)
    counts, law = [], []
    for i, j in itertools.combinations(range(4), 2):
        counts.append(int((flags[:, i] & flags[:, j]).sum()))
        law.append(float(p[i] * p[j] / (1 - p[i]) + p[j] * p[i] / (1 - p[j])))
    assert_frequencies(torch.tensor(counts), torch.tensor(law).double())
