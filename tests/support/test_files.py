"""Nothing is lost on disk: at every instant a name holds the old or the new content, whole."""

import os
import socket
from pathlib import Path

import pytest

from tests.killing import kills
from tokenloom.support import files
from tokenloom.support.files import HOST, check_ours, check_writable, recover, replacing, tidy, write_json, write_text

PARTS = ("one", "two")


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed process wrote, the system still has; only a power failure asks for more."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def write_folder(path: Path, word: str) -> None:
    with replacing(path) as partial:
        partial.mkdir()
        for part in PARTS:
            (partial / part).write_text(word)


def read_folder(path: Path) -> list[str]:
    assert sorted(os.listdir(path)) == sorted(PARTS)
    return [(path / part).read_text() for part in PARTS]


@pytest.mark.parametrize("exchanging", [True, False])
def test_a_folder_killed_while_it_is_written_is_the_old_or_the_new_one(
    exchanging: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL at every other line of the writer, with the call that exchanges two names and without it."""
    if not exchanging:
        monkeypatch.setattr(files, "_exchange", lambda first, second: False)
    folder, seen = tmp_path / "folder", set()
    write_folder(folder, "old")
    for line in kills(lambda: write_folder(folder, "new"), "support/files.py", stride=2):
        (word, *_) = found = read_folder(recover(folder))
        assert found in (["old"] * 2, ["new"] * 2), f"killed at line {line}"
        seen.add(word)
        write_folder(folder, "old")
        assert os.listdir(tmp_path) == ["folder"], f"killed at line {line}"
    assert seen == {"old", "new"}
    assert read_folder(folder) == ["new"] * 2


def test_a_file_killed_while_it_is_written_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write_text(path, "old")
    for _ in kills(lambda: write_text(path, "new"), "support/files.py", stride=2):
        assert path.read_text() in ("old", "new")
        write_text(path, "between")
        assert os.listdir(tmp_path) == ["config.json"]
        write_text(path, "old")


def test_what_a_living_process_writes_is_left_alone(tmp_path: Path) -> None:
    living = tmp_path / f".model-partial-{HOST}-{os.getppid()}-00000000"
    elsewhere = tmp_path / ".model-partial-000000-1-00000000"
    earlier = tmp_path / f".model-partial-{HOST}-{os.getpid()}-00000000"  # of another process with this number
    foreign = tmp_path / ".model-partial-of-mine"
    for path in (living, elsewhere, earlier, foreign):
        path.mkdir()
    with replacing(tmp_path / "model") as partial:
        partial.mkdir()
        tidy(tmp_path)
        assert partial.is_dir()
    assert {path.name for path in tmp_path.iterdir()} == {"model", living.name, elsewhere.name, foreign.name}


def test_a_file_that_says_the_same_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a resumed run needs no room on the disk for its config."""
    path = write_json(tmp_path / "config.json", {"a": 1})
    monkeypatch.setattr(files, "replacing", lambda path: pytest.fail("it is written"))
    write_json(path, {"a": 1})
    assert os.listdir(tmp_path) == ["config.json"]


def test_a_device_a_pipe_and_a_socket_are_never_replaced(tmp_path: Path) -> None:
    pipe, bound, link = tmp_path / "pipe", tmp_path / "socket", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(bound))
        for path, kind in ((pipe, "a pipe"), (bound, "a socket"), (link, "a device"), (Path("/dev/null"), "a device")):
            with pytest.raises(ValueError, match=f"is {kind}, and results go to files; choose another --out"):
                write_text(path, "text")
            with pytest.raises(ValueError, match=f"cannot write to {path}: it is {kind}, not a folder"):
                check_writable(path)
    assert link.is_symlink()
    assert Path("/dev/null").is_char_device()


def test_a_link_stays_a_link_to_the_new_content(tmp_path: Path) -> None:
    write_folder(tmp_path / "there", "old")
    (tmp_path / "here").symlink_to("there")
    write_folder(tmp_path / "here", "new")
    assert (tmp_path / "here").is_symlink()
    assert read_folder(tmp_path / "there") == ["new"] * 2


def test_a_folder_with_other_files_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "model.bin").touch()
    check_ours(tmp_path, ("*.bin",), "a model", "go")
    with pytest.raises(ValueError, match=r"holds model\.bin, which is not part of a run; choose another --out"):
        check_ours(tmp_path, ("config.json",), "a run", "choose another --out")
