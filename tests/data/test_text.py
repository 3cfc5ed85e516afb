"""Every format gives the same documents, splits share nothing and lose nothing, and real text comes back."""

import gzip
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from tests.data.helpers import STORIES, load, refused, shared, write_parquet
from tokenloom.models.tokenizer import END_OF_TEXT, Characters


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
    ends = 0 if single or train.count("story") == 1 else len(STORIES)
    assert (train + valid).count(END_OF_TEXT) == ends
    train, valid = train.replace(END_OF_TEXT, ""), valid.replace(END_OF_TEXT, "")
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


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.txt", b"", "empty.txt is empty"),
        ("blank.txt", b" \n<|endoftext|>\n\n", "blank.txt is empty"),
        ("binary.txt", b"ab\nc\0d", "is a binary file, not text: line 2 has a NUL byte"),
        ("latin.txt", b"ok\nna\xefve", "is not UTF-8 text: line 2"),
        ("cut.txt.gz", gzip.compress(b"abc" * 99, mtime=0)[:-9], "is not a whole gzip file"),
        ("field.jsonl", b'{"text": "a"}\n\n{"body": "b"}\n', 'line 3 of .*field.jsonl .* a string field "text"'),
        ("list.jsonl", b"[1]\n", "line 1 of"),
        ("surrogate.jsonl", b'{"text": "\\ud800"}\n', "line 1 of"),
        ("table.csv", b"a,b", "table.csv can be read as text; file names must end in .txt"),
        ("nothing", None, "nothing in .*nothing can be read"),
    ],
)
def test_unreadable_text_gets_a_sentence(name: str, content: bytes | None, sentence: str, tmp_path: Path) -> None:
    if content is None:
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(content)
    refused(sentence, tmp_path / name, tmp_path)


def test_what_is_missing_or_overlaps_gets_a_sentence(tmp_path: Path, stories: Path) -> None:
    refused("there is no file, folder or data set", tmp_path / "missing.txt", tmp_path)
    refused("data set wikitxt; did you mean wikitext", "wikitxt", tmp_path)
    refused(r"share .*stories.txt; they must not overlap", stories, tmp_path, valid=stories)
    refused(r"valid_fraction must be in \(0, 1\), got 1.5", stories, tmp_path, valid_fraction=1.5)


def test_the_same_content_for_training_and_validation_is_refused(stories: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_text(stories.read_text())
    refused(r"share the content of .*stories.txt, which is that of .*copy.txt", stories, tmp_path, valid=copy)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in {"train-1.txt": "a", "train-2.txt": "b", "valid.txt": "b"}.items():
        (folder / name).write_text(text * 100)
    refused(r"share the content of .*train-2.txt, which is that of .*valid.txt", folder, tmp_path)
    refused(r"share .*train-2.txt; they must not overlap", folder, tmp_path, valid=folder / "train-2.txt")
    (folder / "valid.txt").write_text("c" * 100)
    assert len(load(folder, tmp_path, tokenizer="bytes", length=50).valid) == 2


@pytest.mark.parametrize("tokenizer", ["characters", "bytes", "bpe:300"])
def test_rows_hold_the_end_of_every_document(tokenizer: str, stories: Path, tmp_path: Path) -> None:
    dataset = load(stories, tmp_path, tokenizer=tokenizer, length=8, valid_fraction=0.1)
    end = -1 if dataset.tokenizer is None else dataset.tokenizer.end_of_sequence
    ends = [table.flatten().tolist().count(end) for table in (dataset.train, dataset.valid)]
    assert 36 - 1 <= ends[0] <= 36  # the last row is dropped unless it is full
    assert 4 - 1 <= ends[1] <= 4


def test_characters_that_the_tokenizer_does_not_know_are_refused_or_dropped_and_counted(tmp_path: Path) -> None:
    known, text = tmp_path / "known.json", tmp_path / "text.txt"
    known.write_text(Characters(" acht").to_json())
    text.write_text("the cat [\u00e9] hat\n" * 30)
    refused(r"'e' \(U\+0065\) .* --data.unknown drop", text, tmp_path, tokenizer=str(known), length=8)
    dataset = load(text, tmp_path, tokenizer=str(known), length=8, valid_fraction=0.1, unknown="drop")
    assert set("".join(dataset.decode(dataset.train))) == set(" acht")
    assert "".join(dataset.decode(dataset.train)).startswith("th cat  hatth cat  hat")
    assert len(dataset.notes) == 2
    assert dataset.notes[0].startswith("135 characters that the tokenizer does not know are dropped from the training")
    assert "'e' (27), '[' (27), '\u00e9' (27), ']' (27), '\\n' (27)" in dataset.notes[0]
    assert not load(text, tmp_path, tokenizer="bytes", length=8, unknown="drop").notes


def test_without_the_extra_only_characters_and_bytes_work(
    monkeypatch: pytest.MonkeyPatch, stories: Path, tmp_path: Path
) -> None:
    for module in ("tokenizers", "datasets", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert load(stories, tmp_path, tokenizer="characters", length=16).vocab_size < 40
    assert load(stories, tmp_path, tokenizer="bytes", length=16).vocab_size == 257  # with the end of a document
    for source, kind in ((stories, "bpe:300"), ("wikitext", "bytes"), (tmp_path / "a.parquet", "bytes")):
        refused(r'pip install "tokenloom\[text\]"', source, tmp_path, tokenizer=kind)


def test_real_stories_come_back_as_text(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    train, valid = shared("tinystories/valid.txt"), shared("tinystories/train.txt")
    dataset = load(train, tmp_path, valid=valid, tokenizer=str(shared("tokenizers")), length=64, packing="sentences")
    assert dataset.length == 64
    assert (dataset.train[:, [0, -1]] == 50256).all()
    text = train.read_text(encoding="utf-8")
    assert dataset.decode(dataset.train[:1])[0].removeprefix("<|endoftext|>").split("<|endoftext|>")[0] in text
    assert getattr(dataset.tokenizer, "vocab_size", None) == dataset.vocab_size == 50257


def test_real_characters_of_text8(tmp_path: Path) -> None:
    dataset = load(shared("text8/valid_1M.txt.gz"), tmp_path, length=250)
    assert (dataset.vocab_size, len(dataset.train), len(dataset.valid)) == (27, 3800, 200)


def test_the_fingerprint_is_of_the_tokens_alone(tmp_path: Path) -> None:
    """A model keeps it for years, so neither a path nor the version of the cache may be part of it."""
    (tmp_path / "a.txt").write_text("the loom weaves\n" * 40)
    found = load(tmp_path / "a.txt", tmp_path, length=8).fingerprint
    assert found[:16] == "8acaf3e5d21e3b58"
