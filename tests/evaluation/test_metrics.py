"""Metrics of samples, computed by hand."""

import math

import pytest
import torch

from tokenloom.evaluation.metrics import distinct, unigram_entropy


def test_unigram_entropy_is_that_of_each_samples_own_frequencies() -> None:
    """(1/2, 1/4, 1/4): 3/2 log 2; one token only: 0; all different: log 4.  Pooled counts would say otherwise."""
    tokens = torch.tensor([[7, 7, 1, 3], [5, 5, 5, 5], [0, 1, 2, 3]])
    expected = torch.tensor([1.5 * math.log(2), 0, math.log(4)], dtype=torch.float64)
    torch.testing.assert_close(unigram_entropy(tokens), expected)


def test_distinct_counts_n_grams_within_samples() -> None:
    """Bigrams 01 10 01 | 11 11 12: 01, 10, 11, 12 of 6.  Unigrams: 0, 1, 2 of 8.  No bigram crosses the two rows."""
    tokens = torch.tensor([[0, 1, 0, 1], [1, 1, 1, 2]])
    assert distinct(tokens, 1) == pytest.approx(3 / 8)
    assert distinct(tokens, 2) == pytest.approx(4 / 6)
    assert distinct(tokens, 4) == 1


def test_wrong_input_gets_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"n must be in 1\.\.4, the length of a sample, got 5"):
        distinct(torch.zeros(2, 4, dtype=torch.int64), 5)
    with pytest.raises(ValueError, match=r"at least one token, got the shape \[0, 4\]"):
        unigram_entropy(torch.zeros(0, 4, dtype=torch.int64))
