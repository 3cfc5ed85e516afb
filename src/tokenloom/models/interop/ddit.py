r"""The backbone that MDLM, UDLM, Duo, SEDD, BD3LM, GIDD and the paper's code share (DDiT), as a `DiT`.

Its tensors fit ours by renaming.  Three things change beside the names, all of them exactly:

    mask outside the vocabulary   the head keeps its first K rows: every family sets the logit of the mask to -inf
    time ignored (sigma = 0)      the condition c_0 = silu(W_2 silu(W_0 [1, 0] + b_0) + b_2) is constant, and so is
                                  every modulation W c_0 + b
    class label y                 W (c + k) + b = W c + (b + W k) with k = silu(E[y]) moves into the biases

Names are those of the released files; whatever does not fit is named before anything is built.
"""

import re
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tokenloom.models.interop.families import declared_sizes
from tokenloom.models.tensors import check_tensors
from tokenloom.nn.conditioning import Fusion
from tokenloom.nn.networks import DiT
from tokenloom.nn.transformer import TransformerConfig

Tensors = dict[str, Tensor]

EMBEDDING = "vocab_embed.embedding"
ABSORBING = "conditioning_vocab_embed.embedding"
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
BLOCK = "blocks.0."
NAMES = {
    "embedding.table.weight": EMBEDDING,
    "embedding.absorbing.weight": ABSORBING,
    "embedding.mix.0.": "conditioning_input_mlp.0.",
    "embedding.mix.2.": "conditioning_input_mlp.2.",
    "embedding.mix.": "conditioning_input_proj.",
    "time.mlp.": "sigma_map.mlp.",
    f"{BLOCK}norm_attention.": f"{BLOCK}norm1.",
    f"{BLOCK}attention.qkv.": f"{BLOCK}attn_qkv.",
    f"{BLOCK}attention.out.": f"{BLOCK}attn_out.",
    f"{BLOCK}norm_mlp.": f"{BLOCK}norm2.",
    f"{BLOCK}expand.": f"{BLOCK}mlp.0.",
    f"{BLOCK}contract.": f"{BLOCK}mlp.2.",
    f"{BLOCK}modulation.linear.": f"{BLOCK}adaLN_modulation.",
    "norm.": "output_layer.norm_final.",
    "modulation.linear.": "output_layer.adaLN_modulation.",
    "head.": "output_layer.linear.",
}
"""Prefixes of the names in a `DiT`, the first that fits, and those that replace them in a DDiT."""


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


def parameters(tensors: Tensors) -> Tensors:
    """Return the tensors that are trained: all but the buffers."""
    return {name: value for name, value in tensors.items() if not re.fullmatch(BUFFERS, name)}


def averaged(tensors: Tensors, shadow: list[Tensor]) -> Tensors:
    """Replace the weights by their moving average, a list without names in the order of registration."""
    raw = parameters(tensors)
    if [value.shape for value in shadow] != [value.shape for value in raw.values()]:
        what = f"{len(shadow)} tensors, which do not have the shapes of the {len(raw)} weights"
        raise ValueError(f"the moving average has {what}; import the raw weights")
    return tensors | dict(zip(raw, shadow, strict=True))


def measure(tensors: Tensors, config: dict[str, Any]) -> TransformerConfig:
    """Return the config of the `DiT` that holds all tensors, after checking that they and its own config fit."""
    if not any("adaLN_modulation" in name for name in tensors):
        raise ValueError("it has no adaLN_modulation, so it is an autoregressive baseline; import a diffusion model")
    for name in (EMBEDDING, "sigma_map.mlp.0.weight"):
        if name not in tensors or tensors[name].ndim != 2:
            raise ValueError(f"{name} is missing or is not a matrix, so the size of the network cannot be read")
    bias = tensors.get("logit_bias")
    if bias is not None and bool(bias.ne(0).any()):
        raise ValueError(f"logit_bias is {bias.flatten()[0]:g}; only 0, which changes nothing, is known")
    rows, width = tensors[EMBEDDING].shape
    found = {"rows": rows, "width": width, "condition": len(tensors["sigma_map.mlp.0.weight"])}
    found["depth"] = len({match[1] for name in tensors if (match := re.match(r"blocks\.(\d+)\.", name))})
    for name, share in (("rotary_emb.inv_freq", 2), ("rotary_emb.cos_cached", 1)):  # only they show the heads
        if name in tensors and tensors[name].numel():
            found["heads"] = width // (share * tensors[name].shape[-1:].numel())
    sizes = declared_sizes(config, found)
    absorbing = any(name.startswith("conditioning_") for name in tensors)
    fusion: Fusion = "separate_linear" if ABSORBING in tensors else "shared_mlp"
    whole = TransformerConfig(rows, sizes.pop("rows"), **sizes, absorbing=absorbing, fusion=fusion, time_scale=1.0)
    expected = {theirs: value for theirs, (_, value) in layout(whole).items()}
    if LABELS in tensors:
        expected[LABELS] = torch.empty(*tensors[LABELS].shape[:1], whole.condition, device="meta")
    check_tensors(expected, parameters(tensors))
    return whole


def layout(config: TransformerConfig) -> dict[str, tuple[str, Tensor]]:
    """Return, for every tensor of a DDiT by its name, its name in the `DiT` of a config and one of its shape."""
    with torch.device("meta"):  # and of one block, which the others repeat: a file may claim any size
        first = DiT(replace(config, depth=1, time=True)).state_dict()
    found = {}
    for ours, value in first.items():
        theirs = next(other + ours.removeprefix(own) for own, other in NAMES.items() if ours.startswith(own))
        for index in range(config.depth if ours.startswith(BLOCK) else 1):
            block = f"blocks.{index}."
            found[theirs.replace(BLOCK, block)] = ours.replace(BLOCK, block), value
    return found


def to_dit(tensors: Tensors, config: TransformerConfig, label: int | None = None) -> Tensors:
    """Return the weights of a `DiT`; `label` is the class to fold in, by default the last, which means no class."""
    least = torch.float32  # everything is computed in it, or in float64
    kept = {name: value.to(torch.promote_types(value.dtype, least)) for name, value in parameters(tensors).items()}
    table = kept.pop(LABELS, None)
    if table is not None:
        _fold_label(kept, table, len(table) - 1 if label is None else label)
    elif label is not None:
        raise ValueError(f"the network has no class labels, got label {label}")
    for name in (EMBEDDING, ABSORBING) if ABSORBING in kept else (EMBEDDING,):
        kept[name] = kept[name][: config.num_states]
    for part in ("weight", "bias"):
        kept[f"output_layer.linear.{part}"] = kept[f"output_layer.linear.{part}"][: config.vocab_size]
    renamed = {ours: kept[theirs] for theirs, (ours, _) in layout(config).items()}
    return renamed if config.time else _fold_time(renamed)


def _fold_label(kept: Tensors, table: Tensor, label: int) -> None:
    if not 0 <= label < len(table):
        raise ValueError(f"label must be in 0..{len(table) - 1}, the last one for no class, got {label}")
    shift = F.silu(table[label].double())
    for name in [name for name in kept if name.endswith("adaLN_modulation.bias")]:
        weight = kept[name.removesuffix("bias") + "weight"].double()
        kept[name] = (kept[name].double() + weight @ shift).to(kept[name].dtype)


def _fold_time(renamed: Tensors) -> Tensors:
    """Fold the condition at sigma = 0, whose features are ones and then zeros, into every modulation."""
    W_0, b_0, W_2, b_2 = (renamed[f"time.mlp.{name}"].double() for name in ("0.weight", "0.bias", "2.weight", "2.bias"))
    condition = F.silu(W_2 @ F.silu(W_0[:, : W_0.shape[1] // 2].sum(1) + b_0) + b_2)
    folded: Tensors = {}
    for name, value in renamed.items():
        if name.endswith("modulation.linear.weight"):
            constant = value.double() @ condition + renamed[name.removesuffix("weight") + "bias"].double()
            folded[name.removesuffix("linear.weight") + "constant"] = constant.to(value.dtype)
        elif not name.startswith("time.mlp.") and not name.endswith("modulation.linear.bias"):
            folded[name] = value
    return folded
