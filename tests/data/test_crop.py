"""Cropped rows begin anywhere in the text, equally often, and only in training."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.statistics import assert_frequencies
from tokenloom.data.base import Dataset, cropped
from tokenloom.data.decoder import numbers
from tokenloom.data.text import TextSource

TABLE = torch.arange(24).view(6, 4)


def test_a_cropped_row_is_the_row_shifted_within_the_stream() -> None:
    rows = torch.arange(6).repeat(4000)
    found = cropped(TABLE, rows, torch.Generator().manual_seed(0))
    assert bool((found.diff(dim=1) == 1).all())
    shift = (found[:, 0] - 4 * rows).view(-1, 6)
    assert bool((shift[:, 5] == 0).all())  # nothing follows the last row
    counts = torch.stack([torch.bincount(column, minlength=4) for column in shift[:, :5].unbind(1)]).sum(0)
    assert_frequencies(counts, torch.full((4,), 0.25, dtype=torch.float64))


def test_held_out_rows_are_not_cropped_and_plain_data_draws_as_before() -> None:
    data = Dataset("stream", 24, TABLE, TABLE, "x", numbers(24), crop=True)
    rows = torch.arange(6)
    assert torch.equal(data.draw("valid", rows, torch.Generator())[0], TABLE)
    assert not torch.equal(data.draw("train", rows, torch.Generator().manual_seed(1))[0], TABLE)
    assert torch.equal(replace(data, crop=False).draw("train", rows, torch.Generator())[0], TABLE)


def test_the_option_needs_rows_that_are_cut_from_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("the loom weaves the warp and the weft\n" * 40)
    source = TextSource(path=str(tmp_path / "text.txt"), length=16, crop=True)
    assert source.load().crop
    with pytest.raises(ValueError, match=r"--data\.crop cuts rows anywhere, which --data\.packing pad"):
        replace(source, packing="pad", tokenizer="bpe:260").load()
    with pytest.raises(ValueError, match="pad does not; use wrap"):
        TextSource(path="text8-crop", packing="pad").load()
