"""Networks of other libraries with random weights, in the form that an import gives them."""

import torch
from torch import nn

from benchmarks.size import Size
from tokenloom.nn.language_models import MaskedLM, MaskedLMConfig
from tokenloom.nn.networks import DiT
from tokenloom.nn.transformer import TransformerConfig


def mdlm_network(size: Size) -> nn.Module:
    """MDLM: a mask outside the vocabulary, the time folded away."""
    config = TransformerConfig(
        size.vocab, size.vocab + 1, size.length, size.width, size.depth, size.heads, dropout=0.0, time=False
    )
    network = DiT(config).eval()
    generator = torch.Generator().manual_seed(0)
    for name, parameter in network.named_parameters():
        nn.init.normal_(parameter, std=2 / size.width**0.5 if name.startswith("head.") else 0.02, generator=generator)
    return network


def bert_network(size: Size) -> nn.Module:
    """A masked language model in the shape of BERT, whose mask is the last id of its vocabulary."""
    torch.manual_seed(0)
    architecture = {
        "model_type": "bert",
        "vocab_size": size.vocab,
        "hidden_size": size.width,
        "num_hidden_layers": size.depth,
        "num_attention_heads": size.heads,
        "intermediate_size": 4 * size.width,
        "max_position_embeddings": size.length + 2,
    }
    forbidden = torch.zeros(size.vocab, dtype=torch.bool)
    forbidden[-3:] = True  # the mask and the frame
    return MaskedLM(MaskedLMConfig(architecture, first=size.vocab - 3, last=size.vocab - 2), forbidden).eval()
