"""Folders of Hugging Face as denoisers: the same logits as transformers gives, every special token found, every fault
named."""

import json
import shutil
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

import tokenloom as tl
from tests.nn.pretrained import CAUSAL, FIRST, LAST, MASK, MASKED, SPECIAL, K, architecture, pretrained, tokens
from tokenloom.evaluation.held_out import text_rows
from tokenloom.models.interop.hugging_face import load_hugging_face
from tokenloom.models.interop.large import llada_to_llama
from tokenloom.models.interop.vocabulary import framed, read_vocabulary, symbols
from tokenloom.models.tokenizer import Characters, tokenizer_from_json
from tokenloom.nn.bidirectional import BidirectionalLM
from tokenloom.nn.masked_lm import MaskedLM

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


def edit(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    """Change the tensors of a folder."""
    save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")


def configure(folder: Path, **values: Any) -> None:
    """Change the config of a folder; None removes."""
    config = json.loads((folder / "config.json").read_text()) | values
    config = {key: value for key, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))


@torch.no_grad()
def logits(model: tl.DiffusionModel, x: Tensor) -> Tensor:
    return model.network(x, torch.zeros(len(x)))  # type: ignore[no-any-return]


@torch.no_grad()
@pytest.mark.parametrize("kind", MASKED)
def test_a_folder_gives_the_logits_that_transformers_gives(kind: str, tmp_path: Path) -> None:
    import transformers

    folder = folder_of(kind, tmp_path / kind)
    model, x = load_hugging_face(folder), tokens()
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
    model = load_hugging_face(bert)
    expected = logits(model, tokens())
    model.save(tmp_path / "own")
    shutil.rmtree(bert)
    loaded = tl.load(tmp_path / "own")
    assert isinstance(loaded, tl.DiffusionModel)
    assert torch.equal(logits(loaded, tokens()), expected)
    assert loaded.about == model.about
    assert loaded.about.origin is not None
    assert loaded.about.origin["family"] == "bert"
    assert loaded.decode(tokens(1)) == model.decode(tokens(1))
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.end_of_sequence is None


def test_shards_are_one_network(bert: Path, tmp_path: Path) -> None:
    whole = logits(load_hugging_face(bert), tokens())
    tensors = load_file(bert / "model.safetensors")
    (bert / "model.safetensors").unlink()
    names = sorted(tensors)
    for number, part in enumerate((names[:10], names[10:]), 1):
        save_file({name: tensors[name] for name in part}, bert / f"model-{number:05}-of-00002.safetensors")
    assert torch.equal(logits(load_hugging_face(bert), tokens()), whole)


def test_a_pickle_is_left_to_the_import_command(bert: Path) -> None:
    whole = logits(load_hugging_face(bert), tokens())
    torch.save(load_file(bert / "model.safetensors"), bert / "pytorch_model.bin")
    (bert / "model.safetensors").unlink()
    with pytest.raises(
        ValueError, match=r"pytorch_model\.bin is a pickle, which is never loaded; run `tokenloom import"
    ):
        load_hugging_face(bert)
    assert torch.equal(logits(load_hugging_face(bert, pickles=True), tokens()), whole)


def test_names_of_old_files_are_understood(bert: Path) -> None:
    """gamma and beta, a matrix left out because it is tied, heads of other tasks, buffers, and no model_type."""
    whole = logits(load_hugging_face(bert), tokens())

    def older(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        renamed = {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
            for name, value in tensors.items()
            if name not in ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
        }
        unused = ("bert.pooler.dense.weight", "cls.seq_relationship.weight", "cls.species.bias", "classifier.weight")
        return renamed | {name: torch.ones(2) for name in unused} | {"bert.embeddings.position_ids": torch.arange(26)}

    edit(bert, older)
    assert "cls.predictions.decoder.weight" not in load_file(bert / "model.safetensors")
    configure(bert, model_type=None, architectures=None)
    assert torch.equal(logits(load_hugging_face(bert), tokens()), whole)


DENSE = "bert.encoder.layer.1.output.dense.weight"


@pytest.mark.parametrize(
    ("name", "shape", "sentence"),
    [
        (DENSE, None, f"the weights lack {DENSE}"),
        (DENSE, (16, 31), r"dense.weight has shape \[16, 31\].*asks for \[16, 32\]"),
        ("bert.encoder.layer.2.extra.weight", (1,), r"an unknown bert\.encoder\.layer\.2"),
        ("cls.predictions.transform.extra", (1,), r"an unknown cls\.predictions\.tran"),
        ("cls.predictions.decoder.weight", (K, 16), "differ, but the config ties them; set tie_word_embeddings"),
    ],
)
def test_the_first_wrong_tensor_is_named(name: str, shape: tuple[int, ...] | None, sentence: str, bert: Path) -> None:
    def change(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        others = {key: value for key, value in tensors.items() if key != name}
        return others if shape is None else others | {name: torch.ones(shape)}

    edit(bert, change)
    with pytest.raises(ValueError, match=sentence):
        load_hugging_face(bert)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"num_hidden_layers": 1}, r"an unknown bert\.encoder\.layer\.1"),
        ({"num_hidden_layers": 3}, r"lack bert\.encoder\.layer\.2"),
        ({"vocab_size": 38}, "the tokenizer has 39 ids, but the network reads 38"),
        ({"vocab_size": None}, "lacks vocab_size"),
        ({"model_type": "gpt2"}, "type 'gpt2' predicts the next token and is not a denoiser"),
        ({"model_type": "bart", "is_encoder_decoder": True}, "with a decoder is not a masked language model"),
        ({"model_type": "vit"}, "type 'vit' is neither a masked language model nor of a family"),
        ({"is_decoder": True}, "with a decoder is not a masked language model"),
    ],
)
def test_a_config_of_another_network_is_named(values: dict[str, Any], sentence: str, bert: Path) -> None:
    configure(bert, **values)
    with pytest.raises(ValueError, match=sentence):
        load_hugging_face(bert)


def test_a_tokenizer_without_a_mask_or_a_frame_is_named(bert: Path) -> None:
    with pytest.raises(ValueError, match="no mask token was found"):
        load_hugging_face(bert, Characters("abc"))
    with pytest.raises(ValueError, match="the tokenizer has no last one"):
        load_hugging_face(bert, symbols([word for word in WORDS if word != "[SEP]"]))


def test_an_allowed_token_may_be_predicted_and_a_shorter_length_is_kept(bert: Path) -> None:
    model = load_hugging_face(bert, allow=("[UNK]",), length=7)
    assert model.length == 7
    assert logits(model, tokens(1, 7))[..., 0].isfinite().all()
    with pytest.raises(ValueError, match="'xyzzy' is not one token"):
        load_hugging_face(bert, allow=("xyzzy",))
    with pytest.raises(ValueError, match=r"the length must be in 1\.\.24, .* got 25"):
        load_hugging_face(bert, length=25)


def test_rows_of_text_hold_nothing_that_the_model_cannot_predict(bert: Path, tmp_path: Path) -> None:
    """So the bound of a text is finite: the frame is the network's, and documents are joined without an end."""
    model = load_hugging_face(bert)
    (tmp_path / "text.txt").write_text("theloomweavesthethread" * 20)
    assert model.tokenizer is not None
    rows = text_rows(str(tmp_path / "text.txt"), model.tokenizer, 8, cache=tmp_path / "cache").rows.to(torch.int64)
    bound = tl.nelbo(model, rows, generator=torch.Generator().manual_seed(0))
    assert 0 < bound.per_token < 50


def test_names_of_special_tokens_are_read_from_the_files_beside_them(tmp_path: Path) -> None:
    """A token may have any name where a file says what it is for, and be written as a text or as an object."""
    words = ["<unk>", "hide", "begin", "stop", "a", "b"]
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"mask_token": {"content": "hide"}}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"cls_token": "begin", "eos_token": "stop"}))
    found = read_vocabulary(symbols(words), tmp_path, {}, 8)
    assert (found.mask, found.first, found.last) == (1, 2, 3)
    assert found.special.tolist() == [True] * 4 + [False] * 4
    assert found.nameless.tolist() == [False] * 6 + [True] * 2


def test_symbols_are_the_longest_and_brackets_are_one() -> None:
    tokenizer = symbols(["[PAD]", "[UNK]", "[MASK]", "C", "Cl", "(", ")", "=", "O", ">>", ">", "[C@H]", "c", "1"])
    text = "[C@H](Cl)C(=O)>>c1"
    assert tokenizer.encode(text) == [11, 5, 4, 6, 3, 5, 7, 8, 6, 9, 12, 13]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode("C [Pt+2]\nC[MASK]") == [3, 1, 3, 2]
    again = tokenizer_from_json(framed(tokenizer).to_json())  # type: ignore[union-attr]
    assert again.encode(text) == tokenizer.encode(text)


# Causal architectures


def llada_config() -> dict[str, Any]:
    return {
        "model_type": "llada",
        "d_model": 16,
        "n_heads": 2,
        "n_kv_heads": 1,
        "n_layers": 2,
        "mlp_hidden_size": 32,
        "max_sequence_length": 26,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500.0,
        "embedding_size": K,
        "vocab_size": K - 2,
        "weight_tying": False,
        "mask_token_id": MASK,
        "block_type": "llama",
        "layer_norm_type": "rms",
        "activation_type": "silu",
        "rope": True,
    }


def llada_tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = {"wte": (K, 16), "ln_f": (16,), "ff_out": (K, 16)}
    for block in ("blocks.0.", "blocks.1."):
        shapes |= {f"{block}{name}": (16,) for name in ("attn_norm", "ff_norm")}
        shapes |= {f"{block}{name}": (16, 16) for name in ("q_proj", "attn_out")}
        shapes |= {f"{block}{name}": (8, 16) for name in ("k_proj", "v_proj")}
        shapes |= {f"{block}{name}": (32, 16) for name in ("ff_proj", "up_proj")} | {f"{block}ff_out": (16, 32)}
    return {
        f"model.transformer.{name}.weight": torch.randn(shape, generator=generator) for name, shape in shapes.items()
    }


def llada_forward(w: dict[str, Tensor], x: Tensor) -> Tensor:
    """Written from the arithmetic: RMS norms, half-split rotary angles of base 500, two heads that share k and v."""
    part = {name.removeprefix("model.transformer.").removesuffix(".weight"): value for name, value in w.items()}
    angle = torch.arange(x.shape[1])[:, None] * 500.0 ** (-torch.arange(4) / 4)
    cos, sin = torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()

    def norm(u: Tensor, name: str) -> Tensor:
        return u * (u.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * part[name]

    def heads(u: Tensor, count: int) -> Tensor:
        return u.view(*u.shape[:2], count, 8).transpose(1, 2)

    def turned(u: Tensor) -> Tensor:
        first, second = u[..., :4], u[..., 4:]
        return u * cos + torch.cat([-second, first], -1) * sin

    y = part["wte"][x]
    for block in ("blocks.0.", "blocks.1."):
        u = norm(y, f"{block}attn_norm")
        q, k, v = (u @ part[f"{block}{name}"].T for name in ("q_proj", "k_proj", "v_proj"))
        scores = turned(heads(q, 2)) @ turned(heads(k, 1)).transpose(-1, -2) / 8**0.5
        mixed = (scores.softmax(-1) @ heads(v, 1)).transpose(1, 2).flatten(2)
        y = y + mixed @ part[f"{block}attn_out"].T
        u = norm(y, f"{block}ff_norm")
        gated = F.silu(u @ part[f"{block}ff_proj"].T) * (u @ part[f"{block}up_proj"].T)
        y = y + gated @ part[f"{block}ff_out"].T
    return norm(y, "ln_f") @ part["ff_out"].T


def large_folder(path: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    save_file(tensors, path / "model.safetensors")
    return path


def test_llada_renamed_is_llama_and_equals_a_forward_pass_by_hand(tmp_path: Path) -> None:
    weights = llada_tensors()
    model = load_hugging_face(large_folder(tmp_path / "llada", llada_config(), weights))
    x, text = tokens(), [id for id in range(K) if id != MASK]
    expected = llada_forward(weights, x)
    torch.testing.assert_close(logits(model, x)[..., text], expected[..., text], atol=2e-4, rtol=1e-4)
    assert logits(model, x)[..., MASK].isneginf().all()
    assert isinstance(model.network, BidirectionalLM)
    assert model.length == 26


def test_every_tensor_of_llada_has_a_name_of_its_own_in_llama() -> None:
    renamed = {llada_to_llama(name) for name in llada_tensors()}
    assert renamed == set(pretrained("llama").state_dict())


def test_llada_with_other_blocks_is_refused(tmp_path: Path) -> None:
    folder = large_folder(tmp_path / "llada", llada_config() | {"layer_norm_type": "default"}, llada_tensors())
    with pytest.raises(ValueError, match="layer_norm_type 'default' is not Llama's"):
        load_hugging_face(folder)


@torch.no_grad()
def test_dream_is_qwen2_with_predictions_moved_by_one(tmp_path: Path) -> None:
    plain = pretrained("qwen2")
    config = architecture("qwen2") | {
        "model_type": "Dream",
        "mask_token_id": MASK,
        "auto_map": {"AutoModel": "evil.py"},
    }
    model = load_hugging_face(
        large_folder(tmp_path / "dream", config, {name: value.clone() for name, value in plain.state_dict().items()})
    )
    x, text = tokens(), [id for id in range(K) if id != MASK]
    mask = torch.ones(3, 1, x.shape[1], x.shape[1], dtype=torch.bool)
    expected = plain(input_ids=x, attention_mask=mask, use_cache=False).logits
    torch.testing.assert_close(logits(model, x)[:, 1:, text], expected[:, :-1, text])
    assert "position 0 has no prediction of its own" in (model.about.origin or {})["notes"][0]


@pytest.mark.parametrize("kind", CAUSAL)
def test_a2d_takes_its_mask_from_the_tokenizer(kind: str, tmp_path: Path) -> None:
    tensors = {name: value.clone() for name, value in pretrained(kind).state_dict().items()}
    folder = large_folder(tmp_path / kind, architecture(kind) | {"model_type": f"a2d-{kind}"}, tensors)
    with pytest.raises(ValueError, match="no mask token was found"):
        load_hugging_face(folder)
    (folder / "vocab.txt").write_text("\n".join(word.replace("[MASK]", "<|mask|>") for word in WORDS), encoding="utf-8")
    model = load_hugging_face(folder)
    assert model.process.name == "masked"
    assert model.process.mask == MASK
    assert logits(model, tokens()).isneginf().all((0, 1)).nonzero().flatten().tolist() == [MASK, 39]
