"""Large denoisers with a causal architecture: the logits of LLaDA by hand, and those of transformers for the others."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from tests.models.interop.test_hugging_face import WORDS, load, logits
from tests.nn.pretrained import CAUSAL, MASK, K, architecture, pretrained, tokens
from tokenloom.nn.language_models import BidirectionalLM

LLADA: dict[str, Any] = {
    "model_type": "llada", "d_model": 16, "n_heads": 2, "n_kv_heads": 1, "n_layers": 2, "mlp_hidden_size": 32,
    "max_sequence_length": 26, "rms_norm_eps": 1e-5, "rope_theta": 500.0, "embedding_size": K, "vocab_size": K - 2,
    "weight_tying": False, "mask_token_id": MASK, "block_type": "llama", "layer_norm_type": "rms",
    "activation_type": "silu", "rope": True,
}  # fmt: skip


def llada_tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = {"wte": (K, 16), "ln_f": (16,), "ff_out": (K, 16)}
    for block in ("blocks.0.", "blocks.1."):
        shapes |= {f"{block}{name}": (16,) for name in ("attn_norm", "ff_norm")}
        shapes |= {f"{block}{name}": (16, 16) for name in ("q_proj", "attn_out")}
        shapes |= {f"{block}{name}": (8, 16) for name in ("k_proj", "v_proj")}
        shapes |= {f"{block}{name}": (32, 16) for name in ("ff_proj", "up_proj")} | {f"{block}ff_out": (16, 32)}
    return {
        f"model.transformer.{name}.weight": torch.randn(shape, generator=generator) for name, shape in shapes.items()
    }


def llada_forward(w: dict[str, Tensor], x: Tensor) -> Tensor:
    """Written from the arithmetic: RMS norms, half-split rotary angles of base 500, two heads that share k and v."""
    part = {name.removeprefix("model.transformer.").removesuffix(".weight"): value for name, value in w.items()}
    angle = torch.arange(x.shape[1])[:, None] * 500.0 ** (-torch.arange(4) / 4)
    cos, sin = torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()

    def norm(u: Tensor, name: str) -> Tensor:
        return u * (u.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * part[name]

    def heads(u: Tensor, count: int) -> Tensor:
        return u.view(*u.shape[:2], count, 8).transpose(1, 2)

    def turned(u: Tensor) -> Tensor:
        first, second = u[..., :4], u[..., 4:]
        return u * cos + torch.cat([-second, first], -1) * sin

    y = part["wte"][x]
    for block in ("blocks.0.", "blocks.1."):
        u = norm(y, f"{block}attn_norm")
        q, k, v = (u @ part[f"{block}{name}"].T for name in ("q_proj", "k_proj", "v_proj"))
        scores = turned(heads(q, 2)) @ turned(heads(k, 1)).transpose(-1, -2) / 8**0.5
        mixed = (scores.softmax(-1) @ heads(v, 1)).transpose(1, 2).flatten(2)
        y = y + mixed @ part[f"{block}attn_out"].T
        u = norm(y, f"{block}ff_norm")
        gated = F.silu(u @ part[f"{block}ff_proj"].T) * (u @ part[f"{block}up_proj"].T)
        y = y + gated @ part[f"{block}ff_out"].T
    return norm(y, "ln_f") @ part["ff_out"].T


def folder_of(path: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    (path / "config.json").write_text(json.dumps(config))
    save_file({name: value.clone() for name, value in tensors.items()}, path / "model.safetensors")
    return path


def test_llada_renamed_is_llama_and_equals_a_forward_pass_by_hand(tmp_path: Path) -> None:
    weights = llada_tensors()
    model = load(folder_of(tmp_path, LLADA, weights))
    x, text = tokens(), [id for id in range(K) if id != MASK]
    expected = llada_forward(weights, x)
    torch.testing.assert_close(logits(model, x)[..., text], expected[..., text], atol=2e-4, rtol=1e-4)
    assert logits(model, x)[..., MASK].isneginf().all()
    assert isinstance(model.network, BidirectionalLM)
    assert model.length == 26


@pytest.mark.parametrize(
    ("change", "sentence"),
    [({"layer_norm_type": "default"}, "layer_norm_type 'default' is not"), ({"d_model": None}, "lacks d_model")],
)
def test_llada_with_other_blocks_is_refused(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    config = {key: value for key, value in (LLADA | change).items() if value is not None}
    with pytest.raises(ValueError, match=sentence):
        load(folder_of(tmp_path, config, llada_tensors()))


@torch.no_grad()
def test_dream_is_qwen2_with_predictions_moved_by_one(tmp_path: Path) -> None:
    plain, code = pretrained("qwen2"), {"AutoModel": "evil.py"}
    config = architecture("qwen2") | {"model_type": "Dream", "mask_token_id": MASK, "auto_map": code}
    model = load(folder_of(tmp_path, config, plain.state_dict()))
    x, text = tokens(), [id for id in range(K) if id != MASK]
    mask = torch.ones(3, 1, x.shape[1], x.shape[1], dtype=torch.bool)
    expected = plain(input_ids=x, attention_mask=mask, use_cache=False).logits
    torch.testing.assert_close(logits(model, x)[:, 1:, text], expected[:, :-1, text])
    assert "position 0 has no prediction of its own" in (model.about.origin or {})["notes"][0]


@pytest.mark.parametrize("kind", CAUSAL)
def test_a2d_takes_its_mask_from_the_tokenizer(kind: str, tmp_path: Path) -> None:
    config = architecture(kind) | {"model_type": f"a2d-{kind}"}
    folder = folder_of(tmp_path, config, pretrained(kind).state_dict())
    with pytest.raises(ValueError, match="no mask token was found"):
        load(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS).replace("[MASK]", "<|mask|>"), encoding="utf-8")
    model = load(folder)
    assert model.process.name == "masked"
    assert model.process.mask == MASK
    assert logits(model, tokens()).isneginf().all((0, 1)).nonzero().flatten().tolist() == [MASK, 39]
