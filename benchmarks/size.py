"""How large the network of a benchmark is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """The network; the defaults are the paper's."""

    width: int = 768
    depth: int = 12
    heads: int = 12
    vocab: int = 50257
    length: int = 128
