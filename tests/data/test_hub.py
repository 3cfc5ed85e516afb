"""Where the Hub does not answer its cache does, or a sentence comes at once; where it answers nothing changes."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.data.helpers import load, refused, write_parquet
from tokenloom.data import documents
from tokenloom.data.documents import HUB
from tokenloom.models.tokenizer_sources import build_tokenizer
from tokenloom.support import hub
from tokenloom.support.hub import hub_or_cache, reachable

CLOSED = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def constants(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The settings of the Hub's library, at an address where nothing answers."""
    found = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(found, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(found, "ENDPOINT", CLOSED)
    return found


@pytest.fixture
def server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_hub_that_does_not_answer_fails_at_once(constants: Any, tmp_path: Path) -> None:
    """Its libraries alone retry for over 20 seconds; they get back the settings they had."""
    config = pytest.importorskip("datasets").config
    began = time.monotonic()
    refused(f"wikitext .*no connection to {CLOSED} in 3 seconds, and no copy in", "wikitext", tmp_path)
    with pytest.raises(ValueError, match="from_pretrained could not get it from the Hub"):
        build_tokenizer("gpt2", ())
    assert time.monotonic() - began < 15
    assert not constants.HF_HUB_OFFLINE
    assert not config.HF_HUB_OFFLINE


def test_a_hub_that_does_not_answer_leaves_the_cache(
    constants: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tokenizers")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    stored = build_tokenizer("bpe:270", ["a cat sat"])
    folder = tmp_path / "models--some--name"
    for path, text in {
        "refs/main": "a" * 40,
        f"snapshots/{'a' * 40}/tokenizer.json": json.dumps(json.loads(stored.to_json())["tokenizer"]),
    }.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(text)
    assert build_tokenizer("some/name", ()).identity == stored.identity


def test_a_hub_that_answers_is_used_as_ever(constants: Any, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", server)
    with hub_or_cache():
        assert not constants.HF_HUB_OFFLINE
    with pytest.raises(KeyError), hub_or_cache():
        raise KeyError


def test_the_proxy_is_what_must_answer(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reachable(server)
    assert not reachable(CLOSED)
    assert not reachable("https://nowhere.invalid")
    for proxy in (server, server.removeprefix("http://")):
        monkeypatch.setenv("https_proxy", proxy)
        assert reachable("https://nowhere.invalid")
    monkeypatch.setenv("no_proxy", "nowhere.invalid")
    assert not reachable("https://nowhere.invalid")
    monkeypatch.setenv("http_proxy", CLOSED)
    assert not reachable("http://huggingface.co")


def test_a_connection_that_never_opens_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def hang(*_: object) -> None:
        released.wait(60)
        raise OSError

    monkeypatch.setattr(hub, "SECONDS", 0.05)
    monkeypatch.setattr(socket, "create_connection", hang)
    began = time.monotonic()
    assert not reachable(CLOSED)
    assert time.monotonic() - began < 30
    released.set()


def test_a_hub_name_offline_gets_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    datasets = pytest.importorskip("datasets")
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"from_pretrained could not get it.*local tokenizer.json; did you mean gpt2"):
        build_tokenizer("gtp2", ())
    for name in ("openwebtext", "ptb"):
        refused(f"the data set {name} .* could not be loaded", name, tmp_path, tokenizer="bytes")


def test_a_streamed_data_set_is_read_up_to_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a local copy: the first documents are held out, those that follow are trained on, the rest is not read."""
    pytest.importorskip("datasets")
    entry = replace(HUB["fineweb-edu"], config=None, streamed=(2, 3))
    monkeypatch.setitem(HUB, "fineweb-edu", entry)
    folder = tmp_path / entry.path
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_text("".join(f'{{"text": "{letter * 4}"}}\n' for letter in "abcdefg"))
    dataset = load("fineweb-edu", tmp_path, length=5, tokenizer="bytes", hub_root=tmp_path)  # and the end of each
    assert [row[:4] for row in dataset.decode(dataset.valid)] == ["aaaa", "bbbb"]
    assert [row[:4] for row in dataset.decode(dataset.train)] == ["cccc", "dddd", "eeee"]


def test_any_data_set_is_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with a validation split keeps it; of another the first documents are held out."""
    pytest.importorskip("datasets")
    monkeypatch.setattr(documents, "HELD_OUT", 2)
    for name, held, trained in (("text8", "xy", "abc"), ("openwebtext", "ab", "cde"), ("fineweb-edu", "ab", "cde")):
        monkeypatch.setitem(HUB, name, replace(HUB[name], config=None))
        folder = tmp_path / HUB[name].path
        folder.mkdir(parents=True)
        for split, letters in (("train", "abcdefg"), ("validation", "xy")):
            (folder / f"{split}.jsonl").write_text("".join(f'{{"text": "{letter * 4}"}}\n' for letter in letters))
        dataset = load(name, tmp_path, length=5, tokenizer="bytes", hub_root=tmp_path, stream=3)
        assert [row[0] for row in dataset.decode(dataset.valid)] == [*held]
        assert [row[0] for row in dataset.decode(dataset.train)] == [*trained]


def test_every_name_of_the_papers_data_is_known() -> None:
    """And no two names, of the same repository, mean the same splits."""
    names = {"wikitext2", "text8", "text8-crop", "scientific_papers/arxiv", "fineweb-edu", "lm1b", "openwebtext", "ptb"}
    assert names <= HUB.keys()
    assert len(set(HUB.values())) == len(HUB)
    assert {name for name, entry in HUB.items() if entry.crop} == {"text8-crop"}


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
