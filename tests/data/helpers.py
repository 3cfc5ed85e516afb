"""Small texts, and the real ones where they are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tokenloom.data.base import Dataset
from tokenloom.data.text import load_text

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
TEXT = "The cat sat.\n\nThe  cat, naïve as ever, sat on 12 mats — 猫!\n"
STORIES = [f"story {number} of a cat that sat on mat {number * 7}\n" for number in range(40)]


def shared(name: str) -> Path:
    if not (SHARED / name).exists():
        pytest.skip(f"the real data {name} is not on this machine")
    return SHARED / name


def load(source: Path | str, folder: Path, **options: Any) -> Dataset:
    return load_text(source, cache=folder / "cache", **options)


def refused(sentence: str, source: Path | str, folder: Path, **options: Any) -> None:
    with pytest.raises(ValueError, match=sentence):
        load(source, folder, **options)


def write_parquet(path: Path, column: str, texts: Sequence[str | None]) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({column: texts}), path)
