"""Output on odd terminals.

Where one takes ASCII alone, as under `LC_ALL=C`, what it cannot show is spelt out; closed streams lead nowhere.
"""

import codecs
import io
import os
import shutil
import sys
import unicodedata
from typing import TextIO

SPELT = str.maketrans("─━│•·—\u2013\u00d7", "--|*.--x") | {
    ord("±"): "+-",
    ord("≤"): "<=",
    ord("→"): "->",
    ord("…"): "...",
}
BOX = range(0x2500, 0x2580)
"""Unicode's box drawings: what is not a line is a corner."""
NARROWEST = 20
"""Columns; with 5 or fewer, tyro never ends writing a help text."""


def open_closed_streams() -> None:
    """Open the streams that whoever started this process has closed, as with `>&-`, to nowhere."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115


def widen() -> None:
    """Write at least `NARROWEST` columns, however narrow the terminal is."""
    if shutil.get_terminal_size().columns < NARROWEST:
        os.environ["COLUMNS"] = str(NARROWEST)


def spell_out(*streams: TextIO) -> None:
    """Let streams that cannot write Unicode write ASCII that looks like it, rather than raise."""
    codecs.register_error("spelt", _spelt)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="spelt")


def _spelt(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_letters, error.object[error.start : error.end])), error.end


def _letters(character: str) -> str:
    spelt = character.translate(SPELT)
    if not spelt.isascii():  # accents are left away, and what has no letters is a question mark
        corner = "+" if ord(character) in BOX else "?"
        spelt = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode() or corner
    return spelt
