"""Files of others: every fault is one sentence, and nothing is read without end."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tokenloom.support.reading import DEPTH, file_sum, read_json


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """What waits for a pipe or reads a device is interrupted."""
    signal.alarm(20)
    yield
    signal.alarm(0)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "x.json is empty"),
        (b" \n\0\0", "x.json is empty"),
        (b"{", "x.json is not JSON: Expecting"),
        (b'{"a": 1', "x.json is not JSON: Expecting"),
        (b"\xff\xfe{}", "x.json is not UTF-8 text: invalid start byte at byte 0"),
        (b"\xef\xbb\xbf{}", "x.json is not JSON: Unexpected UTF-8 BOM"),
        (b'{"a": NaN}', "NaN is not a finite number"),
        (b'{"a": -Infinity}', "-Infinity is not a finite number"),
        (b'{"a": 1e999}', "1e999 is not a finite number"),
        (b'{"a": 9223372036854775808}', "does not fit 64 bits"),
        (b"1" * 100_000, "does not fit 64 bits"),
        (b'{"a": 1, "b": 2, "a": 1}', "the key 'a' is there twice"),
        (b"[" * 1_000_000, f"nested deeper than {DEPTH} levels"),
        (b"[" * 100 + b"]" * 100, f"nested deeper than {DEPTH} levels"),
        (b'"' + b"a" * 2000 + b'"', "x.json has more than 1,000 bytes"),
    ],
)
def test_damaged_json_gets_a_sentence(content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        read_json(tmp_path / "x.json", 1_000 if content.startswith(b'"') else 10_000_000)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/zero")
    for name, sentence in (
        ("pipe", "pipe is a pipe, not a file"),
        ("folder", "folder is a folder, not a file"),
        ("device", "device is a device, not a file"),
        ("nothing", "nothing is missing"),
        ("a" * 300, "cannot be read: File name too long"),
        ("\0", "cannot be read: embedded null byte"),
    ):
        for read in (read_json, file_sum):
            with pytest.raises(ValueError, match=sentence):
                read(tmp_path / name)
