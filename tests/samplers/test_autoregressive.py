"""Sampling a causal network from left to right, with the exact network of a Markov chain.

The false-alarm rate of a chi-square test is at most 1e-6.
"""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.exact_network import ExactChain
from tests.samplers.helpers import K, generator
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.posteriors import OverTokens, Posterior
from tokenloom.samplers import Autoregressive

L, ROWS = 3, 20_000
INITIAL, TRANSITION = torch.tensor([0.6, 0.3, 0.1]).double(), brute.random_pi(K, K, seed=4)
CHAIN = INITIAL[:, None, None] * TRANSITION[:, :, None] * TRANSITION[None]


def chain(predicts: type[Posterior] = tl.LeaveOneOut) -> tl.DiffusionModel:
    return tl.DiffusionModel(ExactChain(INITIAL, TRANSITION), tl.LeftToRight(K), predicts=predicts)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_sequences_have_the_law_of_the_chain_whatever_the_steps(steps: int) -> None:
    network, times = ExactChain(INITIAL, TRANSITION), list[Tensor]()
    network.register_forward_pre_hook(lambda _, shown: times.append(shown[1]))
    model = tl.DiffusionModel(network, tl.LeftToRight(K))
    samples = tl.Sampler(steps=steps).run(model, ROWS, length=L, generator=generator())
    assert_frequencies(sequence_counts(samples.tokens, K), CHAIN)
    assert samples.evaluations.tolist() == [L] * ROWS
    assert torch.equal(torch.cat(times), torch.zeros(ROWS * L).double())  # the time it was trained at


def test_at_time_t_the_first_positions_are_written_and_stay() -> None:
    """Times 2/3, 1/3 and 0 of three positions: one more each time."""
    run = tl.Sampler(steps=3).steps(chain(), 50, length=L, generator=generator())
    for number, step in enumerate(steps := list(run), 1):
        assert torch.equal(step.tokens[:, :number], steps[-1].tokens[:, :number])
        assert not bool(step.changed[:, number:].any())


def test_given_tokens_are_read_kept_and_cost_nothing() -> None:
    """The first is given: p(. | 1), then p(. | x^2), in two evaluations."""
    given = torch.tensor([1, 0, 0]), torch.tensor([True, False, False])
    samples = tl.Sampler().run(chain(), ROWS, length=L, given=given, generator=generator())
    assert bool((samples.tokens[:, 0] == 1).all())
    assert_frequencies(sequence_counts(samples.tokens[:, 1:], K), TRANSITION[1][:, None] * TRANSITION)
    assert samples.evaluations.tolist() == [L - 1] * ROWS
    whole = tl.Sampler().run(chain(), 4, length=L, given=(torch.tensor([2, 0, 1]), torch.ones(L, dtype=torch.bool)))
    assert whole.tokens.tolist() == [[2, 0, 1]] * 4
    assert whole.evaluations.tolist() == [0] * 4


@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
@pytest.mark.parametrize("on", [tl.LeaveOneOut, tl.Denoiser])
def test_a_token_that_was_not_seen_is_no_evidence(predicts: type[Posterior], on: type[OverTokens]) -> None:
    """Greedily every row is the same, on whichever posterior, for they are one."""
    tokens = tl.sample(chain(predicts), 100, length=L, steps=3, top_k=1, on=on, generator=generator())
    first = INITIAL.argmax()
    second = TRANSITION[first].argmax()
    assert bool((tokens == torch.stack([first, second, TRANSITION[second].argmax()])).all())


def test_it_is_asked_for_by_name_by_object_or_not_at_all() -> None:
    expected = tl.sample(chain(), 20, length=L, generator=generator())
    for sampler in ("ancestral", "autoregressive", Autoregressive()):
        assert torch.equal(tl.sample(chain(), 20, length=L, sampler=sampler, generator=generator()), expected)


def test_a_row_that_has_drawn_its_end_costs_nothing_more_and_has_the_law_of_the_chain_up_to_it() -> None:
    end = 2
    samples = tl.Sampler(Autoregressive(end)).run(chain(), ROWS, length=L, generator=generator())
    stopped = CHAIN.clone()
    for first in range(K):
        stopped[first, end] = 0
        stopped[first, end, end] = CHAIN[first, end].sum()
    stopped[end] = 0
    stopped[end, end, end] = CHAIN[end].sum()
    assert_frequencies(sequence_counts(samples.tokens, K), stopped)
    before = (samples.tokens == end).cumsum(1) == 0
    assert torch.equal(samples.evaluations, (before.sum(1) + 1).clamp(max=L))


def test_an_end_that_is_given_ends_nothing_and_rows_end_as_if_alone() -> None:
    given = torch.tensor([2, 0, 0, 0]), torch.tensor([True, False, False, False])
    sampler = tl.Sampler(Autoregressive(2))
    together = sampler.run(chain(), 20, length=4, given=given, generator=tl.RowGenerators(range(20)))
    assert bool((together.tokens[:, 1:] != 2).any(1).any())
    assert 1 <= int(together.evaluations.min()) < int(together.evaluations.max()) == 3
    for row in range(20):
        alone = sampler.run(chain(), 1, length=4, given=given, generator=tl.RowGenerators([row]))
        assert torch.equal(alone.tokens[0], together.tokens[row])
        assert alone.evaluations[0] == together.evaluations[row]


def test_an_end_outside_the_vocabulary_gets_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"end must be a token id in 0\.\.2, got 3"):
        tl.sample(chain(), 1, length=L, sampler=Autoregressive(3))
