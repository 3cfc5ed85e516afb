"""Language models of transformers as denoisers: same logits, split, and without special tokens.

A masked one is framed; in a causal architecture every position sees every position, and the shift moves predictions.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import tokenloom as tl
from tests.nn.pretrained import CAUSAL, FIRST, LAST, MASK, MASKED, PAD, TEXT, K, L, architecture, pretrained, tokens
from tests.nn.test_networks import reloaded, sensitivity
from tokenloom.nn.base import Task
from tokenloom.nn.hugging_face import PretrainedOptions
from tokenloom.nn.language_models import BidirectionalConfig, BidirectionalLM, MaskedLM, MaskedLMConfig


def network(kind: str, **other: object) -> MaskedLM:
    return MaskedLM(MaskedLMConfig(architecture(kind, **other), FIRST, LAST), ~TEXT, pretrained(kind, **other))


def bidirectional(kind: str, shift: bool = False) -> BidirectionalLM:
    return BidirectionalLM(BidirectionalConfig(architecture(kind), shift), ~TEXT, pretrained(kind))


def model(kind: str = "bert", shift: bool = False) -> tl.DiffusionModel[tl.Denoiser]:
    process = tl.Masked(K, mask_id=MASK, schedule=tl.LinearSchedule(eps=0.0))
    own = bidirectional(kind, shift) if kind in CAUSAL else network(kind)
    return tl.DiffusionModel(own, process, predicts=tl.Denoiser)


def noised() -> tl.Noisy:
    return model().process.corrupt(tokens(), torch.rand(3), torch.Generator().manual_seed(0))


def framed(x: Tensor) -> Tensor:
    return F.pad(F.pad(x, (1, 0), value=FIRST), (0, 1), value=LAST)


@torch.no_grad()
@pytest.mark.parametrize("kind", MASKED)
def test_logits_are_those_of_the_untouched_network_and_minus_infinity_at_special_ids(kind: str) -> None:
    x = tokens()
    x[0, :4] = MASK
    expected = pretrained(kind)(input_ids=framed(x), attention_mask=torch.ones_like(framed(x))).logits[:, 1:-1]
    logits = network(kind)(x, torch.rand(3))
    torch.testing.assert_close(logits[..., TEXT], expected[..., TEXT])
    assert logits[..., ~TEXT].isneginf().all()
    assert expected.std() > 0.1


@torch.no_grad()
@pytest.mark.parametrize("kind", MASKED)
def test_the_head_at_some_positions_is_linear_and_gives_the_logits_there(kind: str) -> None:
    own, x, time = network(kind), tokens(), torch.rand(3)
    features = own.features(x, time)
    assert torch.equal(own.head(features[:, [1, 4]]), F.linear(features[:, [1, 4]], own.head.weight, own.head.bias))
    torch.testing.assert_close(own.head(features[:, [1, 4]]), own(x, time)[:, [1, 4]])
    assert torch.equal(own(x, time, features_only=True), features)
    denoiser = tl.DiffusionModel(own, tl.Masked(K, mask_id=MASK), predicts=tl.Denoiser)
    assert denoiser.linear_head is own.head
    assert denoiser.timeless


@pytest.mark.parametrize("kind", MASKED)
def test_a_tied_matrix_is_one_parameter_and_stays_one_after_saving(kind: str, tmp_path: Path) -> None:
    own = model(kind)
    loaded = reloaded(own, noised(), tmp_path)
    for network in (own.network, loaded.network, copy.deepcopy(own.network)):
        assert isinstance(network, MaskedLM)
        assert network.head.weight is network.body.get_input_embeddings().weight
        assert not [name for name in network.state_dict() if name.startswith("head.own_weight")]


def test_an_untied_matrix_is_saved_of_its_own() -> None:
    own = network("bert", tie_word_embeddings=False)
    assert own.head.weight is not own.body.get_input_embeddings().weight
    assert "head.own_weight" in own.state_dict()


@torch.no_grad()
@pytest.mark.parametrize("kind", ["roberta", "xlm-roberta"])
def test_positions_do_not_move_when_the_padding_is_among_the_tokens(kind: str) -> None:
    """By itself the network counts the tokens that are not padding, so that all behind one would move."""
    own = network(kind)
    own.body.get_input_embeddings().weight[PAD] = own.body.get_input_embeddings().weight[6]
    padded = tokens()
    padded[:, 2] = 6
    same = own.features(padded, torch.rand(3))
    padded[:, 2] = PAD
    torch.testing.assert_close(own.features(padded, torch.rand(3)), same)


@pytest.mark.parametrize(("kind", "longest"), [("bert", 24), ("roberta", 22), ("modernbert", 24), ("esm", 24)])
def test_the_longest_sequence_leaves_room_for_the_frame_and_the_padding(kind: str, longest: int) -> None:
    own = network(kind)
    assert own.length == longest
    assert own(tokens(1, longest), torch.rand(1)).shape == (1, longest, K)
    with pytest.raises(ValueError, match=f"at most {longest} positions, got {longest + 1}"):
        own(tokens(1, longest + 1), torch.rand(1))


@torch.no_grad()
@pytest.mark.parametrize("kind", CAUSAL)
def test_every_output_sees_every_input_where_the_untouched_network_sees_the_past(kind: str) -> None:
    untouched, own = pretrained(kind), bidirectional(kind)
    causal = sensitivity(lambda x: untouched(input_ids=x).logits, tokens(), 33, first=5)
    assert causal.triu(1).abs().max() < 1e-5
    assert (sensitivity(lambda x: own.features(x, torch.rand(3)), tokens(), 33, first=5) > 1e-4).all()


@torch.no_grad()
@pytest.mark.parametrize("kind", CAUSAL)
def test_logits_are_those_of_the_untouched_network_under_a_mask_that_hides_nothing(kind: str) -> None:
    mask = torch.ones(3, 1, L, L, dtype=torch.bool)
    expected = pretrained(kind)(input_ids=tokens(), attention_mask=mask, use_cache=False).logits
    torch.testing.assert_close(bidirectional(kind)(tokens(), torch.rand(3))[..., TEXT], expected[..., TEXT])


@torch.no_grad()
def test_the_shift_moves_predictions_by_one_and_leaves_the_first_without_its_own() -> None:
    plain, shifted = (bidirectional("qwen2", shift)(tokens(), torch.rand(3)) for shift in (False, True))
    assert torch.equal(shifted[:, 1:], plain[:, :-1])
    assert torch.equal(shifted[:, 0], plain[:, 0])
    assert not torch.equal(shifted[:, 1:], plain[:, 1:])


@pytest.mark.parametrize(("kind", "shift"), [("llama", False), ("qwen2", True), ("qwen3", False)])
def test_a_bidirectional_network_is_saved_and_loads_again_with_the_same_logits(
    kind: str, shift: bool, tmp_path: Path
) -> None:
    own = model(kind, shift)
    assert own.length == reloaded(own, noised(), tmp_path).length == 26


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert", "esm", "llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("sampler", ["ancestral", "confidence", "remasking", "mudm", "mudm:resample=true"])
def test_no_special_token_is_ever_sampled(kind: str, sampler: str) -> None:
    own, generator = model(kind, shift=kind == "qwen2"), torch.Generator().manual_seed(0)
    drawn = tl.sample(own, 8, length=L, steps=5, sampler=sampler, generator=generator)
    assert TEXT[drawn].all()


def test_given_special_tokens_are_kept() -> None:
    """As an unknown word of a prompt would be: the point mass on what is given has nothing to do with the head."""
    kept, flags = torch.zeros(2, L, dtype=torch.int64), torch.zeros(2, L, dtype=torch.bool)
    kept[:, 3], flags[:, [0, 3]] = 39, True
    for sampler in ("ancestral", "confidence", "mudm:resample=true"):
        generator = torch.Generator().manual_seed(0)
        drawn = tl.sample(model(), 2, length=L, steps=5, sampler=sampler, given=(kept, flags), generator=generator)
        assert torch.equal(drawn[flags], kept[flags])
        assert TEXT[drawn[~flags]].all()


def test_gradients_are_finite_and_none_arrives_at_forbidden_ids() -> None:
    own = model()
    loss = tl.training_loss(own, tl.objectives.CrossEntropy(), tokens(), torch.full((3,), 0.5))
    loss.mean.backward()  # type: ignore[no-untyped-call]
    slopes = {name: parameter.grad for name, parameter in own.named_parameters() if parameter.grad is not None}
    assert all(bool(slope.isfinite().all()) for slope in slopes.values())
    (slope,) = (slope for name, slope in slopes.items() if name.endswith("head.own_bias"))
    assert (slope[~TEXT] == 0).all()
    assert (slope[TEXT] != 0).any()


def test_the_bound_of_a_uniform_denoiser_is_the_logarithm_of_its_tokens() -> None:
    own = model()
    for parameter in own.parameters():
        torch.nn.init.zeros_(parameter)
    bound = tl.nelbo(own, tokens(64), generator=torch.Generator().manual_seed(0))
    assert bound.per_token == pytest.approx(
        torch.tensor(float(TEXT.sum())).log().item(), abs=4 * bound.standard_error + 1e-3
    )


def test_a_config_names_no_code_and_no_kernels() -> None:
    """A hostile config could name an attention of its own, to be fetched; what it says of code is dropped."""
    hostile = {"auto_map": {"AutoConfig": "evil.Config"}, "_attn_implementation": "evil/kernels", "dtype": "bfloat16"}
    own = built(hostile)
    assert own.body.config._attn_implementation == "sdpa"
    assert own.head.weight.dtype == torch.float32


def built(changes: dict[str, Any] | None = None, last: int = LAST, flags: Tensor = ~TEXT) -> MaskedLM:
    return MaskedLM(MaskedLMConfig(architecture("bert") | (changes or {}), FIRST, last), flags)


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: built({"model_type": "bart-of-mars"}), "cannot build a network of type 'bart-of-mars'"),
    (lambda: built({"hidden_size": 15}), "cannot build a network of type 'bert'"),
    (lambda: built({"vocab_size": None}), "lacks vocab_size"),
    (lambda: built(last=K), r"last must be .* 0\.\.39, got 40"),
    (lambda: built(flags=torch.ones(K, dtype=torch.bool)), "some but not all of 40 ids"),
    (lambda: PretrainedOptions().build(Task(K, K, L)), "tokenloom train --from FOLDER"),  # never from scratch
]


@pytest.mark.parametrize(("make", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_what_does_not_fit_is_named(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()
