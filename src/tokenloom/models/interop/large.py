"""Large masked denoisers with a causal architecture: which network of transformers holds the weights of each.

LLaDA             Llama under other names of its own
Dream, DiffuCoder Qwen2, whose output at l - 1 predicts position l
A2D (dLLM)        Qwen3, Qwen2 or Llama
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from tokenloom.models.interop.families import Config

LLADA_SIZES = {
    "hidden_size": "d_model",
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
    "intermediate_size": "mlp_hidden_size",
    "max_position_embeddings": "max_sequence_length",
    "rms_norm_eps": "rms_norm_eps",
    "rope_theta": "rope_theta",
}
"""Names of Llama's config, and of LLaDA's for the same number."""
LLADA_NEEDS = {
    "block_type": "llama",
    "layer_norm_type": "rms",
    "activation_type": "silu",
    "rope": True,
    "alibi": False,
    "include_bias": False,
    "include_qkv_bias": False,
    "scale_logits": False,
}
"""Settings that make LLaDA's blocks those of Llama."""
LLADA_NAMES = {
    "wte.weight": "model.embed_tokens.weight",
    "ln_f.weight": "model.norm.weight",
    "ff_out.weight": "lm_head.weight",
}
LLADA_PARTS = {
    "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj",
    "attn_out": "self_attn.o_proj",
    "ff_proj": "mlp.gate_proj",
    "up_proj": "mlp.up_proj",
    "ff_out": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ff_norm": "post_attention_layernorm",
}


class Large(NamedTuple):
    """The network of transformers that the checkpoint of a family becomes."""

    family: str
    architecture: Config
    rename: Callable[[str], str] = str
    shift: bool = False
    notes: tuple[str, ...] = ()
    first: int | None = None  # the token before a sequence whose outputs are read one position later
    untrained: str = ""  # why it is not a denoiser yet


def large(config: Config) -> Large | None:
    """Return the network that a config describes; None if it is not of these families."""
    kind = str(config.get("model_type", "")).lower()
    if kind == "llada":
        return Large("LLaDA", _llama(config), llada_to_llama)
    if kind == "dream":
        note = "position 0 has no prediction of its own: give it a first token"
        return Large("Dream", config | {"model_type": "qwen2"}, shift=True, notes=(note,))
    return Large("A2D", config | {"model_type": kind.removeprefix("a2d-")}) if kind.startswith("a2d-") else None


def _llama(config: Config) -> Config:
    for key, value in LLADA_NEEDS.items():
        if config.get(key, value) != value:
            raise ValueError(f"LLaDA with {key} {config[key]!r} is not Llama's architecture, which needs {value!r}")
    missing = next((key for key in LLADA_SIZES.values() if key not in config), None)
    if missing is not None:
        raise ValueError(f"its config lacks {missing}")
    return {name: config[key] for name, key in LLADA_SIZES.items()} | {
        "model_type": "llama",
        "vocab_size": config.get("embedding_size") or config.get("vocab_size"),
        "num_key_value_heads": config.get("n_kv_heads") or config["n_heads"],
        "tie_word_embeddings": bool(config.get("weight_tying", False)),
        **{key: config.get(key) for key in ("mask_token_id", "eos_token_id", "pad_token_id")},
    }


def llada_to_llama(name: str) -> str:
    """Return the name in Llama of a tensor of LLaDA; others keep theirs."""
    own = name.removeprefix("model.transformer.")
    block = re.fullmatch(r"blocks\.(\d+)\.(\w+)\.weight", own)
    if block is not None and block[2] in LLADA_PARTS:
        return f"model.layers.{block[1]}.{LLADA_PARTS[block[2]]}.weight"
    return LLADA_NAMES.get(own, name)
