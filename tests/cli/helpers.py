"""A command as its users meet it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tokenloom.cli import main


def content(folder: Path, pattern: str = "*.jsonl") -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.glob(pattern))}


class Shell:
    """The command line, in the process of a test."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: str) -> Any:
        """Run a command; what it printed, as `out` and `err`."""
        self.capsys.readouterr()
        main(list(arguments))
        return self.capsys.readouterr()

    def refusal(self, *arguments: str) -> str:
        """What a command says on standard error, in one line, before it ends with status 2."""
        return " ".join(self.ends(2, *arguments).err.split())

    def ends(self, status: int, *arguments: str) -> Any:
        """Run a command that ends with this status; what it printed, as `out` and `err`."""
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        assert (stop.value.code or 0) == status, arguments
        return self.capsys.readouterr()

    def json(self, *arguments: str) -> Any:
        """What a command prints with --json."""
        return json.loads(self(*arguments, "--json").out)
