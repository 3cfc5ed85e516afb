"""Comparisons of likelihood bounds: where they are measured, and when in training.

On the chain the figure is nats above the entropy, paired with the exact model; its differences are those of bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from evidence.claim import Comparison, Difference, Figure, Role
from evidence.paper import in_the_paper
from evidence.verdicts import Criterion


@dataclass(frozen=True)
class Moment:
    """A data set and a figure on it."""

    words: str
    setting: str
    measure: str
    key: str
    in_paper: bool = True
    """Whether the paper has a number for it, and not only a curve."""


END = (Moment("bound", "chain", "bound", "above_exact"), Moment("bound", "stories", "bound", "per_token"))
THROUGHOUT = tuple(
    Moment("bound throughout training", setting, "throughout", "mean/per_token", in_paper=False)
    for setting in ("chain", "stories")
)
EARLY = (Moment("bound after 1,000 steps", "stories", "throughout", "25/per_token", in_paper=False),)
TRUNCATED = (Moment("truncated integral", "stories", "bound", "truncated/per_token"),)


def bounds(
    favoured: str,
    other: str,
    moments: Sequence[Moment] = END,
    margin: float = 0.0,
    role: Role = "claim",
    paper: tuple[str, str] | None = None,
) -> tuple[Comparison, ...]:
    """Two arms against each other; a margin is in nats per token, `paper` names the arms as the paper has them."""
    return tuple(
        Difference(
            f"{moment.words} of {favoured} against {other}",
            moment.setting,
            "nats per token",
            Criterion("advantage", margin),
            role,
            in_the_paper(*(paper or (favoured, other))) if moment.in_paper else "",
            favoured=Figure(favoured, moment.measure, moment.key),
            other=Figure(other, moment.measure, moment.key),
        )
        for moment in moments
    )
