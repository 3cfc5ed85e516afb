"""What all commands share: help, options of their own, one sentence for what fails, and status 130 for Ctrl-C."""

import re
import signal
from typing import Any

import pytest

from tests.cli.helpers import Shell
from tokenloom import cli
from tokenloom.cli.registry import COMMANDS
from tokenloom.objectives import likelihood
from tokenloom.samplers.sampler import Sampler


def printed(shell: Shell, *arguments: str) -> str:
    return " ".join(shell.ends(0, *arguments, "--help").out.replace("│", " ").split())


def test_help_names_every_command(shell: Shell) -> None:
    text = printed(shell)
    assert {"evaluate", "frontier", "probe", "quickstart", "sample", "solve", "train"} <= set(COMMANDS)
    assert all(f"• {name} " in text for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["train"], ["--data.vocab-size", "--network.heads", "--optimiser.lr"]),
        (["train", "--recipe", "sudoku4", "--network.kind", "grid"], ["--data.givens", "--network.loops"]),
        (["train", "--data.kind=text"], ["--data.tokenizer"]),
        (["sample"], ["--sampler", "--corrector-steps", "--top-p", "--prompt"]),
        (["solve"], ["--sampler", "--tries"]),
        (["play"], ["--port"]),
        (["import"], ["--to", "--family"]),
        (["evaluate"], ["--sequences", "--weights", "--task"]),
        (["evaluate", "--tasks", "x"], ["--limit", "--max-gen-toks"]),
        (["evaluate", "run", "--task", "sudoku"], ["--sudoku.count", "--sudoku.samplers"]),
        (["frontier"], ["--judge", "--temperature"]),
        (["probe"], ["--substitutes", "--times"]),
    ],
)
def test_help_shows_the_options_of_what_the_arguments_name_each_with_a_text(
    arguments: list[str], options: list[str], shell: Shell
) -> None:
    """A sentence stands before the default; without one, the name of the value does."""
    text = printed(shell, *arguments)
    assert [option for option in options if option not in text] == []
    if arguments[0] != "train" and "sudoku" not in arguments:
        before = re.findall(r"(\S+) \((?:default|required|repeatable)", text)
        assert before
        assert [word for word in before if not word.endswith(".")] == []


def test_a_path_without_a_recipe_is_text_of_ones_own(shell: Shell) -> None:
    own = printed(shell, "train", "--data.path", "my_text.txt")
    assert "(default: text)" in own
    assert "(default: bpe)" in own
    assert "(default: text)" not in printed(shell, "train", "--data.path", "mine.csv", "--data.kind", "sudoku")
    assert "(default: chars)" in printed(shell, "train", "--data.path", "my_text.txt", "--recipe", "chars")


def test_the_options_of_a_command_are_not_read_ahead_by_another(shell: Shell) -> None:
    """Neither is a task asked for by name, nor a run opened, for a command that has no such option."""
    for command, option in (("train", "--task"), ("sample", "--resume"), ("probe", "--config")):
        said = shell.refusal(command, *([] if command == "train" else ["run"]), option, "nowhere")
        assert option in said
        assert "there is no task" not in said
        assert "is not a run to resume" not in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["smaple"], "there is no command smaple; did you mean sample?"),
        (["sample", "sudoku4-udm"], "no bundled model has this name, did you mean sudoku4-udm-loo?"),
        (["sample", "sudoku4-udm-loo", "--infill", "12"], "--infill has 2 cells, but a sequence has 16"),
        (["bench", "samplng"], "there is no benchmark samplng; did you mean sampling?"),
        (["evaluate", "sudoku4-udm-loo", "--samples", "0"], "samples must be at least 1, got 0"),
        (["evaluate", "sudoku4-udm-loo", "--samples", str(10**13)], "times each needs about"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(arguments: list[str], sentence: str, shell: Shell) -> None:
    assert sentence in shell.refusal(*arguments)


@pytest.mark.parametrize("arguments", [["sample", "sudoku4-udm-loo"], ["solve", "1" + 15 * "."]])
def test_ctrl_c_ends_a_command_with_130(arguments: list[str], monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    """A real signal, while it samples."""

    def interrupted(*arguments: Any, **options: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Sampler, "run", interrupted)
    monkeypatch.setattr(likelihood, "loss_at", interrupted)
    assert "interrupted" in shell.ends(130, *arguments).err


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (PermissionError(13, "Permission denied", "data.txt"), 2, "error: data.txt: Permission denied"),
        (OSError(28, "No space left on device"), 2, "error: a file: No space left on device"),
        (ValueError("x_0 must have shape [batch, length], got [3]"), 2, "shape [batch, length], got [3]"),
    ],
)
def test_what_fails_is_a_sentence(
    error: BaseException, status: int, sentence: str, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    def refuse(args: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", refuse)
    assert sentence in shell.ends(status).err
