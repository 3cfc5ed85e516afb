"""The backbone of the field written a second time, from its formulas alone, and files of it with random weights."""

import json
import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

D, H, N, C, V = 32, 4, 3, 16, 11
Tensors = dict[str, Tensor]


def random_backbone(
    rows: int = V, seed: int = 0, labels: int = 0, fusion: str = "none", dtype: torch.dtype = torch.float64
) -> Tensors:
    """Tensors in the order in which the originals register them, with the buffer of the rotary angles."""
    shapes: dict[str, tuple[int, ...]] = {"vocab_embed.embedding": (rows, D)}

    def linear(name: str, outputs: int, inputs: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (outputs, inputs), (outputs,)

    if fusion == "separate_linear":
        shapes["conditioning_vocab_embed.embedding"] = (rows, D)
        linear("conditioning_input_proj", D, 2 * D + 1)
    if fusion == "shared_mlp":
        linear("conditioning_input_mlp.0", 4 * D, 2 * D + 1)
        linear("conditioning_input_mlp.2", D, 4 * D)
    linear("sigma_map.mlp.0", C, 256)
    linear("sigma_map.mlp.2", C, C)
    if labels:
        shapes["cond_map.embedding_table.weight"] = (labels, C)
    shapes["rotary_emb.inv_freq"] = (D // H // 2,)
    for block in (f"blocks.{i}" for i in range(N)):
        shapes |= {f"{block}.norm1.weight": (D,), f"{block}.attn_qkv.weight": (3 * D, D)}
        shapes |= {f"{block}.attn_out.weight": (D, D), f"{block}.norm2.weight": (D,)}
        linear(f"{block}.mlp.0", 4 * D, D)
        linear(f"{block}.mlp.2", D, 4 * D)
        linear(f"{block}.adaLN_modulation", 6 * D, C)
    shapes["output_layer.norm_final.weight"] = (D,)
    linear("output_layer.linear", rows, D)
    linear("output_layer.adaLN_modulation", 2 * D, C)
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        name: 0.3 * torch.randn(shape, generator=generator, dtype=dtype) + ("norm" in name)
        for name, shape in shapes.items()
    }
    tensors["rotary_emb.inv_freq"] = 10000 ** (-torch.arange(0, D // H, 2).float() * H / D)
    return tensors


def forward(w: Tensors, x: Tensor, sigma: Tensor, absorbing: Tensor | None = None, label: int | None = None) -> Tensor:
    """Raw logits [batch, length, rows]."""
    dtype, e = w["vocab_embed.embedding"].dtype, D // H
    y = w["vocab_embed.embedding"][x]
    if absorbing is not None:
        own = w.get("conditioning_vocab_embed.embedding")  # of separate_linear, whose map is linear
        table = w["vocab_embed.embedding"] if own is None else own
        pair = torch.cat([y, table[absorbing], (x == absorbing)[..., None].to(dtype)], -1)
        y = _mlp(w, "conditioning_input_mlp", pair) if own is None else _linear(w, "conditioning_input_proj", pair)
    angles = sigma.float()[:, None] * torch.exp(-math.log(10000.0) * torch.arange(128).float() / 128)
    c = torch.cat([torch.cos(angles), torch.sin(angles)], 1).to(dtype)
    c = F.silu(_linear(w, "sigma_map.mlp.2", F.silu(_linear(w, "sigma_map.mlp.0", c))))
    if label is not None:
        c = c + F.silu(w["cond_map.embedding_table.weight"][label])
    turn = torch.arange(x.shape[1]).float()[:, None] * 10000 ** (-torch.arange(0, e, 2).float() / e)
    cos, sin = (torch.cat([part, part], -1).to(dtype) for part in (turn.cos(), turn.sin()))
    for name in (f"blocks.{i}" for i in range(N)):
        m = _linear(w, f"{name}.adaLN_modulation", c)[:, None].chunk(6, -1)
        z = F.layer_norm(y, (D,), w[f"{name}.norm1.weight"]) * (1 + m[1]) + m[0]
        q, k, v = (z @ w[f"{name}.attn_qkv.weight"].T).view(*x.shape, 3, H, e).unbind(2)
        q, k = (part * cos[:, None] + _turned(part) * sin[:, None] for part in (q, k))
        weights = torch.softmax(torch.einsum("blhe,bmhe->bhlm", q, k) / math.sqrt(e), -1)
        mixed = torch.einsum("bhlm,bmhe->blhe", weights, v).reshape(*x.shape, D)
        y = y + m[2] * (mixed @ w[f"{name}.attn_out.weight"].T)
        z = F.layer_norm(y, (D,), w[f"{name}.norm2.weight"]) * (1 + m[4]) + m[3]
        y = y + m[5] * _mlp(w, f"{name}.mlp", z)
    shift, scale = _linear(w, "output_layer.adaLN_modulation", c)[:, None].chunk(2, -1)
    y = F.layer_norm(y, (D,), w["output_layer.norm_final.weight"])
    return _linear(w, "output_layer.linear", y * (1 + scale) + shift)


def _linear(w: Tensors, name: str, x: Tensor) -> Tensor:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def _mlp(w: Tensors, name: str, x: Tensor) -> Tensor:
    return _linear(w, f"{name}.2", F.gelu(_linear(w, f"{name}.0", x), approximate="tanh"))


def _turned(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


HF: dict[str, Any] = {"hidden_dim": D, "n_blocks": N, "n_heads": H, "cond_dim": C, "model_length": 9, "dropout": 0.1}
MODEL: dict[str, Any] = {"hidden_size": D, "n_blocks": N, "n_heads": H, "cond_dim": C, "length": 9, "dropout": 0.1}
"""The sizes in a config.json on the Hub, and those in the config of a training run."""


def config_of(family: str, rows: int = V) -> dict[str, Any]:
    """The config.json of a family."""
    if family == "gidd":
        names = {"hidden_size": D, "num_hidden_layers": N, "num_attention_heads": H, "timestep_cond_dim": C}
        return names | {"max_seq_len": 9, "vocab_size": rows, "model_type": "dit", "p_uniform": 0.0, "t_eps": 1e-4}
    if family == "sedd":
        return {"tokens": rows - 1, "graph": {"type": "absorb"}, "noise": {"type": "loglinear"}, "model": MODEL}
    extra: dict[str, dict[str, Any]] = {
        "mdlm": {"time_conditioning": False},
        "bd3lm": {"block_size": 9},
        "udlm": {"time_conditioning": True},
    }
    return HF | {"vocab_size": rows, "model_type": family} | extra.get(family, {})


def write_checkpoint(folder: Path, family: str, tensors: Tensors | None = None, **config: Any) -> Path:
    """A folder as on the Hub."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = random_backbone(dtype=torch.float32) if tensors is None else tensors
    rows, prefix = len(tensors["vocab_embed.embedding"]), "" if family in ("sedd", "gidd") else "backbone."
    save_file({prefix + name: value.contiguous() for name, value in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config_of(family, rows) | config))
    return folder
