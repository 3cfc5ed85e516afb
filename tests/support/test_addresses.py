"""What is at an address is read and written as if it were here, and is whole at every moment."""

import gzip
import json
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from fsspec.implementations.memory import MemoryFileSystem

import tokenloom as tl
from tests.data.helpers import write_parquet
from tests.support.elsewhere import address, cache, failing  # noqa: F401
from tests.training.helpers import awake
from tokenloom.data.text import load_text
from tokenloom.evaluation.points import _stamp
from tokenloom.models.opening import open_run
from tokenloom.support.addresses import fetched, listing
from tokenloom.support.uploads import upload
from tokenloom.training.recipes import settings_from

Files = dict[str, bytes]


def model(step: int) -> tl.DiffusionModel:
    """One of several models that differ in every weight."""
    network = tl.nn.DiT(tl.nn.TransformerConfig(vocab_size=4, num_states=4, length=6, width=8, depth=1, heads=2))
    return awake(tl.DiffusionModel(network, tl.Uniform(4), predicts=tl.LeaveOneOut), step).describe(step=step)


def step_at(place: str) -> int | None:
    """The step of the whole model at an address."""
    return tl.load(place).about.step


def test_a_model_is_saved_to_an_address_and_loaded_from_it(address: str, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    model(1).save(address)
    loaded = tl.load(address)
    assert all(loaded.state_dict()[name].equal(value) for name, value in model(1).state_dict().items())
    assert sorted(listing(address)) == ["config.json", "model.safetensors"]
    model(2).save(address)
    assert step_at(address) == 2
    assert sorted(listing(address)) == ["config.json", "model.safetensors"]
    monkeypatch.setattr("tokenloom.support.addresses._download", Mock(side_effect=AssertionError))
    assert step_at(address) == 2  # from the copy


LOST = r"cannot be written \(TimeoutError: the connection was lost\)"


@pytest.mark.parametrize("calls", range(6))
def test_an_upload_that_ends_anywhere_leaves_the_old_model_or_the_new_one(calls: int) -> None:
    """Also a second one; and one that comes to its end leaves a plain folder."""
    place = "memory://bucket/model"
    model(1).save(place)
    with failing(calls), pytest.raises(ValueError, match=LOST):
        model(2).save(place)
    assert step_at(place) == (1 if calls < 3 else 2)
    for more in range(4):
        with failing(more), pytest.raises(ValueError, match=LOST):
            model(3).save(place)
        assert step_at(place) in (1, 2, 3)
    model(4).save(place)
    assert step_at(place) == 4
    assert sorted(MemoryFileSystem.store) == ["/bucket/model/config.json", "/bucket/model/model.safetensors"]


def test_only_a_model_is_replaced(address: str, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    upload(tmp_path / "other", address)
    with pytest.raises(ValueError, match=r"mine holds thesis\.tex, which is not part of a model; save to a new"):
        model(1).save(address)


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/../x", "//x", ""])
def test_a_listing_does_not_lead_out_of_the_copy(name: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    MemoryFileSystem().pipe_file("/bucket/mine/x", b"x")
    found = {f"/bucket/mine/{name}": {"size": 1, "type": "file"}}
    monkeypatch.setattr(MemoryFileSystem, "find", lambda *_, **options: found)
    with pytest.raises(ValueError, match=r"bucket/mine lists '/bucket/mine/.*', which is not a file below it"):
        fetched("memory://bucket/mine")
    assert not cache.exists()


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("s3://bucket/mine", "s3://bucket/mine needs a package that is not installed; run pip install s3fs"),
        ("nowhere://mine", "nowhere://mine cannot be opened: Protocol not known: nowhere"),
        ("memory://bucket/none", "there is nothing at memory://bucket/none; check how it is spelled"),
        ("memory://bucket/none@masked", "there is nothing at memory://bucket/none; check"),
    ],
)
def test_an_address_that_leads_nowhere_gets_a_sentence(place: str, sentence: str) -> None:
    for call in (tl.load, open_run, settings_from):
        with pytest.raises(ValueError, match=sentence):
            call(place)


def test_a_folder_that_changes_while_it_is_fetched_is_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    place = "memory://bucket/model"
    model(1).save(place)
    real, changes = MemoryFileSystem.get_file, iter([2, 3])

    def get_file(fs: MemoryFileSystem, name: str, *others: Any, **options: Any) -> None:
        real(fs, name, *others, **options)
        if name.endswith("config.json") and (step := next(changes, None)):
            model(step).save(place)

    monkeypatch.setattr(MemoryFileSystem, "get_file", get_file)
    assert step_at(place) == 3


def test_text_at_an_address_is_the_same_data(address: str, tmp_path: Path) -> None:  # noqa: F811
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    (folder / "a.txt").write_text("to be or not to be\n" * 40)
    (folder / "more" / "b.txt").write_text("to be to be to be\n" * 20)
    upload(folder, address)
    for part in ("", "/a.txt"):
        found, own = (load_text(f"{place}{part}", length=8) for place in (address, folder))
        assert found.fingerprint == own.fingerprint
        assert found.name == (part[1:] or "mine")
    before, stamp = load_text(address, length=8), _stamp(address)
    time.sleep(0.01)
    (folder / "a.txt").write_text("to be or to be not\n" * 40)  # of the same size
    upload(folder, address)
    assert load_text(address, length=8).fingerprint != before.fingerprint
    assert _stamp(address) != stamp


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".parquet", ".txt"])
def test_only_the_beginning_of_a_streamed_text_is_read(ending: str, tmp_path: Path) -> None:
    """What follows, here a file of garbage, is not touched; the first documents are the same data as alone."""
    texts, folder = [f"to be {number:04} or not\n" for number in range(50)], tmp_path / "texts"
    folder.mkdir()
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    if ending == ".parquet":
        write_parquet(folder / "a.parquet", "text", texts)
    else:
        plain = "<|endoftext|>\n".join(texts).encode() if ending == ".txt" else lines
        (folder / f"a{ending}").write_bytes(gzip.compress(plain) if ending.endswith("gz") else plain)
    (folder / f"b{ending}").write_bytes(b"\x00\xff" * 1000)
    (tmp_path / "first.jsonl").write_bytes(b"".join(lines.splitlines(keepends=True)[:40]))
    upload(folder, "memory://bucket/texts")
    own = load_text(tmp_path / "first.jsonl", length=8)
    for place in ("memory://bucket/texts", folder, f"memory://bucket/texts/a{ending}"):
        found = load_text(place, length=8, stream=40)
        assert found.fingerprint == own.fingerprint
        assert found.name == Path(place).name
    assert load_text(folder, length=8, stream=39).fingerprint != own.fingerprint
    with pytest.raises(ValueError, match="is part of memory://bucket/texts; leave it out"):
        load_text("memory://bucket/texts", f"memory://bucket/texts/a{ending}", stream=40)


def test_what_was_removed_at_an_address_is_uploaded_again(tmp_path: Path) -> None:
    place, folder = "memory://bucket/texts", tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("to be")
    upload(folder, place)
    MemoryFileSystem().rm_file("/bucket/texts/a.txt")
    upload(folder, place)
    assert list(listing(place)) == ["a.txt"]
