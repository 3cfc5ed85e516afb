"""What several tests of evaluation need."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from tokenloom.data.decoder import Decoder
from tokenloom.models.tokenizer import END_OF_TEXT, Tokenizer

NO_TEXT = Decoder(lambda token: "", lambda position: "")
"""For judges that read tokens."""


def save_causal_lm(folder: Path, tokenizer: Tokenizer, spread: float) -> None:
    """A causal language model of Hugging Face, random and small, with this tokenizer; spread 0 knows nothing."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    config = transformers.GPT2Config(vocab_size=tokenizer.vocab_size, n_positions=32, n_embd=16, n_layer=2, n_head=2)
    model = transformers.GPT2LMHeadModel(config)
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=spread)
    model.save_pretrained(folder)
    inner = tokenizers.Tokenizer.from_str(json.dumps(json.loads(tokenizer.to_json())["tokenizer"]))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=END_OF_TEXT)
    fast.save_pretrained(folder)
