"""Networks of other libraries with random weights, imported as their checkpoints are."""

import torch
from torch import nn

from benchmarks.size import Size
from tokenloom.models.interop import ddit
from tokenloom.nn.dit import DiT
from tokenloom.nn.masked_lm import MaskedLM, MaskedLMConfig

CONDITION = 128


def mdlm_network(size: Size) -> nn.Module:
    """MDLM: a mask outside the vocabulary, the time folded away."""
    sizes = ddit.Sizes(size.vocab + 1, size.width, size.depth, CONDITION, size.heads, 0, "none")
    generator = torch.Generator().manual_seed(0)
    tensors = {
        name: torch.randn(shape, generator=generator) * (2 / size.width**0.5 if "linear" in name else 0.02)
        for name, shape in ddit.shapes(sizes).items()
    }
    config = ddit.dit_config(sizes, size.vocab, size.vocab + 1, size.length, size.heads, "zero")
    network = DiT(config).eval()
    network.load_state_dict(ddit.to_dit(tensors, config))
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
