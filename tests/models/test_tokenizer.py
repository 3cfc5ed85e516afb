"""Text becomes ids and comes back, and every kind of tokenizer can be stored."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data.helpers import STORIES, TEXT, load, shared
from tokenloom.data.packing import encode_documents
from tokenloom.models.tokenizer import Bytes, Characters, Subwords, cut_at_spaces
from tokenloom.models.tokenizer_sources import build_tokenizer, load_tokenizer, suitable_size, tokenizer_from_json


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe:300"])
def test_decoding_inverts_encoding_before_and_after_storage(kind: str, tmp_path: Path) -> None:
    if kind.startswith("bpe"):
        pytest.importorskip("tokenizers")
    tokenizer = build_tokenizer(kind, [TEXT])
    tokenizer.save(tmp_path / "stored.json")
    stored = load_tokenizer(tmp_path / "stored.json")
    for one in (tokenizer, stored):
        ids = one.encode(TEXT)
        assert one.decode(ids) == TEXT
        assert 0 <= min(ids) <= max(ids) < one.vocab_size
        assert one.encode("") == []
    assert stored.identity == tokenizer.identity
    assert stored.end_of_sequence == tokenizer.end_of_sequence
    assert type(stored) is type(tokenizer)


def test_each_kind_has_its_vocabulary() -> None:
    assert Characters("abc").encode("cab") == [2, 0, 1]
    assert build_tokenizer("characters", ["bac"]).to_json() == Characters("abc").to_json()
    assert Bytes().encode("é") == [0xC3, 0xA9]
    assert Bytes().decode([0xC3]) == "�"
    assert Bytes().vocab_size == 256


@pytest.mark.parametrize("kind", ["characters", "bytes"])
def test_text_of_several_documents_has_an_end(kind: str) -> None:
    assert build_tokenizer(kind, ["ab"]).end_of_sequence is None
    several = build_tokenizer(kind, ["ab", "ca"])
    end = several.end_of_sequence
    assert end == several.vocab_size - 1
    assert several.decode([*several.encode("ab"), end]) == "ab<|endoftext|>"
    assert (
        tokenizer_from_json(several.to_json()).identity == several.identity != build_tokenizer(kind, ["abc"]).identity
    )
    a, b = several.encode("ab")
    for row, text in (([end, a, b, end, b], "ab"), ([a, end, end], "a"), ([a, b], "ab"), ([end, end], "")):
        assert several.decode(several.until_end(row)) == text


@pytest.mark.parametrize(
    ("characters", "size"), [(0, 512), (500_000, 512), (1_100_000, 1024), (2_600_000, 2048), (10**8, 4096)]
)
def test_a_vocabulary_suits_the_size_of_its_text(characters: int, size: int) -> None:
    document, whole = "a" * 50_000, characters // 50_000
    chosen, texts = suitable_size(document for _ in range(whole))
    assert chosen == size
    assert sum(1 for _ in texts) == whole  # nothing of the text is lost


def test_bpe_without_a_number_is_the_one_that_suits_the_text() -> None:
    pytest.importorskip("tokenizers")
    text = [" ".join(f"{number:x}" for number in range(5000))]
    assert build_tokenizer("bpe", text).identity == build_tokenizer("bpe:512", text).identity
    assert build_tokenizer("bpe", text).vocab_size == 512


def test_subwords_have_their_vocabulary() -> None:
    pytest.importorskip("tokenizers")
    trained = build_tokenizer("bpe:270", STORIES)
    assert trained.vocab_size == 270
    assert trained.end_of_sequence is not None
    assert trained.decode([trained.end_of_sequence]) == "<|endoftext|>"
    assert trained.decode(trained.encode("unseen: 猫")) == "unseen: 猫"
    assert tokenizer_from_json(json.dumps(json.loads(trained.to_json())["tokenizer"])).identity == trained.identity


def test_gpt2_files_give_the_published_ids() -> None:
    pytest.importorskip("tokenizers")
    for source in (shared("tokenizers"), shared("tokenizers/gpt2-vocab.json")):
        tokenizer = build_tokenizer(str(source), ())
        assert tokenizer.encode("Hello world") == [15496, 995]
        assert (tokenizer.vocab_size, tokenizer.end_of_sequence) == (50257, 50256)
        assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT


def test_bert_files_give_the_published_ids() -> None:
    pytest.importorskip("tokenizers")
    tokenizer = build_tokenizer(str(shared("tokenizers/bert-base-uncased-vocab.txt")), ())
    assert tokenizer.encode("Hello world") == [7592, 2088]
    assert (tokenizer.vocab_size, tokenizer.end_of_sequence) == (30522, 102)
    assert tokenizer.decode(tokenizer.encode("Hello world")) == "hello world"


def test_a_long_text_in_pieces_has_the_tokens_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    tokenizer = load_tokenizer(shared("tokenizers"))
    assert isinstance(tokenizer, Subwords)
    text = (TEXT + " \n = Title = \n \n a\t b\n\n\nc   d e\u00a0f \x1c g's\r\n" + STORIES[0]) * 20
    for size in (1, 2, 3, 7, 50):
        pieces = list(cut_at_spaces(text, size))
        assert "".join(pieces) == text
        assert len(pieces) > 20
        assert [i for piece in pieces for i in tokenizer.encode(piece)] == tokenizer.encode(text)
    monkeypatch.setattr("tokenloom.models.tokenizer.PIECE", 40)
    small = load_tokenizer(shared("tokenizers"))
    assert [ids.tolist() for ids in small.encode_batch([text, "", TEXT])] == [
        tokenizer.encode(text), [], tokenizer.encode(TEXT),
    ]  # fmt: skip


def test_encoding_adds_no_special_token(tmp_path: Path) -> None:
    library = pytest.importorskip("tokenizers")
    plain = build_tokenizer("bpe:270", STORIES)
    framed = library.Tokenizer.from_str(json.dumps(json.loads(plain.to_json())["tokenizer"]))
    end = ("<|endoftext|>", plain.end_of_sequence)
    framed.post_processor = library.processors.BertProcessing(end, end)
    framed.enable_truncation(4)
    framed.save(str(tmp_path / "tokenizer.json"))
    assert load_tokenizer(tmp_path).encode(TEXT) == plain.encode(TEXT)


def test_an_unknown_character_is_named_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("abc " * 10)
    (tmp_path / "b.txt").write_text("abc\n<|endoftext|>\nab\u00e9c")
    with pytest.raises(ValueError, match=r"validation text .*'\\n'.*position 3 of document 1 "):
        load(tmp_path / "a.txt", tmp_path, valid=tmp_path / "b.txt", length=2)
    with pytest.raises(ValueError, match=r"'é' \(U\+00E9\) at position 2 of document 5 .* alphabet of 3 characters"):
        Characters("abc").encode_batch(["abc", "abéc"], first=4)
    monkeypatch.setattr("tokenloom.data.packing.BATCH", 1)
    with pytest.raises(ValueError, match=r"the text cannot be tokenised: .*position 0 of document 3 "):
        list(encode_documents(["abc", "a", "d"], Characters("abc"), "the text"))


def test_a_wrong_tokenizer_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "x-vocab.json").write_text("{}")
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    (tmp_path / "tokenizer.json").write_text("{")
    for kind, sentence in {
        "charcters": "unknown tokenizer charcters; did you mean characters",
        "bpe:12": "at least 257 tokens, got bpe:12",
        "bpe:many": "whole number N",
        "./missing/tokenizer.json": "no tokenizer file ./missing/tokenizer.json",
        str(tmp_path / "empty"): "has no tokenizer.json, no vocab.json",
        str(tmp_path / "x-vocab.json"): "there is no x-merges.txt",
        str(tmp_path / "vocab.txt"): r"has no \[UNK\]",
        str(tmp_path / "tokenizer.json"): "holds no tokenizer",
    }.items():
        with pytest.raises(ValueError, match=sentence):
            build_tokenizer(kind, ["a"])
    with pytest.raises(ValueError, match="kind characters, bytes or subwords, got 'pickle'"):
        tokenizer_from_json('{"kind": "pickle"}')


def subwords(model: dict[str, Any], **parts: Any) -> Subwords:
    return Subwords(json.dumps({"version": "1.0", "added_tokens": [], "model": model} | parts))


def test_a_tokenizer_that_panics_gets_a_sentence() -> None:
    """A panic of a library in Rust is no `Exception`: `except Exception` lets it pass and ends the program."""
    pytest.importorskip("tokenizers")
    words = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "[UNK]"}
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    with pytest.raises(ValueError, match=r"not a tokenizer\.json"):
        subwords(words, normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"})
    with pytest.raises(ValueError, match="the tokenizer cannot read this text"):
        subwords(words).encode("c")
    with pytest.raises(ValueError, match="the tokenizer cannot read this text"):
        subwords(words, pre_tokenizer=pattern).encode("a" * 30 + "!")


def test_a_tokenizer_that_would_take_gigabytes_gets_a_sentence() -> None:
    """The library allocates a table of the size that is claimed, and writes down every id that is left out."""
    pytest.importorskip("tokenizers")
    words = {"type": "WordLevel", "vocab": {"a": 0, "b": 2**31}, "unk_token": "a"}
    with pytest.raises(ValueError, match="has 2 tokens and the id 2147483648; number them from 0 on"):
        subwords(words)
    words["vocab"] = {"a": 0, "b": 5}
    assert subwords(words).vocab_size == 6
    with pytest.raises(ValueError, match="claims a table of 4294967295 bytes and has 6"):
        subwords(words, normalizer={"type": "Precompiled", "precompiled_charsmap": "/////wAA"})
    with pytest.raises(ValueError, match="precompiled_charsmap of this tokenizer is not base64"):
        subwords(words, normalizer={"type": "Sequence", "normalizers": [{"precompiled_charsmap": "!!"}]})


@pytest.mark.parametrize("tokenizer", [Characters("abc"), Bytes()])
@pytest.mark.parametrize("token", [-1, 256])
def test_a_token_that_the_tokenizer_lacks_is_named(tokenizer: Characters | Bytes, token: int) -> None:
    with pytest.raises(ValueError, match=rf"has the tokens 0\.\.{tokenizer.vocab_size - 1}, got {token}"):
        tokenizer.decode([0, token])
