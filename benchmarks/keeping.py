"""A result, printed or kept in a file."""

from json import dumps
from pathlib import Path
from typing import Any

from tokenloom.support.files import write_json


def keep(record: dict[str, Any], out: Path | None) -> None:
    """Write a result to a file, or print it where there is none."""
    if out is None:
        print(dumps(record, indent=2))
    else:
        write_json(out, record)
