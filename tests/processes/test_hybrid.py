"""Hybrid noise (GIDD) beyond the laws of `laws/test_grid.py`: draws, a mask inside, the estimated bound."""

import pytest
import torch

import tokenloom as tl
from tests import brute
from tokenloom.testing import check_noise

K, L, P_UNIFORM = 3, 2, 0.3
P0 = brute.random_p0(K, L)
PROCESS = tl.Hybrid(K, P_UNIFORM)
INSIDE = tl.Hybrid(K + 1, P_UNIFORM, mask_id=1)


def test_the_time_of_a_level_and_its_slope() -> None:
    t = torch.tensor([0.02, 0.3, 0.5, 0.9], dtype=torch.float64)
    torch.testing.assert_close(PROCESS.time_at(PROCESS.alpha(t)), t, rtol=1e-10, atol=1e-10)
    slope = (PROCESS.alpha(t + 1e-6) - PROCESS.alpha(t - 1e-6)) / 2e-6
    torch.testing.assert_close(PROCESS.alpha_prime(t), slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("process", [PROCESS, INSIDE], ids=["outside", "inside"])
def test_noise_is_drawn_by_its_law_and_draws_another_token_when_asked(process: tl.Process) -> None:
    """Frequencies over 20,000 even numbers u, and the masses in time."""
    report = check_noise(process.noise, process.schedule)
    assert report, report


def test_the_estimated_bound_covers_the_entropy_with_signal_left_at_the_end() -> None:
    """Within five standard errors, a false alarm of 6e-7 at a fixed seed, and what the start forgets of p_0."""
    oracle = tl.Oracle(P0, tl.Hybrid(K, P_UNIFORM, schedule=tl.LinearSchedule(0.2)))
    generator = torch.Generator().manual_seed(0)
    found = tl.nelbo(oracle, oracle.sample(1_500, generator), generator=generator)
    assert -5 * found.standard_error < found.nats - oracle.entropy() < 0.02 + 5 * found.standard_error


def test_options_outside_their_range_are_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"p_uniform must be in \(0, 1\), got 0.0; without uniform noise use Masked"):
        tl.Hybrid(K, 0.0)
