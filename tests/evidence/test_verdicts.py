"""Verdicts follow from effects alone, and flip when the two sides of a comparison are swapped."""

from typing import Any

import pytest

from evidence.claim import SEEDS, AtEqualEntropy, Comparison, Difference, Records
from evidence.claims import CLAIMS
from evidence.verdicts import Criterion, Effect, overall

COMPARISONS = [
    pytest.param(part, id=f"{claim.name} {part.setting} {part.what}")
    for claim in CLAIMS.values()
    for part in claim.comparisons
]
BETTER, AS_GOOD, EQUAL = Criterion(), Criterion("advantage", 0.1), Criterion("equality", 0.1)


@pytest.mark.parametrize(
    ("criterion", "effects", "verdict"),
    [
        (BETTER, (0.30, 0.31, 0.32), "holds"),
        (BETTER, (-0.30, -0.31, -0.32), "does not hold"),
        (BETTER, (0.30, -0.31, 0.32), "undecided"),
        (AS_GOOD, (-0.05, -0.051, -0.049), "holds"),
        (AS_GOOD, (-0.20, -0.21, -0.19), "does not hold"),
        (AS_GOOD, (-0.10, -0.15, -0.05), "undecided"),
        (EQUAL, (0.01, -0.01, 0.0), "holds"),
        (EQUAL, (0.30, 0.31, 0.32), "does not hold"),
        (EQUAL, (-0.30, -0.31, -0.32), "does not hold"),
        (EQUAL, (0.0, 0.3, -0.3), "undecided"),
        (BETTER, (0.3,), "undecided"),
        (BETTER, (), "undecided"),
        (BETTER, (0.3, float("nan"), 0.31), "undecided"),
    ],
)
def test_a_criterion_takes_the_whole_interval(criterion: Criterion, effects: tuple[float, ...], verdict: str) -> None:
    assert criterion(Effect(effects)) == verdict


def test_the_interval_is_students() -> None:
    effect = Effect((1.0, 2.0, 3.0))
    assert effect.mean == 2
    assert effect.half_width == pytest.approx(4.3027 / 3**0.5, rel=1e-4)


def test_a_claim_needs_all_of_its_comparisons() -> None:
    assert overall(["holds", "holds"]) == "holds"
    assert overall(["holds", "undecided"]) == "undecided"
    assert overall(["holds", "undecided", "does not hold"]) == "does not hold"
    assert overall([]) == "undecided"


def test_a_negative_margin_is_refused() -> None:
    with pytest.raises(ValueError, match="a margin must be at least 0, got -1"):
        Criterion("advantage", -1.0)


def side(comparison: Comparison, favoured: bool, value: float) -> tuple[str, list[str], Any]:
    """The arm of a side, the place of its figure or curve in a record, and that figure or curve at this value."""
    if isinstance(comparison, Difference):
        figure = comparison.favoured if favoured else comparison.other
        return figure.arm, [figure.measure, *figure.key.split("/")], value
    assert isinstance(comparison, AtEqualEntropy)
    arm, curve = comparison.favoured if favoured else comparison.other
    points = [{"entropy": entropy, "nats_per_token": entropy + value} for entropy in (1.0, 1.5, 2.0)]
    return arm, [f"curve: {curve}"], {"points": points}


def synthetic(comparison: Comparison, gains: tuple[float, ...]) -> Records:
    """Results in which the favoured side is better by so much, seed by seed."""
    records: dict[tuple[str, str, int], dict[str, Any]] = {}
    larger = isinstance(comparison, Difference) and comparison.larger
    for seed, gain in zip(SEEDS, gains, strict=True):
        for favoured, value in ((True, 1.0 + gain if larger else 1.0 - gain), (False, 1.0)):
            arm, (*keys, last), found = side(comparison, favoured, value)
            place = records.setdefault((comparison.setting, arm, seed), {})
            for key in keys:
                place = place.setdefault(key, {})
            place[last] = found
    return records


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_a_comparison_flips_when_its_sides_are_swapped(comparison: Comparison) -> None:
    far = 10 * max(comparison.criterion.margin, 0.01)
    better = synthetic(comparison, (far, 1.01 * far, 0.99 * far))
    worse = synthetic(comparison, (-far, -1.01 * far, -0.99 * far))
    either = synthetic(comparison, (-far, far, 0.1 * far))
    if comparison.criterion.kind == "equality":
        equal = synthetic(comparison, tuple(scale * comparison.criterion.margin for scale in (0.01, -0.01, 0.0)))
        assert comparison.verdict(equal) == "holds"
        assert comparison.verdict(better) == "does not hold"
    else:
        assert comparison.effect(better).mean == pytest.approx(far)
        assert comparison.verdict(better) == "holds"
    assert comparison.verdict(worse) == "does not hold"
    assert comparison.verdict(either) == "undecided"


def test_curves_are_compared_at_equal_entropy_alone() -> None:
    comparison = AtEqualEntropy("", "markov", "", favoured=("a", "x"), other=("a", "y"))
    flat = [{"entropy": 1.0, "nats_per_token": 1.0}, {"entropy": 2.0, "nats_per_token": 3.0}]
    point = [{"entropy": 1.25, "nats_per_token": 1.2}, {"entropy": 5.0, "nats_per_token": 0.0}]
    records: Records = {("markov", "a", 1): {"curve: x": {"points": point}, "curve: y": {"points": flat}}}
    first, second = 1.5 - 1.2, 3.0 - (1.2 - 1.2 * 0.75 / 3.75)  # the points at 5 and at 1 have no partner
    assert comparison.of_seed(records, 1) == pytest.approx((first + second) / 2)
    both = [{"entropy": 1.0, "nats_per_token": 1.0}, *point]  # a point on both curves tells nothing
    shared: Records = {("markov", "a", 1): {"curve: x": {"points": both}, "curve: y": {"points": flat}}}
    assert comparison.of_seed(shared, 1) == pytest.approx((first + second) / 2)
    outside: Records = {("markov", "a", 1): {"curve: x": {"points": point[1:]}, "curve: y": {"points": flat}}}
    assert Criterion()(comparison.effect(outside, (1,))) == "undecided"
