"""What the measures measure, on laws that are known."""

import itertools
import math

import pytest
import torch

from evidence.groups import group_means
from evidence.measures.budget import spending
from evidence.measures.drawing import FLOAT32, draw_exact, draw_textbook, heavy_tailed, textbook_law
from evidence.measures.neighbours import window_distance, window_law
from evidence.measures.ngrams import Counts
from evidence.paper import in_the_paper, log_differences
from evidence.pictures import shown
from tests.statistics import assert_frequencies
from tokenloom.data.markov import MarkovSource
from tokenloom.samplers.options import SamplerOptions


@pytest.mark.parametrize("size", [2, 3])
def test_the_law_of_neighbours_is_that_of_all_sequences(size: int) -> None:
    source = MarkovSource(vocab_size=3, length=5)
    every = torch.tensor(list(itertools.product(range(3), repeat=5)))
    weight = source.oracle().log_likelihood(every).double().exp()
    expected = torch.zeros([3] * size, dtype=torch.float64)
    places = 6 - size
    for place in range(places):
        expected.index_put_(every[:, place : place + size].unbind(1), weight / places, accumulate=True)
    torch.testing.assert_close(window_law(source, size), expected, rtol=0, atol=1e-12)


def test_the_distance_of_neighbours_is_a_total_variation() -> None:
    law = torch.tensor([[0.5, 0.25], [0.25, 0.0]], dtype=torch.float64)
    assert window_distance(torch.tensor([[0, 0, 1, 0, 0]]), law) == 0
    assert window_distance(torch.tensor([[1, 1, 1]]), law) == 1


@pytest.mark.parametrize(("share", "most", "expected"), [(1.0, 100, 24), (0.5, 100, 48), (1.0, 10, 96)])
def test_steps_are_as_many_as_spend_the_budget(share: float, most: int, expected: int) -> None:
    """A sampler whose steps are all evaluated; one that skips half of them; one that never needs more than ten."""
    found = spending(SamplerOptions(grid="uniform"), 24, lambda options: min(share * options.steps, most))
    assert found.steps == expected


def test_the_textbook_law_loses_what_the_grid_of_float32_loses() -> None:
    """One step: a token of mass q wins where its wait, i 2^-24 for i = 1, 2, ..., is below that of all others."""
    q = torch.tensor([0.6, 0.4 - 3e-7, 2e-7, 1e-7], dtype=torch.float64)
    waits = FLOAT32 * torch.arange(1, 400, dtype=torch.float64)
    wins = (FLOAT32 * torch.exp(-waits / q[2:, None])).sum(1)
    found = textbook_law(q.log(), steps=1)
    torch.testing.assert_close(found[2:], wins / (wins.sum() + q[:2].sum()), rtol=1e-6, atol=0)
    assert float(found[3]) < 0.74 * float(q[3])
    torch.testing.assert_close(textbook_law(q[:2].log(), steps=256), q[:2] / q[:2].sum(), rtol=1e-5, atol=0)


def test_both_ways_of_drawing_have_the_law_where_float32_suffices() -> None:
    """Chi-square with a false-alarm rate of 1e-6."""
    law = torch.log(torch.tensor([0.5] + [0.5 / 40] * 40, dtype=torch.float64))
    for draw in (draw_exact, draw_textbook):
        drawn = draw(law, 4096, 8, torch.Generator().manual_seed(0))
        assert_frequencies(torch.bincount(drawn, minlength=41), law.exp())


def test_a_heavy_tail_has_the_entropy_of_a_language() -> None:
    law = heavy_tailed(50_257, seed=1)
    assert abs(float(law.exp().sum()) - 1) < 1e-12
    assert 6 < float(torch.special.entr(law.exp()).sum()) < 8


def test_counts_of_n_grams_are_laws_and_by_hand() -> None:
    rows = torch.tensor([[0, 1, 1], [1, 1, 2]])
    counts = Counts(rows, vocab_size=4, order=3)
    for history in ((), (1,), (1, 1), (0, 3)):
        assert sum(counts.probability((*history, token)) for token in range(4)) == pytest.approx(1)
    one = (4 + 3 / 4) / (6 + 3)  # of the six tokens four are 1, and three are different
    assert counts.probability((1,)) == pytest.approx(one)
    assert counts.probability((1, 1)) == pytest.approx((2 + 2 * one) / (3 + 2))  # 1 is followed by 1, 1 and 2
    assert counts.probability((3, 1)) == pytest.approx(one)  # nothing was seen after 3
    assert Counts(rows, 4, 1).nats(torch.tensor([[1, 1]])).tolist() == pytest.approx([-math.log(one)])


def test_groups_are_consecutive_and_few_rows_are_groups_of_their_own() -> None:
    assert group_means(torch.arange(400.0))[:2] == [1.5, 5.5]
    assert group_means(torch.tensor([3.0, 4.0])) == [3.0, 4.0]
    assert len(group_means(torch.arange(512.0), dependent=8)) == 64


def test_differences_of_the_papers_perplexities() -> None:
    assert log_differences("udm-loo-ce", "udm-denoiser-ce")[0] == pytest.approx(math.log(25.45 / 25.18))
    assert in_the_paper("audm", "mdm") == "-0.018 (OWT), 0.037 (zero-shot)"
    assert in_the_paper("audm-gated", "mdm") == ""


def test_an_axis_leaves_out_one_far_arm_and_no_seed_of_another() -> None:
    assert shown([[0.02, 0.03], [0.05, 0.09], [0.56, 0.57]]) > 0.09
    assert shown([[0.02, 0.03], [0.05, 0.09], [0.56, 0.57]]) < 0.56
    assert shown([[0.02], [0.05], [0.07]]) == math.inf
    assert shown([[0.02], [], [0.5]]) == math.inf
