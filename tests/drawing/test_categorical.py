"""The law of a drawn token.  Statistical tests: fixed seeds, false-alarm rate 1e-6 each."""

import math

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.statistics import assert_frequencies
from tokenloom.drawing.categorical import draw_uniform_tokens, invert, probabilities
from tokenloom.drawing.randomness import uniform

GPT2 = 50257


def head_and_tail(mass: float, tail: int) -> Tensor:
    """257 tokens share 1 - mass, `tail` tokens share `mass`, as float32 logits."""
    probabilities = torch.full((GPT2,), (1 - mass) / (GPT2 - tail))
    probabilities[GPT2 - tail :] = mass / tail
    return probabilities.log()


def test_the_tail_is_drawn_as_often_as_it_should_be(generator: torch.Generator) -> None:
    """1e-3 of the mass over 50,000 tokens: 100 of 100,000 draws, within 4 standard errors, and half in either half.

    4 standard errors are a false-alarm rate of 6e-5 for each of the two counts.
    """
    logits = head_and_tail(1e-3, 50_000)
    weights = probabilities(logits).expand(1000, -1)
    drawn = torch.cat([invert(weights, uniform((1000,), generator, weights.device)) for _ in range(100)])
    in_tail = drawn[drawn >= GPT2 - 50_000]
    assert abs(len(in_tail) - 100) <= 4 * math.sqrt(100)
    rarer_half = int((in_tail >= GPT2 - 25_000).sum())
    assert abs(rarer_half - 50) <= 4 * math.sqrt(50)


@pytest.mark.parametrize("size", [2, 7, 512, 513, 768, 1000])
def test_drawn_tokens_follow_their_law(size: int, generator: torch.Generator) -> None:
    logits = 2 * torch.randn(size, generator=generator)
    drawn = torch.cat([tl.draw(logits.expand(5000, -1), generator) for _ in range(10)])
    assert_frequencies(torch.bincount(drawn, minlength=size), torch.softmax(logits.double(), -1))


def test_rows_are_drawn_independently(generator: torch.Generator) -> None:
    logits = torch.randn(2, 3, generator=generator)
    drawn = tl.draw(logits.expand(200_000, 2, 3), generator)
    law = torch.softmax(logits.double(), -1)
    assert_frequencies(torch.bincount(3 * drawn[:, 0] + drawn[:, 1], minlength=9), torch.outer(law[0], law[1]))


@pytest.mark.parametrize("size", [3, GPT2])
def test_a_token_of_probability_0_is_never_drawn(size: int, generator: torch.Generator) -> None:
    """Every second token is impossible, at the ends of [0, 1) too."""
    weights = torch.rand(64, size, generator=generator)
    weights[:, ::2] = 0
    edges = torch.tensor([0.0, 0.5, 1 - 2**-53], dtype=torch.float64).expand(64, 3)
    u = torch.cat([edges, uniform((64, 20), generator, weights.device)], 1)
    assert (invert(weights.unsqueeze(1).expand(64, 23, size), u) % 2 == 1).all()
    assert (tl.draw(weights.log(), generator) % 2 == 1).all()


@pytest.mark.parametrize("size", [2, 513, GPT2])
def test_a_row_with_one_possible_token_is_deterministic(size: int, generator: torch.Generator) -> None:
    only = torch.randint(0, size, (32,), generator=generator)
    logits = torch.full((32, size), -torch.inf).scatter(1, only[:, None], -123.4)
    assert torch.equal(tl.draw(logits, generator), only)


@pytest.mark.parametrize("size", [5, 512, 513, 3000])
def test_inversion_is_the_textbook_inversion(size: int, generator: torch.Generator) -> None:
    weights = torch.rand(2000, size, generator=generator)
    u = uniform((2000,), generator, torch.device("cpu"))
    cumulative = weights.double().cumsum(-1)
    textbook = (cumulative <= u[:, None] * cumulative[:, -1:]).sum(-1)
    drawn = invert(weights, u)
    assert ((drawn - textbook).abs() <= 1).all()
    assert (drawn == textbook).double().mean() > 0.999  # block sums round in float32


def test_inversion_resolves_a_tail_of_one_in_a_billion() -> None:
    """u close to 1 walks evenly through 50,000 tokens that share a mass of 1e-9."""
    weights = torch.full((GPT2,), 1e-9 / 50_000)
    weights[: GPT2 - 50_000] = 1 / (GPT2 - 50_000)
    fraction = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    index = invert(weights.expand(99, -1), 1 - 1e-9 * (1 - fraction))
    expected = GPT2 - 50_000 + 50_000 * fraction
    assert (index - expected).abs().max() < 100


def test_extreme_logits_are_drawn_without_overflow(generator: torch.Generator) -> None:
    logits = torch.tensor([[3e38, -3e38, 0.0], [-3e38, -3e38, -torch.inf]])
    drawn = tl.draw(logits.expand(1000, 2, 3), generator)
    assert (drawn[:, 0] == 0).all()
    assert_frequencies(torch.bincount(drawn[:, 1], minlength=3), torch.tensor([0.5, 0.5, 0.0]))


def test_uniform_numbers_have_more_bits_than_float32(generator: torch.Generator) -> None:
    u = uniform((1000,), generator, torch.device("cpu"))
    assert (u.float().double() != u).double().mean() > 0.99


def test_uniform_tokens_are_uniform(generator: torch.Generator) -> None:
    u = uniform((100_000,), generator, torch.device("cpu"))
    assert_frequencies(torch.bincount(draw_uniform_tokens(u, 7), minlength=7), torch.full((7,), 1 / 7))
    assert draw_uniform_tokens(torch.tensor([1 - 2**-53], dtype=torch.float64), 7).item() == 6


@pytest.mark.parametrize("vocab_size", [5, 5000])
def test_no_rows_give_no_tokens(vocab_size: int) -> None:
    assert invert(torch.zeros(0, vocab_size), torch.zeros(0, dtype=torch.float64)).shape == (0,)
