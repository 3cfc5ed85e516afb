"""Ctrl-C ends every command with status 130, a closed pipe quietly, and neither in a traceback."""

import signal
from typing import Any

import pytest

from tokenloom import cli
from tokenloom.cli import main
from tokenloom.objectives import likelihood
from tokenloom.samplers.sampler import Sampler


@pytest.mark.parametrize("arguments", [["sample", "sudoku4-udm-loo"], ["solve", "1" + 15 * "."]])
def test_ctrl_c_ends_a_command_with_130(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real signal, while it samples."""

    def interrupted(*arguments: Any, **options: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Sampler, "run", interrupted)
    monkeypatch.setattr(likelihood, "loss_at", interrupted)
    with pytest.raises(SystemExit, match=r"^130$"):
        main(arguments)
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (KeyboardInterrupt(), "130", "interrupted"),
        (PermissionError(13, "Permission denied", "data.txt"), "2", "error: data.txt: Permission denied"),
        (OSError(28, "No space left on device"), "2", "error: a file: No space left on device"),
        (ValueError("x_0 must have shape [batch, length], got [3]"), "2", "shape [batch, length], got [3]"),
    ],
)
def test_what_fails_is_a_sentence(
    error: BaseException, status: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def refuse(args: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", refuse)
    with pytest.raises(SystemExit, match=rf"^{status}$"):
        main([])
    assert sentence in capsys.readouterr().err
