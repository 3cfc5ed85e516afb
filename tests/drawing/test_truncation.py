"""Truncated sets against the textbook: sort, accumulate, cut."""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.statistics import assert_frequencies
from tokenloom.drawing import truncation
from tokenloom.drawing.truncation import cut_top_p, top_k_set


def textbook_top_p(values: Tensor, p: float) -> Tensor:
    """A stable descending sort puts equal logits in the order of their ids."""
    ordered, index = values.sort(dim=-1, descending=True, stable=True)
    weights = (ordered - ordered[:, :1]).exp().double()
    mass = weights.cumsum(-1)
    return torch.zeros_like(values, dtype=torch.bool).scatter(-1, index, mass - weights < p * mass[:, -1:])


def top_p_set(values: Tensor, p: float) -> Tensor:
    cut = cut_top_p(values, p)
    kept = cut == values
    assert torch.equal(kept | (values == -torch.inf), (cut > -torch.inf) | (values == -torch.inf))
    return kept & (values > -torch.inf)


def textbook_top_k(values: Tensor, k: int) -> Tensor:
    index = values.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    return torch.zeros_like(values, dtype=torch.bool).scatter(-1, index, True)


def logits(size: int) -> dict[str, Tensor]:
    noise = torch.randn(24, size, generator=torch.Generator().manual_seed(21))
    place = torch.arange(size)
    return {
        "random": 2 * noise,
        "peaked": 8 * noise,
        "flat": 0.05 * noise,
        "constant": 0 * noise,
        "tied": noise.round(),
        "tied and peaked": (2 * noise).round() * 2,
        "one token": torch.where(place == size // 3, 0.0, -torch.inf).expand(24, size),
        "mixed": noise * torch.linspace(0, 12, 24)[:, None],
        "with impossible tokens": torch.where((noise > 0) | (place == 1), noise, -torch.inf),
    }


KINDS = list(logits(3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [3, 64, 65, 1000, 20_000])
@pytest.mark.parametrize("p", [1e-6, 0.1, 0.5, 0.9, 0.999])
def test_top_p_keeps_the_textbook_set(kind: str, size: int, p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By PyTorch's sort, where rows are short, and by NumPy's, whatever their length."""
    values = logits(size)[kind]
    for short in (truncation.SHORT, 0):
        monkeypatch.setattr(truncation, "SHORT", short)
        assert torch.equal(top_p_set(values, p), textbook_top_p(values, p))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "k"), [(3, 1), (3, 2), (1000, 1), (1000, 50), (1000, 999)])
def test_top_k_keeps_the_textbook_set(kind: str, size: int, k: int) -> None:
    values = logits(size)[kind]
    assert torch.equal(top_k_set(values, k), textbook_top_k(values, k))


@pytest.mark.parametrize("size", [1000, 2000])
def test_a_mass_that_rounding_puts_out_of_reach_is_still_reached(size: int) -> None:
    """Probabilities over 30 orders of magnitude, of which all but a rounding error are asked for."""
    values = 12 * torch.randn(500, size, generator=torch.Generator().manual_seed(1))
    weights, kept = (values - values.amax(-1, keepdim=True)).double().exp(), top_p_set(values, 1 - 2**-53)
    assert (torch.where(kept, weights, 0).sum(-1) > weights.sum(-1) * (1 - 1e-12)).all()
    assert (torch.where(kept, values, torch.inf).amin(-1) >= torch.where(kept, -torch.inf, values).amax(-1)).all()


@pytest.mark.parametrize("p", [0.5, 0.9, 0.99, 1 - 1e-5, 1 - 1e-9])
def test_top_p_is_exact_where_float32_sums_cannot_tell(p: float) -> None:
    """Probabilities of about 4e-6: a float32 sum of 262,144 of them is off by a tenth of one and more."""
    noise = torch.randn(2, 262_144, generator=torch.Generator().manual_seed(5))
    power = -1.1 * torch.log(torch.arange(1, 262_145)).expand(2, -1)
    for values in (noise / 2, power.gather(1, noise.argsort(1)), (2 * noise).round()):
        assert torch.equal(top_p_set(values, p), textbook_top_p(values, p))


def test_truncation_applies_temperature_then_top_k_then_top_p() -> None:
    logits = torch.tensor([[[2.0, 1.0, 0.0, -1.0, -2.0]]])
    kept = tl.truncate(logits, tl.Truncation(temperature=2.0, top_k=3, top_p=0.7))
    tempered = torch.softmax(torch.tensor([1.0, 0.5, 0.0]), -1)
    assert tempered[0] < 0.7 <= tempered[:2].sum()
    expected = torch.tensor([[[1.0, 0.5, -torch.inf, -torch.inf, -torch.inf]]])
    torch.testing.assert_close(torch.softmax(kept, -1), torch.softmax(expected, -1))


@pytest.mark.parametrize(
    ("dtype", "temperature"),
    [(torch.float16, 1e-4), (torch.float32, 1e-38), (torch.float32, 1e-46), (torch.float32, 1e38)],
)
def test_extreme_temperatures_do_not_overflow(dtype: torch.dtype, temperature: float) -> None:
    logits = torch.tensor([[30.0, 29.0, 1.0]], dtype=dtype)
    kept = tl.truncate(logits, tl.Truncation(temperature=temperature, top_p=0.9))
    expected = [1.0, 0.0, 0.0] if temperature < 1 else [1 / 3, 1 / 3, 1 / 3]
    torch.testing.assert_close(torch.softmax(kept, -1), torch.tensor([expected]), rtol=0, atol=1e-6)


def test_no_truncation_changes_nothing() -> None:
    logits = torch.randn(2, 3, 50)
    assert torch.equal(tl.truncate(logits, tl.Truncation()), logits)
    assert torch.equal(tl.truncate(logits, tl.Truncation(top_k=50)), logits)


def test_truncated_draws_follow_the_renormalised_law(generator: torch.Generator) -> None:
    """100,000 draws, false-alarm rate 1e-6."""
    logits = torch.randn(40, generator=generator)
    kept = tl.truncate(logits, tl.Truncation(top_p=0.5))
    law = torch.softmax(kept.double(), -1)
    assert 1 < int((law > 0).sum()) < 20
    assert_frequencies(torch.bincount(tl.draw(kept.expand(100_000, -1), generator), minlength=40), law)


def test_a_truncation_is_applied_to_the_representation_it_names() -> None:
    posterior = tl.LeaveOneOut(torch.randn(1, 2, 9))
    assert type(tl.Truncation(top_p=0.5).truncated(posterior)) is tl.LeaveOneOut
    with pytest.raises(ValueError, match="on Denoiser, got LeaveOneOut; convert"):
        tl.Truncation(top_p=0.5, on=tl.Denoiser).truncated(posterior)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"top_p": 1.5}, r"top_p must be in \(0, 1\], got 1.5"),
        ({"top_p": 0.0}, r"top_p must be in \(0, 1\], got 0.0"),
        ({"temperature": 0.0}, "temperature must be positive and finite, got 0.0"),
        ({"temperature": float("nan")}, "temperature must be positive and finite, got nan"),
        ({"top_k": 0}, "top_k must be at least 1, got 0"),
        ({"on": tl.Score}, "truncation is on Denoiser or LeaveOneOut, got"),
    ],
)
def test_wrong_options_are_named(options: dict[str, float], sentence: str, as_a_user: None) -> None:
    with pytest.raises(ValueError, match=sentence):
        tl.Truncation(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("on", ["Score", None, ["Denoiser"]])
def test_a_damaged_record_is_refused(on: object, as_a_user: None) -> None:
    with pytest.raises(ValueError, match="on Denoiser or LeaveOneOut, got"):
        tl.Truncation.restore(tl.Truncation(top_p=0.5).record() | {"on": on})
