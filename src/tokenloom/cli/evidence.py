"""`tokenloom evidence`: the paper's claims, tested again; the claims live in evidence/ of a clone."""

from collections.abc import Sequence
from typing import Any

from tokenloom.cli.clone import from_clone
from tokenloom.cli.registry import COMMANDS, factory


@COMMANDS.register("evidence")
@factory
def evidence_command(args: Sequence[str]) -> Any:
    """The command of the clone, which is only imported where the arguments ask for it."""
    module = from_clone("evidence.command") if list(args[:1]) == ["evidence"] else None
    return evidence if module is None else module.evidence


def evidence() -> None:
    """Test the paper's claims again: train and measure what is missing, print verdicts, render docs/evidence.md."""
    raise ValueError("the claims are part of a clone of the repository, not of the installed package")
