"""What several tests of evaluation need."""

import json
from typing import Any

import pytest

from tokenloom.data.decoder import Decoder
from tokenloom.models.tokenizer import END_OF_TEXT, Tokenizer

NO_TEXT = Decoder(lambda token: "", lambda position: "")
"""For judges that read tokens."""


def fast_tokenizer(tokenizer: Tokenizer) -> Any:
    """The same tokenizer as one of Hugging Face."""
    libraries = [
        pytest.importorskip(name, reason=f"{name} is not installed") for name in ("transformers", "tokenizers")
    ]
    inner = libraries[1].Tokenizer.from_str(json.dumps(json.loads(tokenizer.to_json())["tokenizer"]))
    return libraries[0].PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=END_OF_TEXT)
