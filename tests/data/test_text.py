"""Text becomes tokens and comes back; rows lose only what is stated; splits share nothing; the cache is never stale."""

import contextlib
import gzip
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tokenloom.data.base import Dataset
from tokenloom.data.hub_text import HUB
from tokenloom.data.packing import encode_documents, pack
from tokenloom.data.text import RowDecoder, load_text
from tokenloom.data.token_cache import cached_rows, default_cache, whole_file
from tokenloom.data.tokenizer import (
    Bytes,
    Characters,
    Ids,
    Subwords,
    Tokenizer,
    build_tokenizer,
    cut_at_spaces,
    load_tokenizer,
    tokenizer_from_json,
)

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
TEXT = "The cat sat.\n\nThe  cat, naïve as ever, sat on 12 mats — 猫!\n"
STORIES = [f"story {number} of a cat that sat on mat {number * 7}\n" for number in range(40)]
END = 99


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    path = tmp_path / "stories.txt"
    path.write_text("<|endoftext|>\n".join(STORIES))
    return path


def shared(name: str) -> Path:
    if not (SHARED / name).exists():
        pytest.skip(f"the real data {name} is not on this machine")
    return SHARED / name


def load(source: Path | str, folder: Path, **options: Any) -> Dataset:
    return load_text(source, cache=folder / "cache", **options)


def tokenizer_of(dataset: Dataset) -> Tokenizer:
    assert isinstance(dataset.decode, RowDecoder)
    return dataset.decode.tokenizer


def write_parquet(path: Path, column: str, texts: Sequence[str | None]) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({column: texts}), path)


# Tokenizers


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
    assert build_tokenizer("characters", ["ba", "c"]).to_json() == Characters("abc").to_json()
    assert Bytes().encode("é") == [0xC3, 0xA9]
    assert Bytes().decode([0xC3]) == "�"
    assert Bytes().vocab_size == 256
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


def test_a_long_text_in_pieces_has_the_tokens_of_the_whole() -> None:
    pytest.importorskip("tokenizers")
    tokenizer = load_tokenizer(shared("tokenizers"))
    assert isinstance(tokenizer, Subwords)
    text = (TEXT + " \n = Title = \n \n a\t b\n\n\nc   d e\u00a0f \x1c g's\r\n" + STORIES[0]) * 20
    for size in (1, 2, 3, 7, 50):
        pieces = list(cut_at_spaces(text, size))
        assert "".join(pieces) == text
        assert len(pieces) > 20
        assert [i for piece in pieces for i in tokenizer.encode(piece)] == tokenizer.encode(text)
    tokenizer._piece = 40
    assert tokenizer.encode_batch([text, "", TEXT])[0].tolist() == Subwords(
        json.dumps(json.loads(tokenizer.to_json())["tokenizer"])
    ).encode(text)


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


def test_without_the_extra_only_characters_and_bytes_work(
    monkeypatch: pytest.MonkeyPatch, stories: Path, tmp_path: Path
) -> None:
    for module in ("tokenizers", "datasets", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert load(stories, tmp_path, tokenizer="characters", length=16).vocab_size < 40
    assert load(stories, tmp_path, tokenizer="bytes", length=16).vocab_size == 256
    for source, kind in ((stories, "bpe:300"), ("wikitext", "bytes"), (tmp_path / "a.parquet", "bytes")):
        with pytest.raises(ValueError, match=r'pip install "tokenloom\[text\]"'):
            load(source, tmp_path, tokenizer=kind)


def test_a_hub_name_offline_gets_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    datasets = pytest.importorskip("datasets")
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"from_pretrained could not get it.*local tokenizer.json; did you mean gpt2"):
        build_tokenizer("gtp2", ())
    for name in ("openwebtext", "ptb"):
        with pytest.raises(ValueError, match=f"the data set {name} .* could not be loaded with datasets.load_dataset"):
            load(name, tmp_path, tokenizer="bytes")


# Packing


def documents() -> list[Ids]:
    generator = np.random.default_rng(0)
    return [generator.integers(0, 90, size, dtype=np.int32) for size in (5, 1, 17, 3, 30, 8)]


def rows(packing: str, length: int, end: int | None = END) -> Ids:
    return np.concatenate(list(pack(documents(), packing, length, end, "the text")))


@pytest.mark.parametrize("block", [1, 10, 1 << 20])
@pytest.mark.parametrize("end", [END, None])
def test_wrapping_loses_only_the_last_incomplete_row(
    block: int, end: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokenloom.data.packing.BLOCK", block)
    ends = [] if end is None else [end]
    stream = [i for document in documents() for i in document.tolist() + ends]
    for length in (1, 4, 9, len(stream)):
        packed = rows("wrap", length, end).ravel().tolist()
        assert packed == stream[: len(packed)]
        assert 0 <= len(stream) - len(packed) < length


@pytest.mark.parametrize("block", [1, 1 << 20])
def test_sentence_rows_start_and_end_with_the_end_of_sequence(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenloom.data.packing.BLOCK", block)
    stream = [i for document in documents() for i in [*document.tolist(), END]]
    for length in (3, 8, len(stream) + 2):
        packed = rows("sentences", length)
        assert packed.shape[1] == length
        assert (packed[:, [0, -1]] == END).all()
        inside = packed[:, 1:-1].ravel().tolist()
        assert inside == stream[: len(inside)]
        assert 0 <= len(stream) - len(inside) < length - 2


def test_padding_gives_each_document_its_row() -> None:
    packed = rows("pad", 8)
    assert len(packed) == len(documents())
    for row, document in zip(packed, documents(), strict=True):
        kept = min(8, len(document))
        assert row[:kept].tolist() == document[:kept].tolist()
        assert (row[kept:] == END).all()


def test_impossible_packings_get_a_sentence(as_a_user: None, stories: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the text has 70 tokens, but one row needs 71"):
        rows("wrap", 71)
    with pytest.raises(ValueError, match="unknown packing sentence; did you mean sentences"):
        load(stories, tmp_path, packing="sentence")
    with pytest.raises(ValueError, match="at least 3 tokens, got a length of 2"):
        load(stories, tmp_path, packing="sentences", length=2)
    with pytest.raises(ValueError, match="pad needs a tokenizer with an end-of-sequence token"):
        load(stories, tmp_path, packing="pad")
    with pytest.raises(ValueError, match=r"the validation text has \d+ tokens, but one row needs 900"):
        load(stories, tmp_path, length=900)


# Files and splits


def test_every_format_gives_the_same_documents(stories: Path, tmp_path: Path) -> None:
    records = "".join(json.dumps({"text": story, "id": 1}) + "\n" for story in ["", *STORIES, " \n"])
    (tmp_path / "s.jsonl").write_text(records)
    (tmp_path / "s.txt.gz").write_bytes(gzip.compress(stories.read_bytes()))
    paths = [tmp_path / "s.jsonl", tmp_path / "s.txt.gz"]
    if importlib.util.find_spec("pyarrow"):
        write_parquet(tmp_path / "s.parquet", "text", [None, *STORIES])
        paths.append(tmp_path / "s.parquet")
    expected = load(stories, tmp_path, length=16)
    for path in paths:
        dataset = load(path, tmp_path, length=16)
        assert dataset.train.equal(expected.train)
        assert dataset.valid.equal(expected.valid)


@pytest.mark.parametrize("fraction", [0.001, 0.1, 0.5, 0.999])
@pytest.mark.parametrize("single", [True, False])
def test_splits_share_nothing_and_lose_nothing(single: bool, fraction: float, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("".join(STORIES) if single else "<|endoftext|>\n".join(STORIES))
    dataset = load(path, tmp_path, length=1, tokenizer="bytes", valid_fraction=fraction)
    train, valid = ("".join(dataset.decode(table)) for table in (dataset.train, dataset.valid))
    assert train + valid == "".join(STORIES)
    held_out = len(valid) / len(train + valid) if single else valid.count("story") / len(STORIES)
    assert held_out == pytest.approx(min(max(fraction, 1 / 40), 39 / 40) if not single else fraction, abs=1e-3)
    assert valid.startswith("story") or single


def test_a_folder_is_the_sum_of_its_files_unless_it_names_its_splits(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.txt").write_text("aaaa")
    (folder / "inner" / "b.jsonl").write_text('{"text": "bbbb"}\n')
    (folder / "notes.md").write_text("zzzz")
    dataset = load(folder, tmp_path, length=2, tokenizer="bytes", valid_fraction=0.5)
    assert dataset.decode(dataset.train) + dataset.decode(dataset.valid) == ["aa", "aa", "bb", "bb"]
    for name, text in {"train.txt": "tttt", "validation.txt": "vvvv", "test.txt": "xxxx"}.items():
        (folder / name).write_text(text)
    dataset = load(folder, tmp_path, length=4, tokenizer="bytes")
    assert dataset.decode(dataset.train) + dataset.decode(dataset.valid) == ["tttt", "vvvv"]


def test_unreadable_text_gets_a_sentence(tmp_path: Path, stories: Path) -> None:
    (tmp_path / "nothing").mkdir()
    for name, content in {
        "empty.txt": b"",
        "blank.txt": b" \n<|endoftext|>\n\n",
        "binary.txt": b"ab\nc\0d",
        "latin.txt": b"ok\nna\xefve",
        "cut.txt.gz": gzip.compress(b"abc" * 99)[:-9],
        "field.jsonl": b'{"text": "a"}\n\n{"body": "b"}\n',
        "list.jsonl": b"[1]\n",
        "surrogate.jsonl": b'{"text": "\\ud800"}\n',
        "table.csv": b"a,b",
    }.items():
        (tmp_path / name).write_bytes(content)
    for name, sentence in {
        "empty.txt": "empty.txt is empty",
        "blank.txt": "blank.txt is empty",
        "binary.txt": "is a binary file, not text: line 2 has a NUL byte",
        "latin.txt": "is no UTF-8 text: line 2",
        "cut.txt.gz": "is no whole gzip file",
        "field.jsonl": 'line 3 of .*field.jsonl is no JSON object with a string field "text"',
        "list.jsonl": "line 1 of",
        "surrogate.jsonl": "line 1 of",
        "table.csv": "its name must end in .txt",
        "nothing": "the folder .*nothing has no file that ends in",
        "missing.txt": "there is no file, folder or data set",
    }.items():
        with pytest.raises(ValueError, match=sentence):
            load(tmp_path / name, tmp_path)
    with pytest.raises(ValueError, match="data set wikitxt; did you mean wikitext"):
        load("wikitxt", tmp_path)
    with pytest.raises(ValueError, match=r"share .*stories.txt; they must not overlap"):
        load(stories, tmp_path, valid=stories)
    with pytest.raises(ValueError, match=r"valid_fraction must be in \(0, 1\), got 1.5"):
        load(stories, tmp_path, valid_fraction=1.5)


def test_the_same_content_for_training_and_validation_is_refused(stories: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_text(stories.read_text())
    with pytest.raises(ValueError, match=r"share the content of .*stories.txt, which is that of .*copy.txt; they must"):
        load(stories, tmp_path, valid=copy)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in {"train-1.txt": "a", "train-2.txt": "b", "valid.txt": "b"}.items():
        (folder / name).write_text(text * 100)
    with pytest.raises(ValueError, match=r"share the content of .*train-2.txt, which is that of .*valid.txt"):
        load(folder, tmp_path)
    with pytest.raises(ValueError, match=r"share .*train-2.txt; they must not overlap"):
        load(folder, tmp_path, valid=folder / "train-2.txt")
    (folder / "valid.txt").write_text("c" * 100)
    assert len(load(folder, tmp_path, tokenizer="bytes", length=50).valid) == 2


def test_hub_data_sets_load_from_copies_of_their_repositories(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    wikitext = tmp_path / HUB["wikitext"].path
    wikitext.mkdir(parents=True)
    split = "{{split: {0}, path: {0}.jsonl}}"
    data_files = f"[{split.format('train')}, {split.format('validation')}]"
    (wikitext / "README.md").write_text(
        f"---\nconfigs:\n- config_name: wikitext-103-raw-v1\n  data_files: {data_files}\n---\n"
    )
    ptb = tmp_path / HUB["ptb"].path / "penn_treebank"
    for name, text in {"train": "tttt", "validation": "vv"}.items():
        (wikitext / f"{name}.jsonl").write_text(f'{{"text": ""}}\n{{"text": "{text}"}}\n')
        (ptb / name).mkdir(parents=True)
        write_parquet(ptb / name / "0000.parquet", "sentence", [text])
    for source in ("wikitext", "ptb"):
        dataset = load(source, tmp_path, length=2, tokenizer="bytes", hub_root=tmp_path)
        assert dataset.name == source
        assert dataset.decode(dataset.train) == ["tt", "tt"]
        assert dataset.decode(dataset.valid) == ["vv"]


# Cache


def test_a_second_load_neither_tokenises_nor_learns(
    stories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    original = Characters.encode_batch

    def counted(self: Characters, texts: Any, first: int = 1) -> list[Ids]:
        calls.append(len(texts))
        return original(self, texts, first)

    def refused(kind: str, texts: Any) -> Tokenizer:
        raise AssertionError(f"{kind} was learned again")

    monkeypatch.setattr(Characters, "encode_batch", counted)
    one = load(stories, tmp_path, length=16)
    assert sum(calls) == len(STORIES)
    monkeypatch.setattr("tokenloom.data.text.build_tokenizer", refused)
    two = load(stories, tmp_path, length=16)
    assert sum(calls) == len(STORIES)
    assert one.train.equal(two.train)
    assert one.valid.equal(two.valid)
    assert one.fingerprint == two.fingerprint
    assert one.train.dtype == torch.int32
    load(stories, tmp_path, length=17)
    assert sum(calls) == 2 * len(STORIES)


def test_the_fingerprint_follows_content_tokenizer_packing_and_length(stories: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "stories.txt"
    other.parent.mkdir()
    other.write_text(stories.read_text().replace("cat", "cab", 1))
    found = {
        load(stories, tmp_path, length=16).fingerprint,
        load(stories, tmp_path, length=17).fingerprint,
        load(stories, tmp_path, length=16, tokenizer="bytes").fingerprint,
        load(stories, tmp_path, length=16, valid_fraction=0.2).fingerprint,
        load(other, tmp_path, length=16).fingerprint,
    }
    assert len(found) == 5
    other.write_text(stories.read_text())
    other = other.rename(tmp_path / "renamed.txt")
    assert load(other, tmp_path, length=16).fingerprint in found


@pytest.mark.parametrize("damage", ["truncated", "edited", "header", "no header", "no tokens"])
def test_a_damaged_cache_is_built_again(damage: str, tmp_path: Path) -> None:
    builds: list[int] = []

    def build() -> Iterator[Ids]:
        builds.append(1)
        yield np.arange(12, dtype=np.int32).reshape(3, 4)
        yield np.arange(12, 20, dtype=np.int32).reshape(2, 4)

    tokens, header = tmp_path / "key.tokens", tmp_path / "key.json"
    cached_rows(tmp_path, "key", 4, build)
    cached_rows(tmp_path, "key", 4, build)
    assert len(builds) == 1
    raw = bytearray(tokens.read_bytes())
    assert np.frombuffer(bytes(raw), dtype="<i4").tolist() == list(range(20))
    raw[8] ^= 1
    damages: dict[str, Callable[[], object]] = {
        "truncated": lambda: tokens.write_bytes(tokens.read_bytes()[:-4]),
        "edited": lambda: tokens.write_bytes(raw),
        "header": lambda: header.write_text("{"),
        "no header": header.unlink,
        "no tokens": tokens.unlink,
    }
    damages[damage]()
    assert cached_rows(tmp_path, "key", 4, build).tolist() == torch.arange(20).view(5, 4).tolist()
    assert len(builds) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key.json", "key.tokens"]


def test_a_name_appears_only_with_its_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    with whole_file(path) as one, whole_file(path) as two:
        one.write(b"one")
        two.write(b"two")
        assert not path.exists()
    assert path.read_bytes() == b"one"  # the last to finish
    with contextlib.suppress(RuntimeError), whole_file(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"one"
    assert os.listdir(path.parent) == ["file"]


def test_rows_in_memory_never_change_the_file(tmp_path: Path) -> None:
    table = cached_rows(tmp_path, "key", 2, lambda: [np.zeros((2, 2), np.int32)])
    table += 1
    assert cached_rows(tmp_path, "key", 2, list).sum() == 0


def test_the_cache_is_where_the_user_keeps_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "tokenloom"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "tokenloom"
    (tmp_path / "file").write_text("")
    (tmp_path / "text.txt").write_text("abcdef" * 9)
    with pytest.raises(ValueError, match=r"cache directory .*file cannot be written .*; pass another one as cache"):
        load_text(tmp_path / "text.txt", length=2, cache=tmp_path / "file")


# Real data


def test_real_stories_come_back_as_text(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    train, valid = shared("tinystories/valid.txt"), shared("tinystories/train.txt")
    dataset = load(train, tmp_path, valid=valid, tokenizer=str(shared("tokenizers")), length=64, packing="sentences")
    assert dataset.length == 64
    assert (dataset.train[:, [0, -1]] == 50256).all()
    text = train.read_text(encoding="utf-8")
    assert dataset.decode(dataset.train[:1])[0].removeprefix("<|endoftext|>").split("<|endoftext|>")[0] in text
    assert tokenizer_of(dataset).vocab_size == dataset.vocab_size == 50257


def test_real_characters_of_text8(tmp_path: Path) -> None:
    dataset = load(shared("text8/valid_1M.txt.gz"), tmp_path, length=250)
    assert (dataset.vocab_size, len(dataset.train), len(dataset.valid)) == (27, 3800, 200)
