"""What was typed, as tokens: a text, a text with blanks, or the digits of a grid."""

from typing import Any

from tokenloom.cli.given import read_given
from tokenloom.web.library import Entry
from tokenloom.web.limits import Limits
from tokenloom.web.pieces import Pieces
from tokenloom.web.requests import Encode


def encode(asked: Encode, entry: Entry, limits: Limits) -> dict[str, Any]:
    """The tokens of a text, null for a blank, up to the last one that is not blank."""
    run = entry.run(asked.process)
    length = min(limits.length, run.model.length or limits.length)
    if len(asked.text) > 16 * limits.length:
        raise ValueError(f"the text has {len(asked.text):,} characters; {16 * limits.length:,} are the limit here")
    given, _ = read_given(run.model, None, asked.text, length)
    assert given is not None
    tokens, flags = given[0].tolist(), given[1].tolist()
    cells = [token if flag else None for token, flag in zip(tokens, flags, strict=True)]
    while cells and cells[-1] is None:
        cells.pop()
    return {"tokens": cells, "pieces": Pieces(entry.decoder).new(token for token in cells if token is not None)}
