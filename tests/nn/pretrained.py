"""Tiny networks of the library transformers, with random weights large enough to tell them apart."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tokenloom.nn.hugging_face import build_pretrained

pytest.importorskip("transformers", reason="the networks of these tests are built by the library transformers")

K, L = 40, 9
PAD, FIRST, LAST, MASK = 1, 2, 3, 4
SPECIAL = (0, PAD, FIRST, LAST, MASK, 38, 39)
TEXT = torch.ones(K, dtype=torch.bool).index_fill(0, torch.tensor(SPECIAL), False)
"""Flags of the ids that are not special."""
SIZES = {
    "vocab_size": K,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 26,
    "pad_token_id": PAD,
}
MASKED: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"type_vocab_size": 1},
    "albert": {"embedding_size": 8},
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
    "modernbert": {"num_hidden_layers": 3, "local_attention": 8, "bos_token_id": FIRST, "eos_token_id": LAST}
    | {"cls_token_id": FIRST, "sep_token_id": LAST},
    "esm": {"mask_token_id": MASK, "token_dropout": True, "position_embedding_type": "rotary"},
    "electra": {"embedding_size": 8},
    "xlm-roberta": {"type_vocab_size": 1},
}
CAUSAL: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 1},
    "qwen2": {"num_key_value_heads": 1, "tie_word_embeddings": True},
    "qwen3": {"num_key_value_heads": 1, "head_dim": 8},
}
ALL = MASKED | CAUSAL


def architecture(kind: str, **other: Any) -> dict[str, Any]:
    """The config.json of a kind."""
    return {"model_type": kind} | SIZES | ALL[kind] | other


def pretrained(kind: str, **other: Any) -> Any:
    """A network of a kind, untouched, with weights away from zero."""
    auto = "AutoModelForMaskedLM" if kind in MASKED else "AutoModelForCausalLM"
    torch.manual_seed(0)
    model = build_pretrained(architecture(kind, **other), auto)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    return model


def tokens(batch: int = 3, length: int = L) -> Tensor:
    """Text: no special id."""
    return torch.randint(5, 38, (batch, length), generator=torch.Generator().manual_seed(2))
