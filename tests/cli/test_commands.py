"""What all commands share: help, one sentence for a wrong input, and options of their own."""

import re

import pytest

from tests.cli.helpers import Shell
from tokenloom.cli import main
from tokenloom.cli.registry import COMMANDS


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--help"])
    assert end.value.code == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
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
        (["evaluate"], ["--rows", "--weights", "--task"]),
        (["evaluate", "--tasks", "x"], ["--limit", "--max-gen-toks"]),
        (["evaluate", "run", "--task", "sudoku"], ["--sudoku.count", "--sudoku.samplers"]),
        (["frontier"], ["--judge", "--temperature"]),
        (["probe"], ["--substitutes", "--times"]),
    ],
)
def test_help_shows_the_options_of_what_the_arguments_name_each_with_a_text(
    arguments: list[str], options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence stands before the default; without one, the name of the value does."""
    text = printed(capsys, *arguments)
    assert [option for option in options if option not in text] == []
    if arguments[0] not in ("train", "frontier") and "sudoku" not in arguments:
        before = re.findall(r"(\S+) \((?:default|required|repeatable)", text)
        assert before
        assert [word for word in before if not word.endswith(".")] == []


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
        (["sample", "sudoku4-udm"], "no bundled model has this name, did you mean sudoku4-udm-loo?"),
        (["bench", "samplng"], "there is no benchmark samplng; did you mean sampling?"),
        (["evaluate", "sudoku4-udm-loo", "--samples", "0"], "samples must be at least 1, got 0"),
        (["evaluate", "sudoku4-udm-loo", "--samples", str(10**13)], "times each needs about"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(arguments: list[str], sentence: str, shell: Shell) -> None:
    assert sentence in shell.refusal(*arguments)
