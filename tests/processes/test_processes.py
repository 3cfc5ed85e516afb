"""Corruption, priors and steps are drawn by their laws, in every cell.  Fixed seeds, false-alarm rate 1e-6 each."""

import pytest
import torch

import tokenloom as tl
from tests import brute
from tests.laws.grid import CELLS, K, L, level_and_masses, process_of
from tests.laws.helpers import EXACT
from tests.statistics import assert_frequencies, sequence_counts

COUNT = 100_000
X_0 = [0, 2]
every_cell = pytest.mark.parametrize(("noise", "coupling"), CELLS)


def forward_law(noise: str, t: float) -> torch.Tensor:
    """q_{t|0}(. | X_0) over sequences of states, the auxiliary variable averaged out."""
    alpha, mass = level_and_masses(noise, t)
    each = mass + alpha * torch.nn.functional.one_hot(torch.tensor(X_0), mass.shape[1])
    return torch.outer(each[0], each[1])


@every_cell
@pytest.mark.parametrize("t", [0.0, 0.35, 1.0])
def test_corruption_follows_the_forward_law(noise: str, coupling: str, t: float, generator: torch.Generator) -> None:
    x_0 = torch.tensor([X_0]).expand(COUNT, L).contiguous()
    noisy = process_of(noise, coupling).corrupt(x_0, torch.full((COUNT,), t), generator)
    law = forward_law(noise, t)
    assert_frequencies(sequence_counts(noisy.tokens, len(law)), law)


@every_cell
def test_the_prior_has_lost_everything(noise: str, coupling: str, generator: torch.Generator) -> None:
    process = process_of(noise, coupling)
    state = process.prior(COUNT, L, generator)
    law = forward_law(noise, 1.0)
    assert_frequencies(sequence_counts(state.tokens, len(law)), law)
    assert (state.t == 1).all()
    if isinstance(process.coupling, tl.couplings.Absorbing):
        assert state.aux is not None
        assert torch.equal(state.tokens, state.aux)
    if isinstance(process.coupling, tl.couplings.TransitionTimes):
        assert (process.coupling.masked_view(process, state) == K).all()


@every_cell
def test_drawn_steps_follow_the_dense_law(noise: str, coupling: str, generator: torch.Generator) -> None:
    """The branch-first draw against the dense law, from a state of each kind."""
    process = process_of(noise, coupling)
    noisy = process.corrupt(torch.tensor([X_0]), torch.tensor([0.8]), generator)
    many = noisy.sequences(torch.zeros(COUNT, dtype=torch.int64))
    prediction = tl.Denoiser(torch.randn(1, L, K, generator=generator).expand(COUNT, L, K))
    law = process.bridge(many, torch.full((COUNT,), 0.3), prediction)
    drawn = law.draw(generator)
    for position in range(L):
        dense = law.dense()[0, position]
        assert_frequencies(torch.bincount(drawn[:, position], minlength=len(dense)), dense)


@pytest.mark.parametrize("size", [7, 1200])
def test_steps_given_clean_tokens_follow_the_dense_law(size: int, generator: torch.Generator) -> None:
    process = tl.Uniform(size, schedule=EXACT)
    x_t, x_0 = torch.full((COUNT, 1), 3), torch.full((COUNT, 1), 5)
    t = torch.full((COUNT,), 0.9, dtype=torch.float64)
    law = process.bridge(tl.Noisy(x_t, t, 1 - t), t / 2, x_0)
    exact = brute.bridge(5, 3, brute.uniform_pi(size, 1)[0], 0.55, 0.1)
    assert_frequencies(torch.bincount(law.draw(generator).flatten(), minlength=size), exact)


def test_an_unknown_device_is_named() -> None:
    for draw in (lambda: tl.Uniform(K).prior(1, 2, device="list"), lambda: tl.RowGenerators([1], "list")):
        with pytest.raises(ValueError, match=r"device must be .* cpu or cuda:0, got 'list'"):
            draw()
