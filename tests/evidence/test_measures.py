"""What the measures measure, on laws that are known."""

import itertools

import torch

from evidence.measures.bigrams import pair_distance, pair_law
from evidence.measures.drawing import draw_exact, draw_textbook, heavy_tailed
from tests.statistics import assert_frequencies
from tokenloom.data.markov import MarkovSource


def test_the_law_of_pairs_is_that_of_all_sequences() -> None:
    source = MarkovSource(vocab_size=3, length=5)
    every = torch.tensor(list(itertools.product(range(3), repeat=5)))
    weight = source.oracle().log_likelihood(every).double().exp()
    expected = torch.zeros(9, dtype=torch.float64)
    for place in range(4):
        expected.index_add_(0, every[:, place] * 3 + every[:, place + 1], weight / 4)
    torch.testing.assert_close(pair_law(source).flatten(), expected, rtol=0, atol=1e-12)


def test_the_distance_of_pairs_is_a_total_variation() -> None:
    law = torch.tensor([[0.5, 0.25], [0.25, 0.0]], dtype=torch.float64)
    assert pair_distance(torch.tensor([[0, 0, 1, 0, 0]]), law) == 0
    assert pair_distance(torch.tensor([[1, 1, 1]]), law) == 1


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
