"""Output where the terminal or file takes ASCII alone, as under `LC_ALL=C`: what it cannot show is spelt out."""

import codecs
import io
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
