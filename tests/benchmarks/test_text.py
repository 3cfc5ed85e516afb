"""What to expect of a text of one's own: a small run, its figures, and that nothing is trained twice."""

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import bench_text
from tests.data.helpers import TEXT
from tokenloom.nn.transformer import TransformerOptions
from tokenloom.training.config import TrainConfig
from tokenloom.training.recipes import recipe


def tiny(name: str) -> TrainConfig:
    network = TransformerOptions(width=8, depth=1, heads=1, condition=4)
    return replace(recipe(name), network=network, max_steps=2, fit=())


@pytest.mark.usefixtures("as_a_user")
def test_a_small_run_measures_networks_beside_counts_and_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tokenizers")
    monkeypatch.setattr(bench_text, "recipe", tiny)
    text, out = tmp_path / "one.txt.gz", tmp_path / "text.json"
    text.write_bytes(gzip.compress((TEXT + "\n").encode() * 400))
    options = ({"One": text}, (1.0,), ("mdm", "ar"), 10, tmp_path / "runs", out)
    bench_text.main(*options)
    kept = json.loads(out.read_text())
    assert [(each["corpus"], each["minutes"], each["method"]) for each in kept["cells"]] == [
        ("One", 1.0, "mdm"),
        ("One", 1.0, "ar"),
    ]
    for each in kept["cells"]:
        (nats,) = each["nats_per_character"].values()
        untrained = math.log(each["vocabulary"]) / each["characters_per_token"]
        assert nats == pytest.approx(untrained, rel=0.05 if each["method"] == "ar" else 0.5)  # of few rows
        assert each["counts"]["3"] < each["counts"]["2"] < each["counts"]["1"] < untrained
    monkeypatch.setattr(bench_text, "train", None)  # nothing is left to train
    bench_text.main(*options)
    assert json.loads(out.read_text()) == kept
