"""A DDiT of other libraries gives the same logits as our `DiT` with its tensors, against a second forward pass."""

import pytest
import torch

from tests.models.interop.ddit_reference import C, D, H, N, Tensors, V, forward, random_backbone
from tokenloom.models.interop import ddit
from tokenloom.nn.dit import DiT

TOKENS = torch.randint(0, V, (5, 9), generator=torch.Generator().manual_seed(1))
SIGMA = torch.tensor([0.0, 0.01, 0.7, 3.0, 6.9])


def built(
    tensors: Tensors,
    time: ddit.TimeInput = "sigma",
    limits: tuple[float, float] = (0.0, 6.9078),
    vocab_size: int = V,
    label: int | None = None,
) -> DiT:
    config = ddit.dit_config(ddit.measure(tensors), vocab_size, V, 9, H, time, limits)
    network = DiT(config).to(tensors["vocab_embed.embedding"].dtype).eval()
    network.load_state_dict(ddit.to_dit(tensors, config, label))
    return network


@pytest.mark.parametrize(("dtype", "largest"), [(torch.float32, 1e-3), (torch.float64, 1e-11)])
def test_a_renamed_backbone_gives_the_logits_of_the_original(dtype: torch.dtype, largest: float) -> None:
    tensors = random_backbone(dtype=dtype)
    ours = built(tensors)(TOKENS, SIGMA.to(dtype))
    theirs = forward(tensors, TOKENS, SIGMA)
    assert theirs.abs().mean() > 1
    assert (ours - theirs).abs().max() < largest


def test_a_wrong_scale_of_the_time_cannot_go_unnoticed() -> None:
    tensors = random_backbone()
    network = built(tensors)
    assert network.time is not None
    network.time.scale = 1000.0
    assert (network(TOKENS, SIGMA.double()) - forward(tensors, TOKENS, SIGMA)).abs().mean() > 0.1


def test_a_constant_time_folds_into_the_modulations() -> None:
    tensors = random_backbone()
    network = built(tensors, "zero", vocab_size=V - 1)
    theirs = forward(tensors, TOKENS, torch.zeros(5))
    assert network.timeless
    assert (network(TOKENS, SIGMA.double()) - theirs[..., : V - 1]).abs().max() < 1e-11


@pytest.mark.parametrize("label", [0, 1, 2, 3, None])
def test_a_class_label_folds_into_the_biases_and_the_last_stands_for_none(label: int | None) -> None:
    tensors = random_backbone(labels=4)
    theirs = forward(tensors, TOKENS, SIGMA, label=3 if label is None else label)
    assert (built(tensors, label=label)(TOKENS, SIGMA.double()) - theirs).abs().max() < 1e-11
    assert (theirs - forward(tensors, TOKENS, SIGMA)).abs().mean() > 0.1


def test_the_shared_mlp_reads_the_absorbing_sequence() -> None:
    tensors = random_backbone(fusion="shared_mlp")
    absorbing = TOKENS.roll(1, 0)
    ours = built(tensors)(TOKENS, SIGMA.double(), absorbing)
    assert (ours - forward(tensors, TOKENS, SIGMA, absorbing)).abs().max() < 1e-11


def test_the_times_beyond_those_of_training_are_moved_to_the_nearest() -> None:
    network = built(random_backbone(), "time", (1e-4, 1 - 1e-4))
    beyond, within = torch.tensor([0.0, 1.0]).double(), torch.tensor([1e-4, 1 - 1e-4]).double()
    assert torch.equal(network(TOKENS[:2], beyond), network(TOKENS[:2], within))


@pytest.mark.parametrize(
    ("rows", "width", "depth", "count"),
    [(50258, 768, 12, 169_627_218), (50258, 1024, 24, 424_477_010), (30522, 768, 12, None), (V, D, N, None)],
)
def test_the_parameters_follow_the_closed_formula(rows: int, width: int, depth: int, count: int | None) -> None:
    c = C if width == D else 128
    sizes = ddit.Sizes(rows, width, depth, c, None, 0, "none")
    per_block = 12 * width**2 + 7 * width + 6 * width * (c + 1)
    formula = 2 * rows * width + rows + (256 * c + c + c**2 + c) + depth * per_block + width + 2 * width * (c + 1)
    assert sizes.parameters == formula
    assert count is None or formula == count


@pytest.mark.parametrize("prefix", ddit.PREFIXES)
def test_every_prefix_is_found(prefix: str) -> None:
    tensors = random_backbone()
    own, found = ddit.strip_prefix({prefix + name: value for name, value in tensors.items()} | {"other.thing": SIGMA})
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
    with pytest.raises(ValueError, match=f"has {len(shadow) - 1} tensors, but the network has {len(shadow)}"):
        ddit.averaged(raw, shadow[:-1])
    with pytest.raises(ValueError, match=r"moving average of vocab_embed\.embedding has shape"):
        ddit.averaged(raw, [shadow[0].T, *shadow[1:]])


def _without(name: str) -> Tensors:
    return {key: value for key, value in random_backbone().items() if key != name}


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        (_without("blocks.1.attn_out.weight"), "the weights lack blocks.1.attn_out.weight"),
        (random_backbone() | {"extra.weight": SIGMA}, "the weights have an unknown extra.weight"),
        (
            random_backbone() | {"blocks.0.norm1.weight": torch.ones(3)},
            r"blocks.0.norm1.weight has shape \[3\], but .* \[32\]",
        ),
        (
            random_backbone() | {"blocks.0.norm1.weight": torch.ones(D, dtype=torch.int64)},
            "norm1.weight holds torch.int64",
        ),
        (random_backbone() | {"logit_bias": torch.full((1, 1, 1), 0.5)}, "logit_bias is 0.5"),
        ({k: v for k, v in random_backbone().items() if "adaLN" not in k}, "an autoregressive baseline"),
        (_without("sigma_map.mlp.0.weight"), "sigma_map.mlp.0.weight is missing"),
    ],
)
def test_what_is_not_such_a_backbone_is_refused_by_the_first_thing_wrong(tensors: Tensors, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ddit.measure(tensors)


@pytest.mark.parametrize(
    ("tensors", "label", "sentence"),
    [
        (random_backbone(fusion="separate_linear"), None, "separate_linear"),
        (random_backbone(labels=4), 4, r"label must be in 0\.\.3, .* got 4"),
        (random_backbone(), 0, "no class labels, got label 0"),
    ],
)
def test_what_a_dit_cannot_be_is_refused(tensors: Tensors, label: int | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        built(tensors, label=label)


@pytest.mark.parametrize(
    ("names", "sentence"), [(["down_blocks.0.conv"], "U-Net"), (["transformer.wte"], "there is no vocab_embed")]
)
def test_another_architecture_is_named(names: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ddit.strip_prefix(dict.fromkeys(names, SIGMA))


def test_the_heads_show_in_the_rotary_buffers_alone() -> None:
    tensors = random_backbone()
    assert ddit.measure(tensors).heads == H
    cached = _without("rotary_emb.inv_freq")
    assert ddit.measure(cached).heads is None
    assert ddit.measure(cached | {"rotary_emb.cos_cached": torch.zeros(1, 9, 3, 1, D // H)}).heads == H
