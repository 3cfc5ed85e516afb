"""The command before any command: help, version, completion and Ctrl-C need no PyTorch, or none yet."""

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.helpers import Shell
from tests.training.helpers import finish, start
from tokenloom.cli.registry import COMMANDS, made, summaries

WITHOUT_TORCH = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        assert name != "torch", "torch was imported"

sys.meta_path.insert(0, Refuse())
from tokenloom.cli import main
main(sys.argv[1:])
"""


def started(*arguments: str, code: str = WITHOUT_TORCH) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_takes_less_than_half_a_second_of_work_and_no_torch() -> None:
    """Time of the processor, which does not depend on what else the machine does; the best of three."""
    best = 9.0
    for _ in range(3):
        before = children_seconds()
        done = started("--help")
        best = min(best, children_seconds() - before)
        assert done.returncode == 0, done.stderr
    assert all(f"• {name} " in done.stdout for name in COMMANDS)
    assert best < 0.5 + 0.1  # Python's own start


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--version"], 0, "tokenloom 0."),
        (["-V"], 0, "tokenloom 0."),
        ([], 2, "Expected one of"),
        (["smple"], 2, "there is no command smple; did you mean sample"),
    ],
)
def test_what_is_said_before_a_command_needs_no_torch(arguments: list[str], status: int, words: str) -> None:
    done = started(*arguments)
    assert done.returncode == status
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_line_of_a_command_is_the_first_paragraph_of_its_help() -> None:
    """What is read from the source is what the function says; every command has a line."""
    lines = summaries()
    assert list(lines) == list(COMMANDS)
    for name, line in lines.items():
        assert line == " ".join((made(name, [name]).__doc__ or "").partition("\n\n")[0].split())
        assert line.endswith(".")


def test_a_command_of_a_broken_package_has_a_line_and_leaves_help_alone(tmp_path: Path) -> None:
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (tmp_path / "theirs.py").write_text('import nothing_of_this_name\n\ndef greet():\n    """Say hello."""\n')
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tokenloom.commands]\ngreet = theirs:greet\ngone = no_such_module:gone\n")
    done = started("--help", code=f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{WITHOUT_TORCH}")
    assert done.returncode == 0, done.stderr
    assert "greet       Say hello." in done.stdout
    assert "could not be read from no_such_module:gone" in " ".join(done.stdout.replace("│", " ").split())


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_their_options(name: str, shell: Shell) -> None:
    """As documented: `tokenloom --tyro-write-completion bash FILE`, where - is the standard output."""
    script = shell.ends(0, "--tyro-write-completion", name, "-").out
    assert all(word in script for word in [*COMMANDS, "top-p"])
    if name == "bash":
        checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr


def test_ctrl_c_while_pytorch_is_loading_is_quiet() -> None:
    """The signal comes when the import of torch has begun."""
    code = """
import sys
from tokenloom.cli import main

class Announce:
    def find_spec(self, name, path=None, target=None):
        if name == "torch.nn":
            print("loading", flush=True)

sys.meta_path.insert(0, Announce())
main(["solve", "1..............."])
"""
    process = start(sys.executable, "-c", code)
    assert process.stdout is not None
    assert process.stdout.readline() == "loading\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert finish(process, expected=130) == "interrupted\n"
