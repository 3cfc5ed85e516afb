"""The cache is never stale, never half a file, and where the user keeps caches."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.helpers import load
from tokenloom.data.text import load_text
from tokenloom.data.token_cache import cached_rows
from tokenloom.models.tokenizer import Characters, Ids
from tokenloom.support.files import default_cache, replacing


def test_a_second_load_does_not_tokenise(stories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = load(stories, tmp_path, length=16)

    def refuse(*_: Any) -> Any:
        raise AssertionError("it was tokenised or learned again")

    monkeypatch.setattr(Characters, "encode_batch", refuse)
    monkeypatch.setattr("tokenloom.data.text.build_tokenizer", refuse)
    two = load(stories, tmp_path, length=16)
    assert one.train.equal(two.train)
    assert one.valid.equal(two.valid)
    assert one.fingerprint == two.fingerprint
    assert one.train.dtype == torch.int32
    with pytest.raises(AssertionError, match="tokenised"):  # the tokenizer is cached, the rows of this length are not
        load(stories, tmp_path, length=17)


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
    with replacing(path) as one, replacing(path) as two:
        one.write_bytes(b"one")
        two.write_bytes(b"two")
        assert not path.exists()
    assert path.read_bytes() == b"one"  # the last to finish
    with contextlib.suppress(RuntimeError), replacing(path) as file:
        file.write_bytes(b"half")
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
    with pytest.raises(ValueError, match=r"cannot write .*file/.*; pass another directory as cache"):
        load_text(tmp_path / "text.txt", length=2, cache=tmp_path / "file")


BUILD = """
import sys, time
from pathlib import Path
from tokenloom.data.text import load_text

text, cache, start = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
time.sleep(max(0.0, start - time.time()))
found = load_text(text, None, "bytes", 16, cache=cache)
print(found.fingerprint, int(found.train.sum()), len(found.train))
"""


def test_processes_that_build_one_cache_at_once_end_with_one_correct_cache(tmp_path: Path) -> None:
    text, cache = tmp_path / "text.txt", tmp_path / "cache"
    text.write_text("".join(f"line {number} of many\n" for number in range(60_000)))
    start = str(time.time() + 5)  # when all of them have been started
    command = [sys.executable, "-c", BUILD, str(text), str(cache), start]
    together = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {process.communicate(timeout=120)[0] for process in together}
    assert all(process.returncode == 0 for process in together)
    assert len(said) == 1
    left = sorted(path.name for path in cache.iterdir())
    assert [name.partition(".")[2] for name in left] == ["json", "tokens"] * 2  # two splits, nothing half-written
    alone = load_text(text, None, "bytes", 16, cache=tmp_path / "other")
    assert said == {f"{alone.fingerprint} {int(alone.train.sum())} {len(alone.train)}\n"}
