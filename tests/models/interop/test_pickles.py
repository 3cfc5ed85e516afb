"""A pickle gives tensors and values, imports nothing and runs nothing."""

import os
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from tokenloom.models.interop.pickles import plain, read_pickle


class Command:
    """Pickles into a call of os.system that makes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.target}",)


def lightning(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose config is made of objects of a module that is gone when it is read."""

    class Node:
        def __init__(self, **state: Any) -> None:
            self.__dict__.update(state)

        def __setstate__(self, state: Any) -> None:
            raise AssertionError("the class of the file was run")

    Node.__module__, Node.__qualname__ = "foreign_library", "Node"
    module = types.ModuleType("foreign_library")
    module.Node = Node  # type: ignore[attr-defined]
    name = Node(_content={"name": Node(_val="udlm"), "sizes": Node(_content=[Node(_val=3), Node(_val="${other}")])})
    config = Node(_content={"algo": name}, _metadata=Node(kind=Node), _parent=None)
    hyper_parameters = {"config": config, "diffusion_model": Node, "tokenizer": Node(vocabulary=["a"])}
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "foreign_library", module)
        torch.save({"weight": torch.arange(3.0), "hyper_parameters": hyper_parameters}, path)
    return path


def test_tensors_and_the_config_come_out_of_foreign_objects_without_their_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = read_pickle(lightning(tmp_path / "run.ckpt", monkeypatch))
    assert content["weight"].tolist() == [0, 1, 2]
    assert plain(content["hyper_parameters"])["config"] == {"algo": {"name": "udlm", "sizes": [3, "${other}"]}}
    assert "foreign_library" not in sys.modules


@pytest.mark.parametrize("old", [False, True])
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, old: bool) -> None:
    target, path = tmp_path / "created", tmp_path / "hostile.ckpt"
    torch.save({"a": Command(target)}, path, _use_new_zipfile_serialization=not old)
    with pytest.raises(ValueError, match="asks for more than tensors and values and is refused"):
        read_pickle(path)
    assert not target.exists()


def test_the_old_format_of_pytorch_is_read(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(2)}, tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    assert read_pickle(tmp_path / "old.bin")["weight"].tolist() == [1, 1]


def test_a_damaged_or_truncated_pickle_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "damaged.ckpt"
    torch.save({"weight": torch.ones(1000)}, path)
    for content in (b"", b"garbage", b"PK\x03\x04broken", b"\x80\x02}q", path.read_bytes()[:-700]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"damaged\.ckpt (is not a readable file of PyTorch|asks for more)"):
            read_pickle(path)


def test_a_zip_that_would_unpack_to_more_than_itself_is_refused(tmp_path: Path) -> None:
    honest, compressed, beyond = tmp_path / "honest.pt", tmp_path / "compressed.pt", tmp_path / "beyond.pt"
    torch.save({"weight": torch.zeros(100_000)}, honest)
    with zipfile.ZipFile(honest) as source, zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as target:
        for record in source.infolist():
            target.writestr(record.filename, source.read(record))
    assert compressed.stat().st_size < honest.stat().st_size / 10
    # The directory at the end of the file holds the sizes of the record; 400,000 bytes become 3,000,000.
    beyond.write_bytes(honest.read_bytes().replace((400_000).to_bytes(4, "little"), (3_000_000).to_bytes(4, "little")))
    assert read_pickle(honest)["weight"].shape == (100_000,)
    with pytest.raises(ValueError, match=r"compressed\.pt .*record 'honest/data.pkl' is compressed"):
        read_pickle(compressed)
    with pytest.raises(ValueError, match=r"beyond\.pt .*records claim 3,00\d,\d{3} bytes, and the file has 40\d,\d{3}"):
        read_pickle(beyond)


def test_a_config_nested_without_end_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert plain({"loop": loop})["loop"][0] is not None
