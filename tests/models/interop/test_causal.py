"""A causal language model as the beginning of a denoiser: its logits with nothing hidden, a mask, a warning."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.cli.helpers import Shell
from tests.models.interop.gguf_file import write_gguf
from tests.models.interop.test_hugging_face import logits
from tests.nn.pretrained import CAUSAL, architecture, pretrained, tokens
from tokenloom.models.interop.importing import import_model
from tokenloom.models.opening import open_run
from tokenloom.models.tokenizer_sources import build_tokenizer
from tokenloom.nn.language_models import BidirectionalLM

TOKENS = 257
"""The bytes and the end of text: a tokenizer that any text can be cut with."""


def save_causal(folder: Path, kind: str = "llama", rows: int = TOKENS, **other: Any) -> Any:
    """Write a folder as transformers does, with a tokenizer of `TOKENS` tokens, and return its network."""
    model = pretrained(kind, vocab_size=rows, bos_token_id=None, eos_token_id=TOKENS - 1, **other)
    model.save_pretrained(folder)
    tokenizer: Any = build_tokenizer(f"bpe:{TOKENS}", ["abc abd. "])
    (folder / "tokenizer.json").write_text(tokenizer.backend.to_str())
    return model


def start(folder: Path) -> tl.DiffusionModel:
    return import_model(folder, causal=True).model


@torch.no_grad()
def seeing_all(model: Any, x: Tensor, first: int) -> Tensor:
    """The outputs of transformers for [first, x] with nothing hidden, but for the last."""
    shown = torch.cat([torch.full((len(x), 1), first), x], 1)
    mask = torch.ones(len(x), 1, shown.shape[1], shown.shape[1], dtype=torch.bool)
    found: Tensor = model(input_ids=shown, attention_mask=mask, use_cache=False).logits[:, :-1]
    return found


@pytest.mark.parametrize("kind", CAUSAL)
def test_the_prediction_for_a_position_is_the_output_before_it(kind: str, tmp_path: Path) -> None:
    plain = save_causal(tmp_path, kind)
    model, x = start(tmp_path), tokens()
    assert isinstance(model.network, BidirectionalLM)
    assert (model.network.config.shift, model.network.config.first) == (True, 0)  # <|endoftext|>, of the tokenizer
    assert model.length == 25  # of 26 positions, one is of the first token
    torch.testing.assert_close(logits(model, x)[..., :TOKENS], seeing_all(plain, x, 0))
    changed = x.clone()
    changed[:, -1] = 7
    assert not torch.equal(logits(model, changed)[:, 0], logits(model, x)[:, 0])  # the first position sees the last


def test_the_mask_is_a_row_more_where_every_row_stands_for_text(tmp_path: Path) -> None:
    plain = save_causal(tmp_path)
    model = start(tmp_path)
    assert model.process == tl.Masked(TOKENS + 1, mask_id=TOKENS, schedule=tl.LinearSchedule(eps=0.0))
    table = model.get_parameter("network.body.model.embed_tokens.weight")
    assert torch.equal(table[:-1], plain.model.embed_tokens.weight)
    torch.testing.assert_close(table[-1], table[:-1].mean(0))
    assert logits(model, tokens()).isneginf().all((0, 1)).nonzero().flatten().tolist() == [TOKENS]


def test_the_mask_is_the_first_row_without_a_token_where_there_is_one(tmp_path: Path) -> None:
    save_causal(tmp_path, rows=TOKENS + 3)
    model = start(tmp_path)
    assert (model.process.vocab_size, model.process.mask_in_vocabulary) == (TOKENS + 3, TOKENS)
    never = logits(model, tokens()).isneginf().all((0, 1)).nonzero().flatten().tolist()
    assert never == [TOKENS, TOKENS + 1, TOKENS + 2]


def test_the_mask_is_that_of_the_tokenizer_where_it_has_one(tmp_path: Path) -> None:
    save_causal(tmp_path, rows=TOKENS + 2)
    record = json.loads((tmp_path / "tokenizer.json").read_text())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | {"special": True}
    names = ("<|other|>", "<|mask|>")
    record["added_tokens"] += [{"id": TOKENS + place, "content": name} | flags for place, name in enumerate(names)]
    (tmp_path / "tokenizer.json").write_text(json.dumps(record))
    process = start(tmp_path).process
    assert (process.mask_in_vocabulary, process.vocab_size) == (TOKENS + 1, TOKENS + 2)  # and no row more


def test_it_is_no_denoiser_before_it_is_trained_and_says_so(tmp_path: Path) -> None:
    """Whoever opens it to sample or to score is warned; the import says it and names the next command."""
    save_causal(tmp_path / "llama")
    with pytest.raises(ValueError, match=r"predicts the next token and is not a denoiser.*import it with --causal"):
        import_model(tmp_path / "llama")
    start(tmp_path / "llama").save(tmp_path / "begun")
    for opened in (tl.load, open_run):
        with pytest.warns(UserWarning, match="is not a diffusion model before it is trained as one"):
            opened(tmp_path / "begun")
    trained = import_model(tmp_path / "llama", causal=True).model
    assert trained.about.origin is not None
    assert trained.about.source is None  # it was trained on no rows of ours
    trained.describe(origin={key: value for key, value in trained.about.origin.items() if key != "untrained"})
    trained.save(tmp_path / "trained")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tl.load(tmp_path / "trained")


def test_the_command_names_the_training_that_must_follow(tmp_path: Path, shell: Shell) -> None:
    save_causal(tmp_path / "llama")
    shown = shell("import", str(tmp_path / "llama"), "--causal", "--to", str(tmp_path / "begun"))
    assert f"Next: tokenloom train --from {tmp_path / 'begun'} --lora 8 --data.path" in shown.out
    assert "is not a diffusion model before it is trained" in " ".join(shown.out.replace("│", "").split())
    drawn = shell("sample", str(tmp_path / "begun"), "--num", "1", "--steps", "2", "--length", "4")
    assert "until then its samples and bounds mean nothing" in " ".join((drawn.err + drawn.out).split())


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (architecture("bert"), "is taken as the beginning of llama, qwen2, qwen3, got type 'bert'"),
        ({"model_type": "gpt2", "vocab_size": 5}, "got type 'gpt2'"),
    ],
)
def test_other_networks_are_refused(config: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    save_causal(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": TOKENS}))
    with pytest.raises(ValueError, match=sentence):
        start(tmp_path)


def test_a_gguf_file_is_read_only_on_request_and_brings_its_tokenizer(tmp_path: Path) -> None:
    """Its weights are those that transformers restores, in the order in which its own files have them."""
    plain, file = pretrained("llama", vocab_size=260, num_key_value_heads=2), tmp_path / "tiny.gguf"
    tokenizer: Any = build_tokenizer("bpe:260", ["abc abc abd abd "])
    write_gguf(file, plain, tokenizer)
    with pytest.raises(ValueError, match=r"a GGUF file holds a causal language model.*import it with --causal"):
        import_model(file)
    found = import_model(file, causal=True)
    assert found.report["weights"].startswith("tiny.gguf, restored to float32: ")
    own = found.model.tokenizer
    assert own is not None
    assert own.encode("a cab.") == tokenizer.encode("a cab.")
    x = tokens()
    torch.testing.assert_close(logits(found.model, x)[..., :260], seeing_all(plain, x, 0), atol=1e-4, rtol=1e-4)


def test_a_damaged_gguf_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\3\0\0\0" + bytes(64))
    with pytest.raises(ValueError, match=r"the language model broken\.gguf could not be loaded with transformers"):
        import_model(tmp_path / "broken.gguf", causal=True)
