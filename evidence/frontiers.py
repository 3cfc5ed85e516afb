"""Comparisons of curves at equal entropy and equal evaluations."""

from collections.abc import Iterable

from evidence.claim import AtEqualEntropy, Role
from evidence.measures.curves import curve_name
from evidence.verdicts import Criterion

TEMPERATURE = "temperature"
TOP_P = "top-p on the leave-one-out posterior"
INFORMED, BALANCED, SCAN = "informed corrector", "balanced corrector", "random scan"

Panel = tuple[str, int]
"""A setting and a budget of evaluations."""


def at_equal_entropy(
    arm: str, curve: str, other: str, panels: Iterable[Panel], role: Role = "claim", margin: float = 0.0
) -> tuple[AtEqualEntropy, ...]:
    """A curve of an arm against another one of the same arm, by setting and budget."""
    return tuple(
        AtEqualEntropy(
            f"{arm}, {budget} evaluations: {curve} against {other}",
            setting,
            "nats per token at equal entropy",
            Criterion("advantage", margin),
            role,
            favoured=(arm, curve_name(curve, budget)),
            other=(arm, curve_name(other, budget)),
        )
        for setting, budget in panels
    )
