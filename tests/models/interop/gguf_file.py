"""A tiny GGUF file, as llama.cpp converts a Llama of transformers."""

import json
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

gguf = pytest.importorskip("gguf", reason="gguf is not installed; make test brings it")

PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def write_gguf(path: Path, model: Any, tokenizer: Any) -> None:
    """Write the network and its tokenizer, a byte-pair encoding."""
    config, words = model.config, json.loads(tokenizer.backend.to_str())
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    ids = sorted(tokenizer.backend.get_vocab().items(), key=lambda item: item[1])
    special = {token["content"] for token in words["added_tokens"]}
    kinds = gguf.TokenType
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([name for name, _ in ids])
    writer.add_token_types([kinds.CONTROL if name in special else kinds.NORMAL for name, _ in ids])
    writer.add_token_merges([" ".join(pair) for pair in words["model"]["merges"]] or ["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for name, value in model.state_dict().items():
        writer.add_tensor(_named(name), _ordered(name, value, config).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _named(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in WHOLE:
        return f"{WHOLE[stem]}.weight"
    _, _, block, part = stem.split(".", 3)
    return f"blk.{block}.{PARTS[part]}.weight"


def _ordered(name: str, value: Tensor, config: Any) -> Tensor:
    """Return a tensor in the order of GGUF, where the two halves of a rotary pair are neighbours."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = next((heads[part] for part in heads if part in name), None)
    if count is None:
        return value.contiguous()
    rows, width = value.shape
    return value.view(count, 2, rows // count // 2, width).swapaxes(1, 2).reshape(rows, width).contiguous()
