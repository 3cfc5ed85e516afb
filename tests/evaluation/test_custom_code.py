"""Code that comes with a model is never run, and nobody is asked whether it should be."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tokenloom.evaluation.causal_lm import load_causal_lm

CODE = """
from pathlib import Path
Path({target!r}).write_text("it ran")
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
class Config(GPT2Config):
    model_type = "mine"
class Model(GPT2LMHeadModel):
    config_class = Config
class Tokens(PreTrainedTokenizerFast):
    pass
"""
MAPS = {"AutoConfig": "code_of_mine.Config", "AutoModelForCausalLM": "code_of_mine.Model"}
TOKENS = {"AutoTokenizer": ["code_of_mine.Tokens", "code_of_mine.Tokens"]}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a tokenizer that is known": (
        {"model_type": "mine", "auto_map": MAPS},
        {"tokenizer_class": "PreTrainedTokenizerFast"},
    ),
    "everything": ({"model_type": "mine", "auto_map": MAPS | TOKENS}, {"auto_map": TOKENS}),
    "config alone": ({"model_type": "mine", "auto_map": MAPS}, {}),
    "tokenizer alone": ({"model_type": "gpt2"}, {"tokenizer_class": "Mine", "auto_map": TOKENS}),
    "tokenizer in the config": ({"model_type": "mine", "auto_map": TOKENS}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_judge_with_code_of_its_own_is_refused_unasked(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    config, tokenizer = CASES[case]
    judge, target, answers = tmp_path / "judge", tmp_path / "created", io.StringIO("y\n" * 20)
    judge.mkdir()
    (judge / "config.json").write_text(json.dumps({"architectures": ["Model"]} | config))
    (judge / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    words = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0, "?": 1}, "unk_token": "?"}}
    (judge / "tokenizer.json").write_text(json.dumps(words))
    (judge / "code_of_mine.py").write_text(CODE.format(target=str(target)))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "stdin", answers)
    with pytest.raises(ValueError, match="the language model judge could not be loaded"):
        load_causal_lm(str(judge))
    assert not target.exists()
    assert answers.tell() == 0
