"""Sampling a causal network from left to right, with the exact network of a Markov chain.

The false-alarm rate of a chi-square test is at most 1e-6.
"""

import pytest
import torch
from torch import Tensor, nn

import tokenloom as tl
from tests import brute
from tests.samplers.helpers import K, oracle
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.posteriors import OverTokens, Posterior
from tokenloom.samplers.autoregressive import Autoregressive

L, ROWS = 3, 20_000
INITIAL, TRANSITION = torch.tensor([0.6, 0.3, 0.1]).double(), brute.random_pi(K, K, seed=4)
CHAIN = INITIAL[:, None, None] * TRANSITION[:, :, None] * TRANSITION[None]


class Chain(nn.Module):
    """p(x^l | x^{l-1}), whatever stands at l and after it; it remembers the times and the rows it is shown."""

    causal = True

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []
        self.rows = 0

    def forward(self, tokens: Tensor, time: Tensor) -> Tensor:
        self.times += time.tolist()
        self.rows += len(tokens)
        first = INITIAL.log().expand(len(tokens), 1, -1)
        return torch.cat([first, TRANSITION.log()[tokens[:, :-1]]], 1)


def chain(predicts: type[Posterior] = tl.LeaveOneOut) -> tl.DiffusionModel:
    return tl.DiffusionModel(Chain(), tl.Uniform(K), predicts=predicts)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_sequences_have_the_law_of_the_chain_whatever_the_steps(steps: int) -> None:
    network = Chain()
    samples = tl.run_sampler(tl.DiffusionModel(network, tl.Uniform(K)), ROWS, L, steps, generator=generator())
    assert_frequencies(sequence_counts(samples.tokens, K), CHAIN)
    assert samples.evaluations.tolist() == [L] * ROWS
    assert network.rows == ROWS * L


def test_at_time_t_the_first_positions_are_written_and_stay() -> None:
    """Times 2/3, 1/3 and 0 of three positions: one more each time."""
    seen: list[tl.Step] = []
    tokens = tl.sample(chain(), 50, L, steps=3, generator=generator(), on_step=seen.append)
    for number, step in enumerate(seen, 1):
        assert torch.equal(step.after.tokens[:, :number], tokens[:, :number])
        assert not bool(step.changed[:, number:].any())


def test_network_is_shown_the_time_it_was_trained_at() -> None:
    network = Chain()
    tl.sample(tl.DiffusionModel(network, tl.Uniform(K)), 2, L, steps=3)
    assert set(network.times) == {0.0}


def test_given_tokens_are_read_kept_and_cost_nothing() -> None:
    """The first is given: p(. | 1), then p(. | x^2), in two evaluations."""
    fixed = torch.tensor([1, 0, 0]), torch.tensor([True, False, False])
    samples = tl.run_sampler(chain(), ROWS, L, fixed=fixed, generator=generator())
    assert bool((samples.tokens[:, 0] == 1).all())
    assert_frequencies(sequence_counts(samples.tokens[:, 1:], K), TRANSITION[1][:, None] * TRANSITION)
    assert samples.evaluations.tolist() == [L - 1] * ROWS


@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
@pytest.mark.parametrize("on", [tl.LeaveOneOut, tl.Denoiser])
def test_a_token_that_was_not_seen_is_no_evidence(predicts: type[Posterior], on: type[OverTokens]) -> None:
    """Greedily every row is the same, on whichever posterior, for they are one."""
    tokens = tl.sample(
        chain(predicts), 100, L, steps=3, truncation=tl.Truncation(top_k=1, on=on), generator=generator()
    )
    first = int(INITIAL.argmax())
    second = int(TRANSITION[first].argmax())
    assert bool((tokens == torch.tensor([first, second, int(TRANSITION[second].argmax())])).all())


def test_an_empty_batch_is_drawn_as_such() -> None:
    assert tl.sample(chain(), 0, L).shape == (0, L)


def test_it_is_asked_for_by_name_by_object_or_not_at_all() -> None:
    drawn = [
        tl.sample(chain(), 20, L, predictor=predictor, generator=generator())
        for predictor in ("ancestral", "autoregressive", Autoregressive())
    ]
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2])


def test_what_does_not_go_from_left_to_right_is_refused() -> None:
    fixed = torch.zeros(L, dtype=torch.int64), torch.ones(L, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"sampled from left to right \(autoregressive\), got the predictor psi"):
        tl.sample(chain(), 1, L, predictor="psi")
    with pytest.raises(ValueError, match="a causal network has no corrector"):
        tl.sample(chain(), 1, L, corrector="informed")
    with pytest.raises(ValueError, match="reads given tokens as they are, got given='noised'; leave it at auto"):
        tl.run_sampler(chain(), 1, L, fixed=fixed, given="noised")
    with pytest.raises(ValueError, match="needs a causal network, and this one sees every position"):
        tl.sample(oracle(tl.Uniform), 1, predictor=Autoregressive())
