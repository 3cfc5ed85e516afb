"""A command as its users meet it."""

import pytest

from tokenloom.cli import main


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says on standard error, in one line, before it ends with status 2."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert stop.value.code == 2
    return " ".join(capsys.readouterr().err.split())
