"""What tokens look like: each is sent once to a reader, however often it occurs."""

from collections.abc import Iterable

from tokenloom.data.decoder import Decoder


class Pieces:
    """The texts of tokens that a reader has not seen yet."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._seen: set[int] = set()

    def new(self, tokens: Iterable[int]) -> dict[str, str]:
        """Texts by id, as JSON has them."""
        fresh = set(tokens) - self._seen
        self._seen |= fresh
        return {str(token): self._decoder.piece(token) for token in sorted(fresh)}
