"""Rows lose only what is stated."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from tests.data.helpers import load, refused
from tokenloom.data.documents import Corpus
from tokenloom.data.packing import pack
from tokenloom.models.tokenizer import Bytes, Ids

END = 99


def documents() -> list[Ids]:
    generator = np.random.default_rng(0)
    return [generator.integers(0, 90, size, dtype=np.int32) for size in (5, 1, 17, 3, 30, 8)]


def rows(packing: str, length: int, end: int | None = END, start: int | None = None, padding: int | None = None) -> Ids:
    """Rows of these documents, which are tokens already."""
    corpus = Corpus("the text", "", lambda: iter(documents()))  # type: ignore[arg-type]
    tokenizer = Mock(spec=Bytes, end_of_sequence=end, start_of_sequence=start, padding=padding)
    tokenizer.encode_batch = lambda batch, first: batch
    return np.concatenate(list(pack(corpus, tokenizer, packing, length)))


@pytest.mark.parametrize("block", [1, 10, 1 << 20])
@pytest.mark.parametrize("end", [END, None])
def test_wrapping_loses_only_the_last_row(block: int, end: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_vocabulary_with_a_start_and_a_padding_frames_rows_with_them() -> None:
    """As BERT's rows are: [CLS] c [SEP], and [CLS] d [SEP] [PAD] ..."""
    start, padding = 97, 98
    framed = rows("sentences", 8, END, start, padding)
    assert (framed[:, 0] == start).all()
    assert (framed[:, -1] == END).all()
    for row, document in zip(rows("pad", 8, END, start, padding).tolist(), documents(), strict=True):
        whole = [start, *document.tolist(), END]
        assert row == (whole + [padding] * 8)[:8]


def test_impossible_packings_get_a_sentence(as_a_user: None, stories: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the text has 70 tokens, but one row needs 71"):
        rows("wrap", 71)
    refused("unknown packing sentence; did you mean sentences", stories, tmp_path, packing="sentence")
    refused("at least 3 tokens, got a length of 2", stories, tmp_path, packing="sentences", length=2)
    (tmp_path / "one.txt").write_text("one document has no end " * 40)
    refused("pad needs an end of sequence; use wrap", tmp_path / "one.txt", tmp_path, packing="pad")
    assert load(stories, tmp_path, packing="pad", length=50).decode.tokenizer is not None
    refused(r"the validation text has \d+ tokens, but one row needs 900", stories, tmp_path, length=900)
