"""Folders of Hugging Face as denoisers: the same logits as transformers gives, every special token found, every fault
named."""

import json
import shutil
import string
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

import tokenloom as tl
from tests.nn.pretrained import FIRST, LAST, MASK, MASKED, SPECIAL, K, pretrained, tokens
from tokenloom.evaluation.held_out import TextOptions, text_rows
from tokenloom.models.interop.importing import import_model
from tokenloom.models.interop.vocabulary import read_vocabulary, symbols
from tokenloom.models.tokenizer import Characters, Subwords
from tokenloom.models.tokenizer_sources import tokenizer_from_json
from tokenloom.nn.language_models import MaskedLM

WORDS = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_letters[:33], "[unused1]"]
"""Ids 0..38; id 39 has no token."""


def folder_of(kind: str, path: Path, **other: Any) -> Path:
    """A folder as transformers writes it, with a vocabulary."""
    pretrained(kind, **other).save_pretrained(path)
    (path / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    return path


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return folder_of("bert", tmp_path / "bert")


def configure(folder: Path, **values: Any) -> None:
    """Change the config of a folder; None removes."""
    config = json.loads((folder / "config.json").read_text()) | values
    config = {key: value for key, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))


def load(folder: Path, **options: Any) -> tl.DiffusionModel:
    return import_model(folder, **options).model


@torch.no_grad()
def logits(model: tl.DiffusionModel, x: Tensor) -> Tensor:
    return model.network(x, torch.zeros(len(x)))  # type: ignore[no-any-return]


@torch.no_grad()
@pytest.mark.parametrize("kind", MASKED)
def test_a_folder_gives_the_logits_that_transformers_gives(kind: str, tmp_path: Path) -> None:
    import transformers

    folder = folder_of(kind, tmp_path / kind)
    model, x = load(folder), tokens()
    x[0, :3] = MASK
    shown = F.pad(F.pad(x, (1, 0), value=FIRST), (0, 1), value=LAST)
    plain = transformers.AutoModelForMaskedLM.from_pretrained(folder, use_safetensors=True).eval()
    expected = plain(input_ids=shown, attention_mask=torch.ones_like(shown)).logits[:, 1:-1]
    text = torch.tensor([id for id in range(K) if id not in SPECIAL])
    torch.testing.assert_close(logits(model, x)[..., text], expected[..., text])
    assert logits(model, x).isneginf().all((0, 1)).nonzero().flatten().tolist() == list(SPECIAL)
    assert isinstance(model.network, MaskedLM)
    assert model.process == tl.Masked(K, mask_id=MASK, schedule=tl.LinearSchedule(eps=0.0))
    assert model.predicts is tl.Denoiser


def test_an_imported_model_is_saved_and_read_again_without_its_folder(bert: Path, tmp_path: Path) -> None:
    model = load(bert)
    expected = logits(model, tokens())
    model.save(tmp_path / "own")
    shutil.rmtree(bert)
    loaded = tl.load(tmp_path / "own")
    assert isinstance(loaded, tl.DiffusionModel)
    assert torch.equal(logits(loaded, tokens()), expected)
    assert loaded.about == model.about
    assert (loaded.about.origin or {})["family"] == "bert"
    assert loaded.decode(tokens(1)) == model.decode(tokens(1))
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.end_of_sequence is None


def test_shards_and_a_pickle_hold_the_same_network(bert: Path) -> None:
    """A pickle is opened for the import command alone."""
    whole, file = logits(load(bert), tokens()), bert / "model.safetensors"
    tensors = load_file(file)
    file.unlink()
    torch.save(tensors, bert / "pytorch_model.bin")
    assert torch.equal(logits(load(bert, pickles=True), tokens()), whole)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is a pickle, .* run `tokenloom import"):
        load(bert)
    for number, part in enumerate((sorted(tensors)[:10], sorted(tensors)[10:]), 1):
        save_file({name: tensors[name] for name in part}, bert / f"model-{number:05}-of-00002.safetensors")
    assert torch.equal(logits(load(bert), tokens()), whole)


def test_names_of_old_files_are_understood(bert: Path) -> None:
    """gamma and beta, a matrix left out because it is tied, heads of other tasks, buffers, and no model_type."""
    whole, file = logits(load(bert), tokens()), bert / "model.safetensors"
    older = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in load_file(file).items()
        if name not in ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
    }
    unused = ("bert.pooler.dense.weight", "cls.seq_relationship.weight", "cls.species.bias", "classifier.weight")
    older |= {name: torch.ones(2) for name in unused} | {"bert.embeddings.position_ids": torch.arange(26)}
    save_file(older, file)
    configure(bert, model_type=None, architectures=None)
    assert torch.equal(logits(load(bert), tokens()), whole)


DENSE = "bert.encoder.layer.1.output.dense.weight"


@pytest.mark.parametrize(
    ("name", "shape", "sentence"),
    [
        (DENSE, None, f"the weights lack {DENSE}"),
        (DENSE, (16, 31), r"dense.weight has shape \[16, 31\].*network's \[16, 32\]"),
        ("bert.encoder.layer.2.extra.weight", (1,), r"an unknown bert\.encoder\.layer\.2"),
        ("cls.predictions.transform.extra", (1,), r"an unknown cls\.predictions\.tran"),
        ("cls.predictions.decoder.weight", (K, 16), "differ, but are tied; set tie_word_embeddings"),
    ],
)
def test_the_first_wrong_tensor_is_named(name: str, shape: tuple[int, ...] | None, sentence: str, bert: Path) -> None:
    tensors = load_file(bert / "model.safetensors")
    tensors.pop(name, None)
    save_file(tensors | ({} if shape is None else {name: torch.ones(shape)}), bert / "model.safetensors")
    with pytest.raises(ValueError, match=sentence):
        load(bert)


@pytest.mark.parametrize(
    ("values", "options", "sentence"),
    [
        ({"num_hidden_layers": 1}, {}, r"an unknown bert\.encoder\.layer\.1"),
        ({"num_hidden_layers": 3}, {}, r"lack bert\.encoder\.layer\.2"),
        ({"vocab_size": 38}, {}, "the tokenizer has 39 ids, but the network reads 38"),
        ({"vocab_size": None}, {}, "lacks vocab_size"),
        ({"model_type": "gpt2"}, {}, "type 'gpt2' predicts the next token and is not a denoiser"),
        ({"model_type": "bart", "is_encoder_decoder": True}, {}, "with a decoder is not a masked language model"),
        ({"model_type": "vit"}, {}, "type 'vit' is neither a masked language model nor of a family"),
        ({"is_decoder": True}, {}, "with a decoder is not a masked language model"),
        ({}, {"tokenizer": Characters("abc")}, "no mask token was found"),
        ({}, {"tokenizer": symbols([word for word in WORDS if word != "[SEP]"])}, "the tokenizer has no last one"),
        ({}, {"allow": ("xyzzy",)}, "'xyzzy' is not one token"),
        ({}, {"length": 25}, r"the length must be in 1\.\.24, .* got 25"),
    ],
)
def test_what_does_not_fit_the_network_is_named(
    values: dict[str, Any], options: dict[str, Any], sentence: str, bert: Path
) -> None:
    configure(bert, **values)
    with pytest.raises(ValueError, match=sentence):
        load(bert, **options)


def test_an_allowed_token_may_be_predicted_and_a_shorter_length_is_kept(bert: Path) -> None:
    model = load(bert, allow=("[UNK]",), length=7)
    assert model.length == 7
    assert logits(model, tokens(1, 7))[..., 0].isfinite().all()


def test_rows_of_text_hold_nothing_that_the_model_cannot_predict(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the bound of a text is finite: the frame is the network's, and documents are joined without an end."""
    model = load(bert)
    (tmp_path / "text.txt").write_text("theloomweavesthethread" * 20)
    assert model.tokenizer is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = text_rows(str(tmp_path / "text.txt"), model.tokenizer, 8, TextOptions()).data.valid.long()
    bound = tl.nelbo(model, rows, generator=torch.Generator().manual_seed(0))
    assert 0 < bound.per_token < 50


def test_names_of_special_tokens_are_read_from_the_files_beside_them(tmp_path: Path) -> None:
    """A token may have any name where a file says what it is for, and be written as a text or as an object."""
    words = ["<unk>", "hide", "begin", "stop", "a", "b"]
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"mask_token": {"content": "hide"}}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"cls_token": "begin", "eos_token": "stop"}))
    for specials, forbidden in ((True, [0, 1, 2, 3, 6, 7]), (False, [1, 6, 7])):  # the last two have no token
        found = read_vocabulary(symbols(words), tmp_path, {}, 8, (), specials)
        assert (found.mask, found.first, found.last) == (1, 2, 3)
        assert found.forbidden.nonzero().flatten().tolist() == forbidden


def test_a_folder_with_two_vocabularies_is_ambiguous(bert: Path) -> None:
    shutil.copy(bert / "vocab.txt", bert / "old-vocab.txt")
    with pytest.raises(ValueError, match=r"several files \*vocab\.txt; give the path of one"):
        load(bert)
    assert load(bert, tokenizer=bert / "vocab.txt").tokenizer is not None


def test_symbols_are_the_longest_and_brackets_are_one() -> None:
    tokenizer = symbols(["[PAD]", "[UNK]", "[MASK]", "C", "Cl", "(", ")", "=", "O", ">>", ">", "[C@H]", "c", "1"])
    text = "[C@H](Cl)C(=O)>>c1"
    assert tokenizer.encode(text) == [11, 5, 4, 6, 3, 5, 7, 8, 6, 9, 12, 13]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode("C [Pt+2]\nC[MASK]") == [3, 1, 3, 2]
    again = tokenizer_from_json(Subwords(tokenizer.backend.to_str(), framed=True).to_json())
    assert again.encode(text) == tokenizer.encode(text)
