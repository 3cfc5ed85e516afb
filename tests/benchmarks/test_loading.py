"""`tokenloom bench loading`: three ways to load the same text, of which two pack rows."""

import json
from pathlib import Path

import pytest

from tests.cli.helpers import Shell


def test_all_ways_load_the_same_text(tmp_path: Path, shell: Shell) -> None:
    pytest.importorskip("datasets", reason="the extra text is not installed")
    kept = tmp_path / "loading.json"
    options = ["--megabytes", "0.2", "--tokenizer", "bpe:300", "--rounds", "1", "--length", "64", "--out"]
    record = shell.json("bench", "loading", *options, str(kept))
    assert record == json.loads(kept.read_text())
    tokens = {row["name"]: row["tokens"] for row in record["rows"]}
    assert list(tokens) == ["tokenloom", "datasets + tokenizers", "tokenizers alone"]
    least, most = min(tokens.values()), max(tokens.values())
    assert 0.95 * most < least  # ours ends documents with a token; rows that are not full are dropped
    assert record["rows"][0]["ours_over_it"]["median"] == 1
    assert 0 <= record["gigabytes_on_top"] < 1
