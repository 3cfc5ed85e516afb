r"""The backbone that MDLM, UDLM, Duo, SEDD, BD3LM, GIDD and the paper's code share (DDiT), as a `DiT`.

Its tensors fit ours by renaming.  Three things change beside the names, all of them exactly:

    mask outside the vocabulary   the head keeps its first K rows: every family sets the logit of the mask to -inf
    time ignored (sigma = 0)      the condition c_0 = silu(W_2 silu(W_0 [1, 0] + b_0) + b_2) is constant, and so is
                                  every modulation W c_0 + b
    class label y                 W (c + k) + b = W c + (b + W k) with k = silu(E[y]) moves into the biases

Names and shapes are those of the released files; whatever does not fit is named before anything is built.
"""

import re
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from tokenloom.models.tensors import check_tensors
from tokenloom.nn.transformer import TransformerConfig

Tensors = dict[str, Tensor]
Shapes = dict[str, list[int]]
TimeInput = Literal["zero", "time", "sigma"]
Fusion = Literal["none", "shared_mlp", "separate_linear"]

EMBEDDING = "vocab_embed.embedding"
LABELS = "cond_map.embedding_table.weight"
PREFIXES = (
    "diffusion.model.backbone.",
    "module.diffusion.model.backbone.",
    "backbone.backbone.",
    "backbone.",
    "module.backbone.",
    "model.",
    "",
)
BUFFERS = r"rotary_emb\..*|sampling_eps_(min|max)|logit_bias"
FREQUENCIES = 256
NAMES = {
    EMBEDDING: "embedding.table.weight",
    r"conditioning_input_mlp\.(.*)": r"embedding.mix.\1",
    r"sigma_map\.mlp\.(.*)": r"time.mlp.\1",
    r"blocks\.(\d+)\.norm1\.(.*)": r"blocks.\1.norm_attention.\2",
    r"blocks\.(\d+)\.attn_qkv\.(.*)": r"blocks.\1.attention.qkv.\2",
    r"blocks\.(\d+)\.attn_out\.(.*)": r"blocks.\1.attention.out.\2",
    r"blocks\.(\d+)\.norm2\.(.*)": r"blocks.\1.norm_mlp.\2",
    r"blocks\.(\d+)\.mlp\.0\.(.*)": r"blocks.\1.expand.\2",
    r"blocks\.(\d+)\.mlp\.2\.(.*)": r"blocks.\1.contract.\2",
    r"blocks\.(\d+)\.adaLN_modulation\.(.*)": r"blocks.\1.modulation.linear.\2",
    r"output_layer\.norm_final\.(.*)": r"norm.\1",
    r"output_layer\.adaLN_modulation\.(.*)": r"modulation.linear.\1",
    r"output_layer\.linear\.(.*)": r"head.\1",
}


@dataclass(frozen=True)
class Sizes:
    """Sizes that the tensors themselves show."""

    rows: int
    """V, the rows of the embedding."""
    width: int
    depth: int
    condition: int
    heads: int | None
    """None if no buffer of the rotary angles tells."""
    labels: int
    """Rows of the table of class labels, 0 without one."""
    fusion: Fusion
    """The layer that reads the absorbing sequence U."""

    @property
    def parameters(self) -> int:
        """Count the numbers in all tensors of such a network."""
        return sum(torch.Size(shape).numel() for shape in shapes(self).values())


def shapes(sizes: Sizes) -> Shapes:
    """Return the shape of every parameter by its name."""
    V, d, c = sizes.rows, sizes.width, sizes.condition
    found: Shapes = {EMBEDDING: [V, d]}
    if sizes.fusion == "separate_linear":
        found |= {"conditioning_vocab_embed.embedding": [V, d]} | _linear("conditioning_input_proj", 2 * d + 1, d)
    if sizes.fusion == "shared_mlp":
        found |= _linear("conditioning_input_mlp.0", 2 * d + 1, 4 * d) | _linear("conditioning_input_mlp.2", 4 * d, d)
    found |= _linear("sigma_map.mlp.0", FREQUENCIES, c) | _linear("sigma_map.mlp.2", c, c)
    if sizes.labels:
        found[LABELS] = [sizes.labels, c]
    for block in (f"blocks.{index}" for index in range(sizes.depth)):
        found |= {f"{block}.norm1.weight": [d], f"{block}.attn_qkv.weight": [3 * d, d]}
        found |= {f"{block}.attn_out.weight": [d, d], f"{block}.norm2.weight": [d]}
        found |= _linear(f"{block}.mlp.0", d, 4 * d) | _linear(f"{block}.mlp.2", 4 * d, d)
        found |= _linear(f"{block}.adaLN_modulation", c, 6 * d)
    found |= {"output_layer.norm_final.weight": [d]} | _linear("output_layer.linear", d, V)
    return found | _linear("output_layer.adaLN_modulation", c, 2 * d)


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": [outputs, inputs], f"{name}.bias": [outputs]}


# -------------------------------------------------------------------- reading


def strip_prefix(tensors: Tensors) -> tuple[Tensors, str]:
    """Return the tensors of the backbone without their prefix, and the prefix."""
    found = {
        prefix: {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        for prefix in PREFIXES
        if prefix + EMBEDDING in tensors
    }
    if not found and any("conv" in name or "down_blocks" in name for name in tensors):
        raise ValueError("its tensors are those of a U-Net, and only transformers of this family can be imported")
    if not found:
        raise ValueError(
            f"its tensors are not those of a DDiT: there is no {EMBEDDING} under any known prefix; "
            f"the first names are {', '.join(sorted(tensors)[:5]) or 'none'}"
        )
    (first, own), *others = found.items()
    for prefix, other in others:
        if own.keys() != other.keys() or not all(torch.equal(own[name], other[name]) for name in own):
            raise ValueError(f"the file holds two different backbones, under {first!r} and {prefix!r}")
    return own, first


def averaged(tensors: Tensors, shadow: list[Tensor]) -> Tensors:
    """Replace the weights by their moving average, a list without names in the order of registration."""
    names = list(_parameters(tensors))
    if len(names) != len(shadow):
        raise ValueError(
            f"the moving average has {len(shadow)} tensors, but the network has {len(names)}; import the raw weights"
        )
    for name, value in zip(names, shadow, strict=True):
        if value.shape != tensors[name].shape:
            raise ValueError(
                f"the moving average of {name} has shape {list(value.shape)} where the weight has "
                f"{list(tensors[name].shape)}; import the raw weights"
            )
    return tensors | dict(zip(names, shadow, strict=True))


def measure(tensors: Tensors) -> Sizes:
    """Return the sizes, after checking that exactly the tensors of such a network are there."""
    if not any("adaLN_modulation" in name for name in tensors):
        raise ValueError(
            "it has no adaLN_modulation, so it is an autoregressive baseline of this family, whose first token is "
            "predicted by convention and not by the network; import a diffusion model"
        )
    for name in (EMBEDDING, "sigma_map.mlp.0.weight"):
        if name not in tensors or tensors[name].ndim != 2:
            raise ValueError(f"{name} is missing or is not a matrix, so the size of the network cannot be read")
    blocks = [int(match[1]) for name in tensors if (match := re.match(r"blocks\.(\d+)\.", name))]
    bias = tensors.get("logit_bias")
    if bias is not None and bool(bias.ne(0).any()):
        raise ValueError(f"logit_bias is {bias.flatten()[0]:g}; only 0, which changes nothing, is known")
    rows, width = tensors[EMBEDDING].shape
    parts = {name.partition(".")[0] for name in tensors}
    shared: Fusion = "shared_mlp" if "conditioning_input_mlp" in parts else "none"
    sizes = Sizes(
        rows=rows,
        width=width,
        depth=len(set(blocks)),
        condition=len(tensors["sigma_map.mlp.0.weight"]),
        heads=_heads(tensors, width),
        labels=len(tensors.get(LABELS, ())),
        fusion="separate_linear" if "conditioning_input_proj" in parts else shared,
    )
    expected = {name: torch.empty(shape, device="meta") for name, shape in shapes(sizes).items()}
    check_tensors(expected, _parameters(tensors))
    return sizes


def _parameters(tensors: Tensors) -> Tensors:
    return {name: value for name, value in tensors.items() if not re.fullmatch(BUFFERS, name)}


def _heads(tensors: Tensors, width: int) -> int | None:
    """Read the number of heads from the rotary buffers, the only place in the file where it shows."""
    if "rotary_emb.inv_freq" in tensors:
        return width // (2 * tensors["rotary_emb.inv_freq"].numel())
    if "rotary_emb.cos_cached" in tensors:
        return width // tensors["rotary_emb.cos_cached"].shape[-1]
    return None


# -------------------------------------------------------------------- writing


def dit_config(
    sizes: Sizes,
    vocab_size: int,
    num_states: int,
    length: int,
    heads: int,
    time: TimeInput,
    limits: tuple[float | None, float | None] = (None, None),
    dropout: float = 0.0,
) -> TransformerConfig:
    """Return the config of the `DiT` of a backbone, whose time is always 0, t, or sigma = -log alpha_t."""
    least, most = (None, None) if time == "zero" else limits
    return TransformerConfig(
        vocab_size=vocab_size,
        num_states=num_states,
        length=length,
        width=sizes.width,
        depth=sizes.depth,
        heads=heads,
        condition=sizes.condition,
        dropout=dropout,
        time=time != "zero",
        absorbing=sizes.fusion == "shared_mlp",
        clock="sigma" if time == "sigma" else "time",
        time_scale=1.0,
        time_least=least,
        time_most=most,
    )


def to_dit(tensors: Tensors, config: TransformerConfig, label: int | None = None) -> Tensors:
    """Return the weights of a `DiT`; `label` is the class to fold in, by default the last, which means no class."""
    if any(name.startswith("conditioning_input_proj") for name in tensors):
        raise ValueError(
            "it reads U through a table of its own (conditioning_fusion separate_linear), and DiT shares one table "
            "between x_t and U (shared_mlp); such a network has to be trained again"
        )
    kept = {
        name: value if value.dtype == torch.float64 else value.float()  # everything is computed in float32 at least
        for name, value in _parameters(tensors).items()
    }
    table = kept.pop(LABELS, None)
    if table is not None:
        _fold_label(kept, table, len(table) - 1 if label is None else label)
    elif label is not None:
        raise ValueError(f"the network has no class labels, got label {label}")
    kept[EMBEDDING] = kept[EMBEDDING][: config.num_states]
    for part in ("weight", "bias"):
        kept[f"output_layer.linear.{part}"] = kept[f"output_layer.linear.{part}"][: config.vocab_size]
    renamed = {_renamed(name): value for name, value in kept.items()}
    return renamed if config.time else _fold_time(renamed)


def _renamed(name: str) -> str:
    pattern = next(pattern for pattern in NAMES if re.fullmatch(pattern, name))
    return re.sub(pattern, NAMES[pattern], name)


def _fold_label(kept: Tensors, table: Tensor, label: int) -> None:
    if not 0 <= label < len(table):
        raise ValueError(f"label must be in 0..{len(table) - 1}, the last one for no class, got {label}")
    shift = F.silu(table[label].double())
    for name in [name for name in kept if name.endswith("adaLN_modulation.bias")]:
        weight = kept[name.removesuffix("bias") + "weight"].double()
        kept[name] = (kept[name].double() + weight @ shift).to(kept[name].dtype)


def _fold_time(renamed: Tensors) -> Tensors:
    """Fold the condition at sigma = 0, whose features are ones and then zeros, into every modulation."""
    first, first_bias, second, second_bias = (
        renamed[f"time.mlp.{name}"].double() for name in ("0.weight", "0.bias", "2.weight", "2.bias")
    )
    condition = F.silu(second @ F.silu(first[:, : FREQUENCIES // 2].sum(1) + first_bias) + second_bias)
    folded: Tensors = {}
    for name, value in renamed.items():
        if name.endswith("modulation.linear.weight"):
            constant = value.double() @ condition + renamed[name.removesuffix("weight") + "bias"].double()
            folded[name.removesuffix("linear.weight") + "constant"] = constant.to(value.dtype)
        elif not name.startswith("time.mlp.") and not name.endswith("modulation.linear.bias"):
            folded[name] = value
    return folded
