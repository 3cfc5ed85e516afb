"""A causal language model as the beginning of a masked denoiser (A2D): what changes before it can be trained.

    attention    every position sees every position
    shift        the prediction for position l stays the output at l - 1, which is what the network was trained to give
    first        a token before the sequence, so that position 0 has such an output: the one that opens a document, or
                 else the one that ends it, behind which the next document began
    mask         the tokenizer's own; else the first id without a token, a row of the table that never stood for text;
                 else a row more, the mean of all others

Nothing is trained here.  The attention is not the one that the weights know, so the predictions mean nothing yet.
"""

import torch

from tokenloom.models.interop.ddit import Tensors
from tokenloom.models.interop.families import Config
from tokenloom.models.interop.large import Large
from tokenloom.models.interop.source import Content
from tokenloom.models.interop.vocabulary import MASKS
from tokenloom.models.tokenizer import Subwords, Tokenizer

KINDS = ("llama", "qwen2", "qwen3")
"""Architectures whose attention mask is known to be replaceable."""
TABLES = ("model.embed_tokens.weight", "lm_head.weight")
BEGIN = "use it as a judge of samples, or begin the training of a denoiser with it: import it with --causal"
UNTRAINED = (
    "it was trained to predict the next token and is not a diffusion model before it is trained as one, as by "
    "tokenloom train --from FOLDER --lora 8 --data.path FILE"
)


def beginning(content: Content, words: Tokenizer | None) -> tuple[Content, Large]:
    """Return the config and tensors of a causal language model with a mask, and the network that they become."""
    config, kind = content.config, str(content.config["model_type"])
    if kind not in KINDS:
        raise ValueError(f"a causal language model is taken as the beginning of {', '.join(KINDS)}, got type {kind!r}")
    size = int(config["vocab_size"])
    mask = _free_id(config, words, size)
    config = config | {"mask_token_id": mask, "vocab_size": max(size, mask + 1)}
    tensors = content.tensors if mask < size else with_row(content.tensors)
    first = None if words is None else words.start_of_sequence
    if first is None and words is not None:
        first = words.end_of_sequence
    notes = () if first is not None else ("position 0 has no prediction of its own: give it a first token",)
    began = Large(f"A2D of {kind}", config, shift=True, notes=notes, first=first, untrained=UNTRAINED)
    return content._replace(config=config, tensors=tensors), began


def _free_id(config: Config, words: Tokenizer | None, size: int) -> int:
    """Return an id that never stands for text; `size` if the table has none."""
    known = words.backend.get_vocab() if isinstance(words, Subwords) else {}
    named = [known[name] for name in MASKS if name in known]
    stored = [config["mask_token_id"]] if isinstance(config.get("mask_token_id"), int) else []
    spare = sorted(set(range(size)) - set(known.values())) if known else []
    return int(next(iter((*named, *stored, *spare)), size))


def with_row(tensors: Tensors) -> Tensors:
    """Return the tensors with one row more in the tables of tokens: the mean of the others."""
    grown = {name: tensors[name] for name in TABLES if name in tensors}
    return tensors | {name: torch.cat([table, table.mean(0, keepdim=True)]) for name, table in grown.items()}
