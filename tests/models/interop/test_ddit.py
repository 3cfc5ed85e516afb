"""A DDiT of other libraries gives the same logits as our `DiT` with its tensors, against a second forward pass."""

import time
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.models.interop.ddit_reference import D, H, N, Tensors, V, forward, random_backbone
from tokenloom.models.interop import ddit
from tokenloom.models.interop.families import SIGMA, ZERO
from tokenloom.nn import TransformerConfig
from tokenloom.nn.networks import DiT

TOKENS = torch.randint(0, V, (5, 9), generator=torch.Generator().manual_seed(1))
TIMES = torch.tensor([0.0, 0.01, 0.7, 3.0, 6.9])
LENGTH = {"model_length": 9}


def built(tensors: Tensors, clock: dict[str, Any] = SIGMA, vocab_size: int = V, label: int | None = None) -> DiT:
    whole = ddit.measure(tensors, LENGTH)
    states = V if whole.absorbing else whole.num_states  # a uniform process reads no row beyond its tokens
    config = replace(whole, vocab_size=vocab_size, num_states=states, **clock)
    network = DiT(config).to(tensors["vocab_embed.embedding"].dtype).eval()
    network.load_state_dict(ddit.to_dit(tensors, config, label))
    return network


@pytest.mark.parametrize(("dtype", "largest"), [(torch.float32, 1e-3), (torch.float64, 1e-11)])
def test_a_renamed_backbone_gives_the_logits_of_the_original(dtype: torch.dtype, largest: float) -> None:
    tensors = random_backbone(dtype=dtype)
    ours = built(tensors)(TOKENS, TIMES.to(dtype))
    theirs = forward(tensors, TOKENS, TIMES)
    assert theirs.abs().mean() > 1
    assert (ours - theirs).abs().max() < largest


def test_a_constant_time_folds_into_the_modulations() -> None:
    tensors = random_backbone()
    network = built(tensors, ZERO, vocab_size=V - 1)
    theirs = forward(tensors, TOKENS, torch.zeros(5))
    assert network.timeless
    assert (network(TOKENS, TIMES.double()) - theirs[..., : V - 1]).abs().max() < 1e-11


@pytest.mark.parametrize("label", [0, 1, 2, 3, None])
def test_a_class_label_folds_into_the_biases_and_the_last_stands_for_none(label: int | None) -> None:
    tensors = random_backbone(labels=4)
    theirs = forward(tensors, TOKENS, TIMES, label=3 if label is None else label)
    assert (built(tensors, label=label)(TOKENS, TIMES.double()) - theirs).abs().max() < 1e-11
    assert (theirs - forward(tensors, TOKENS, TIMES)).abs().mean() > 0.1


@pytest.mark.parametrize("fusion", ["shared_mlp", "separate_linear"])
@pytest.mark.parametrize("rows", [V, V + 1])
def test_both_fusions_of_the_paper_read_the_absorbing_sequence(fusion: str, rows: int) -> None:
    tensors = random_backbone(rows, fusion=fusion)
    absorbing = torch.where(TOKENS % 2 == 0, TOKENS, TOKENS.roll(1, 0))
    network = built(tensors)
    assert network.config.fusion == fusion
    ours = network(TOKENS, TIMES.double(), absorbing)
    assert (ours - forward(tensors, TOKENS, TIMES, absorbing)[..., :V]).abs().max() < 1e-11


def test_a_file_with_two_fusions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown conditioning_input_mlp\.0\.(bias|weight)"):
        built(random_backbone(fusion="shared_mlp") | random_backbone(fusion="separate_linear"))


def test_the_times_beyond_those_of_training_are_moved_to_the_nearest() -> None:
    network = built(random_backbone(), {"time_least": 1e-4, "time_most": 1 - 1e-4})
    beyond, within = torch.tensor([0.0, 1.0]).double(), torch.tensor([1e-4, 1 - 1e-4]).double()
    assert torch.equal(network(TOKENS[:2], beyond), network(TOKENS[:2], within))


@pytest.mark.parametrize(
    ("width", "depth", "heads", "count"), [(768, 12, 12, 169_627_218), (1024, 24, 16, 424_477_010)]
)
def test_the_released_sizes_have_the_published_parameters(width: int, depth: int, heads: int, count: int) -> None:
    config = TransformerConfig(50258, 50258, 1024, width, depth, heads)
    assert sum(value.numel() for _, value in ddit.layout(config).values()) == count


@pytest.mark.parametrize("prefix", ddit.PREFIXES)
def test_every_prefix_is_found(prefix: str) -> None:
    tensors = random_backbone()
    own, found = ddit.strip_prefix({prefix + name: value for name, value in tensors.items()} | {"other.thing": TIMES})
    assert found == prefix
    assert own["vocab_embed.embedding"] is tensors["vocab_embed.embedding"]


def test_the_same_backbone_under_two_prefixes_is_one_and_two_different_ones_are_refused() -> None:
    first, second = random_backbone(), random_backbone(seed=1)
    both = {f"backbone.backbone.{name}": value for name, value in first.items()}
    same = both | {f"diffusion.model.backbone.{name}": value for name, value in first.items()}
    assert ddit.strip_prefix(same)[1] == "diffusion.model.backbone."
    with pytest.raises(ValueError, match="two different backbones"):
        ddit.strip_prefix(both | {f"diffusion.model.backbone.{name}": value for name, value in second.items()})


def test_the_moving_average_replaces_weights_by_their_order() -> None:
    raw, average = random_backbone(), random_backbone(seed=7)
    shadow = [value for name, value in average.items() if not name.startswith("rotary_emb.")]
    assert len(shadow) == 10 * N + 10
    used = ddit.averaged(raw, shadow)
    assert all(torch.equal(used[name], average[name]) for name in raw)
    for wrong in (shadow[:-1], [shadow[0].T, *shadow[1:]]):
        with pytest.raises(ValueError, match=f"has {len(wrong)} tensors, .* of the {len(shadow)} weights"):
            ddit.averaged(raw, wrong)


def without(part: str) -> Tensors:
    return {name: value for name, value in random_backbone().items() if part not in name}


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        (without("blocks.1.attn_out"), "lack blocks.1.attn_out.weight"),
        (random_backbone() | {"extra.weight": TIMES}, "unknown extra.weight"),
        (random_backbone() | {"blocks.1.norm1.weight": torch.ones(3)}, r"1.norm1.weight .* \[3\], .* \[32\]"),
        (random_backbone() | {"blocks.0.norm1.weight": torch.ones(D).long()}, "norm1.weight holds torch.int64"),
        (random_backbone(labels=4) | {ddit.LABELS: torch.ones(4, 3)}, r"table.weight .* \[4, 3\], .* \[4, 16\]"),
        (random_backbone() | {"logit_bias": torch.full((1, 1, 1), 0.5)}, "logit_bias is 0.5"),
        (random_backbone() | {"rotary_emb.inv_freq": torch.ones(0)}, "say n_heads"),
        (without("adaLN"), "an autoregressive baseline"),
        (without("sigma_map.mlp.0.weight"), "sigma_map.mlp.0.weight is missing"),
    ],
)
def test_what_is_not_such_a_backbone_is_refused_by_the_first_thing_wrong(tensors: Tensors, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        built(tensors)


@pytest.mark.parametrize(
    ("labels", "label", "sentence"),
    [(4, 4, r"label must be in 0\.\.3, .* got 4"), (0, 0, "no class labels, got label 0")],
)
def test_a_class_that_is_not_there_is_refused(labels: int, label: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        built(random_backbone(labels=labels), label=label)


@pytest.mark.parametrize(
    ("names", "sentence"), [(["down_blocks.0.conv"], "U-Net"), (["transformer.wte"], "there is no vocab_embed")]
)
def test_another_architecture_is_named(names: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ddit.strip_prefix(dict.fromkeys(names, TIMES))


def test_the_heads_show_in_the_rotary_buffers_alone() -> None:
    assert ddit.measure(random_backbone(), LENGTH).heads == H
    cached = without("rotary_emb.inv_freq")
    assert ddit.measure(cached | {"rotary_emb.cos_cached": torch.zeros(1, 9, 3, 1, D // H)}, LENGTH).heads == H
    assert ddit.measure(cached, LENGTH | {"n_heads": 2}).heads == 2
    with pytest.raises(ValueError, match="neither the weights nor a config say n_heads"):
        ddit.measure(cached, LENGTH)


def test_many_blocks_in_a_file_are_refused_without_building_them() -> None:
    tensors = random_backbone() | {f"blocks.{index}.norm1.weight": torch.ones(0) for index in range(30_000)}
    begun = time.process_time()
    with pytest.raises(ValueError, match=r"norm1.weight has shape \[0\]"):
        ddit.measure(tensors, LENGTH)
    assert time.process_time() - begun < 5
