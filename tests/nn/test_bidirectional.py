"""Causal architectures as denoisers: every position sees every position, and the shift moves predictions by one."""

from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tests.nn.pretrained import CAUSAL, MASK, K, L, architecture, forbidden, pretrained, tokens
from tests.nn.test_networks import sensitivity
from tokenloom.nn.language_models import BidirectionalConfig, BidirectionalLM


def network(kind: str, shift: bool = False) -> BidirectionalLM:
    return BidirectionalLM(BidirectionalConfig(architecture(kind), shift), forbidden(), pretrained(kind))


@torch.no_grad()
@pytest.mark.parametrize("kind", CAUSAL)
def test_every_output_sees_every_input_where_the_untouched_network_sees_the_past(kind: str) -> None:
    untouched, own = pretrained(kind), network(kind)
    causal = sensitivity(lambda x: untouched(input_ids=x).logits, tokens(), 33, first=5)
    assert causal.triu(1).abs().max() < 1e-5
    assert (sensitivity(lambda x: own.features(x, torch.rand(3)), tokens(), 33, first=5) > 1e-4).all()


@torch.no_grad()
@pytest.mark.parametrize("kind", CAUSAL)
def test_logits_are_those_of_the_untouched_network_under_a_mask_that_hides_nothing(kind: str) -> None:
    x, text = tokens(), ~forbidden()
    mask = torch.ones(3, 1, L, L, dtype=torch.bool)
    expected = pretrained(kind)(input_ids=x, attention_mask=mask, use_cache=False).logits
    torch.testing.assert_close(network(kind)(x, torch.rand(3))[..., text], expected[..., text])


@torch.no_grad()
def test_the_shift_moves_predictions_by_one_and_leaves_the_first_without_its_own() -> None:
    x, time = tokens(), torch.rand(3)
    plain, shifted = network("qwen2")(x, time), network("qwen2", shift=True)(x, time)
    assert torch.equal(shifted[:, 1:], plain[:, :-1])
    assert torch.equal(shifted[:, 0], plain[:, 0])
    assert not torch.equal(shifted[:, 1:], plain[:, 1:])


@pytest.mark.parametrize(("kind", "shift"), [("llama", False), ("qwen2", True), ("qwen3", False)])
def test_it_samples_is_saved_and_loads_again_with_the_same_logits(kind: str, shift: bool, tmp_path: Path) -> None:
    process = tl.Masked(K, mask_id=MASK, schedule=tl.LinearSchedule(eps=0.0))
    model = tl.DiffusionModel(network(kind, shift), process, predicts=tl.Denoiser)
    for sampler in ("ancestral", "confidence", "mudm:resample=true"):
        drawn = tl.sample(model, 4, length=L, steps=4, sampler=sampler, generator=torch.Generator().manual_seed(0))
        assert not forbidden()[drawn].any()
    model.save(tmp_path / "model")
    loaded = tl.load(tmp_path / "model")
    assert isinstance(loaded, tl.DiffusionModel)
    assert model.length == loaded.length == 26
    noisy = process.corrupt(tokens(), torch.rand(3), torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(model.predict(noisy).logits, loaded.predict(noisy).logits)  # type: ignore[attr-defined]
