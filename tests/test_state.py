"""A state's parts stay together, whatever is taken out of it."""

from dataclasses import fields

import pytest
import torch

import tokenloom as tl
from tests import brute

FULL = tl.Noisy(
    torch.arange(6).view(2, 3),
    torch.tensor([0.2, 0.7]),
    torch.tensor([0.8, 0.3], dtype=torch.float64),
    torch.arange(6, 12).view(2, 3),
    torch.tensor([[True, False, False], [False, False, True]]),
    torch.tensor([[4, 5, 6], [1, 2, 3]]),
    torch.tensor([[0.0, 1.0, torch.inf], [0.5, 2.0, 3.0]], dtype=torch.float64),
)


def test_a_state_moves_to_a_device_with_every_part_and_its_dtype() -> None:
    moved = FULL.to("meta")
    for item in fields(FULL):
        before, after = getattr(FULL, item.name), getattr(moved, item.name)
        assert (after.device.type, after.shape, after.dtype) == ("meta", before.shape, before.dtype)
    bare = tl.Noisy(FULL.tokens, FULL.t, FULL.alpha_t).to("meta")
    assert (bare.aux, bare.given, bare.place, bare.evidence) == (None, None, None, None)
    assert bare.alpha_t.dtype == torch.float64


def test_positions_keep_their_row_s_time_and_their_place() -> None:
    where = torch.tensor([[False, True, True], [True, False, False]])
    local = FULL.positions(where)
    assert local.tokens.tolist() == [[1], [2], [3]]
    for item in fields(FULL):
        whole = getattr(FULL, item.name)
        expected = whole[where.nonzero()[:, 0]] if whole.ndim == 1 else whole[where].unsqueeze(1)
        assert torch.equal(getattr(local, item.name), expected)
    placed = tl.Noisy(FULL.tokens, FULL.t, FULL.alpha_t).positions(where).place
    assert placed is not None
    assert placed.tolist() == [[1], [2], [0]]


def test_each_position_is_every_position_in_reading_order() -> None:
    every = torch.ones_like(FULL.tokens, dtype=torch.bool)
    for state in (FULL, tl.Noisy(FULL.tokens, FULL.t, FULL.alpha_t)):
        for item in fields(FULL):
            one, other = (getattr(each, item.name) for each in (state.each_position(), state.positions(every)))
            assert (one is None and other is None) or torch.equal(one, other)


@pytest.mark.parametrize("coupling", [tl.couplings.Markov(), tl.couplings.Maximal()], ids=repr)
def test_noise_of_a_place_goes_with_a_position_that_was_taken_out(coupling: tl.couplings.Coupling) -> None:
    """Bridge, rates and evidence of single positions are those of the batch they were taken from."""
    process = tl.Process(tl.noise.Table(4, brute.random_pi(4, 3)), coupling)
    generator = torch.Generator().manual_seed(3)
    x_0 = torch.randint(0, 4, (5, 3), generator=generator)
    noisy = process.corrupt(x_0, torch.full((5,), 0.6, dtype=torch.float64), generator)
    logits = torch.randn(5, 3, 4, generator=generator, dtype=torch.float64)
    where = torch.rand(5, 3, generator=generator) < 0.5
    local, s = noisy.positions(where), torch.full((5,), 0.2, dtype=torch.float64)
    assert torch.equal(process.evidence(local).squeeze(1), process.evidence(noisy)[where])
    for kind in (tl.Denoiser, tl.LeaveOneOut):
        whole, single = kind(logits), kind(logits[where].unsqueeze(1))
        step = process.bridge(local, s[where.nonzero()[:, 0]], single).dense().squeeze(1)
        assert torch.equal(step, process.bridge(noisy, s, whole).dense()[where])
        rates = process.reverse_rates(local, single).dense().squeeze(1)
        assert torch.equal(rates, process.reverse_rates(noisy, whole).dense()[where])
