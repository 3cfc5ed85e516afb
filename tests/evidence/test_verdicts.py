"""Verdicts follow from effects alone, and flip when the two sides of a comparison are swapped."""

from itertools import cycle
from typing import Any

import pytest
import torch
from scipy.stats import binom

from evidence.claim import AtEqualEntropy, Comparison, Difference, Figure, Records
from evidence.claims import CLAIMS
from evidence.settings import SEEDS
from evidence.verdicts import Criterion, Effect, holm, judge, overall, tally
from tests.statistics import FALSE_ALARM

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


def coverage(seeds: int, spread: float, rows: float, noise: float, groups: bool) -> tuple[int, int]:
    """How often an interval covers the effect, 0, of how many: seeds of this spread, on 100 shared groups of rows."""
    generator, tries = torch.Generator().manual_seed(0), 2000
    hits = 0
    for _ in range(tries):
        seed, row = torch.randn(seeds, 1, generator=generator), torch.randn(1, 100, generator=generator)
        effects = (spread * seed + rows * row + noise * torch.randn(seeds, 100, generator=generator)).double()
        by_seed, by_group = effects.mean(1).tolist(), effects.mean(0).tolist()
        low, high = Effect(tuple(by_seed), tuple(by_group) if groups else ()).interval
        hits += low < 0 < high
    return hits, tries


@pytest.mark.parametrize("seeds", [3, 5, 8])
@pytest.mark.parametrize(("spread", "rows"), [(0.1, 1.0), (0.05, 2.0), (0.2, 0.5)])
def test_an_interval_covers_the_effect_where_seeds_share_their_rows(seeds: int, spread: float, rows: float) -> None:
    """A coverage of 95% fails with probability 1e-6."""
    hits, tries = coverage(seeds, spread, rows, 0.5, groups=True)
    assert binom.cdf(hits, tries, 0.95) > FALSE_ALARM, hits / tries


def test_the_spread_of_seeds_alone_is_too_short_where_they_share_their_rows() -> None:
    """What the page had before: an interval that would pass as 95% with probability 1e-6 covers 3 times in 4."""
    hits, tries = coverage(8, 0.1, 1.0, 0.5, groups=False)
    assert hits / tries < 0.75
    assert binom.cdf(hits, tries, 0.95) < FALSE_ALARM


def test_the_error_is_that_of_seeds_and_of_rows() -> None:
    seeds, groups = (1.0, 2.0, 3.0), (0.0, 2.0, 4.0, 2.0)
    effect = Effect(seeds, groups)
    first, second = 1 / 3, 8 / 3 / 4
    assert effect.standard_error == pytest.approx((first + second) ** 0.5)
    assert effect.freedom == pytest.approx((first + second) ** 2 / (first**2 / 2 + second**2 / 3))


def test_groups_are_paired_and_averaged_over_seeds() -> None:
    comparison = Difference("", "chain", "", favoured=Figure("a", "m", "in/x"), other=Figure("b", "m", "in/x"))

    def figure(*groups: float) -> dict[str, Any]:
        return {"m": {"in": {"x": sum(groups) / len(groups), "x_groups": groups}}}

    records: dict[tuple[str, str, int], dict[str, Any]] = {
        ("chain", "a", 1): figure(1.0, 3.0), ("chain", "b", 1): figure(2.0, 5.0),
        ("chain", "a", 2): figure(1.0, 1.0), ("chain", "b", 2): figure(1.0, 5.0),
    }  # fmt: skip
    assert comparison.effect(records) == Effect((1.5, 2.0), (0.5, 3.0))
    del records["chain", "b", 2]["m"]["in"]["x_groups"]  # a result of before
    assert comparison.effect(records) == Effect((1.5, 2.0))


def test_holm_by_hand() -> None:
    """0.01 <= 5%/4, then 0.013 <= 5%/3, but 0.03 > 5%/2: the last is not reached, though it is below 5%."""
    assert holm([0.03, 0.01, 0.04, 0.013]) == [False, True, False, True]
    assert holm([0.04]) == [True]
    assert holm([0.01, float("nan")]) == [True, False]  # what is not measured counts
    assert holm([0.03, float("nan")]) == [False, False]


@pytest.mark.parametrize("criterion", [BETTER, AS_GOOD, EQUAL, Criterion("equality", 0.02)])
def test_a_single_comparison_is_judged_by_its_interval(criterion: Criterion) -> None:
    generator = torch.Generator().manual_seed(1)
    for number in range(300):
        seeds = 0.15 * torch.randn(1, generator=generator) + 0.05 * torch.randn(2 + number % 4, generator=generator)
        groups = 0.2 * torch.randn(20, generator=generator) if number % 2 else torch.zeros(0)
        effect, m = Effect(tuple(seeds.tolist()), tuple(groups.tolist())), criterion.margin
        low, high = effect.interval
        if criterion.kind == "advantage":
            holds, fails = low > -m, high < -m
        else:
            holds, fails = -m < low and high < m, low > m or high < -m
        assert criterion(effect) == ("holds" if holds else "does not hold" if fails else "undecided")


def test_parts_that_are_judged_together_go_wrong_one_time_in_twenty() -> None:
    """Six comparisons at the border of their criterion: more than 5% with a wrong verdict has a probability of 1e-6."""
    generator, tries, together, alone = torch.Generator().manual_seed(2), 600, 0, 0
    for _ in range(tries):
        effects = [Effect(tuple(values)) for values in torch.randn(6, 4, generator=generator).tolist()]
        together += any(verdict != "undecided" for verdict in judge([(BETTER, effect) for effect in effects]))
        alone += any(BETTER(effect) != "undecided" for effect in effects)
    assert binom.sf(together - 1, tries, 0.05) > FALSE_ALARM, together / tries
    assert alone / tries > 0.2


def test_comparisons_that_decide_together_need_more_than_one_alone() -> None:
    weak, strong = Effect((0.30, 0.45, 0.60)), Effect((0.30, 0.31, 0.32))
    assert BETTER(weak) == "holds"
    assert judge([(BETTER, weak), (BETTER, strong)]) == ["holds", "holds"]  # after the strong one it stands alone
    assert judge([(BETTER, weak), (BETTER, weak)]) == ["undecided", "undecided"]


def test_a_claim_says_how_many_of_its_parts_hold() -> None:
    assert overall(["holds", "holds"]) == "holds"
    assert overall(["holds", "undecided"]) == "holds in part"
    assert overall(["holds", "undecided", "does not hold"]) == "holds in part"
    assert overall(["undecided", "does not hold"]) == "does not hold"
    assert overall(["undecided"]) == "undecided"
    assert overall([]) == "undecided"
    assert tally(["holds", "undecided", "holds", "does not hold", "holds"]) == "3 of 5 parts hold, 1 does not"
    assert tally(["holds", "undecided"]) == "1 of 2 parts holds"


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
    return arm, [curve], {"points": points}


def synthetic(comparison: Comparison, gains: tuple[float, ...]) -> Records:
    """Results in which the favoured side is better by so much, seed by seed, over and over."""
    records: dict[tuple[str, str, int], dict[str, Any]] = {}
    larger = isinstance(comparison, Difference) and comparison.larger
    for seed, gain in zip(SEEDS[comparison.setting], cycle(gains), strict=False):
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
        assert comparison.effect(better).mean == pytest.approx(far, rel=0.01)
        assert comparison.verdict(better) == "holds"
    assert comparison.verdict(worse) == "does not hold"
    assert comparison.verdict(either) == "undecided"


def test_curves_are_compared_at_equal_entropy_alone() -> None:
    comparison = AtEqualEntropy("", "chain", "", favoured=("a", "x"), other=("a", "y"))
    flat = [{"entropy": 1.0, "nats_per_token": 1.0}, {"entropy": 2.0, "nats_per_token": 3.0}]
    point = [{"entropy": 1.25, "nats_per_token": 1.2}, {"entropy": 5.0, "nats_per_token": 0.0}]
    records: Records = {("chain", "a", 1): {"x": {"points": point}, "y": {"points": flat}}}
    first, second = 1.5 - 1.2, 3.0 - (1.2 - 1.2 * 0.75 / 3.75)  # the points at 5 and at 1 have no partner
    assert comparison.of_seed(records, 1) == pytest.approx((first + second) / 2)
    both = [{"entropy": 1.0, "nats_per_token": 1.0}, *point]  # a point on both curves tells nothing
    shared: Records = {("chain", "a", 1): {"x": {"points": both}, "y": {"points": flat}}}
    assert comparison.of_seed(shared, 1) == pytest.approx((first + second) / 2)
    outside: Records = {("chain", "a", 1): {"x": {"points": point[1:]}, "y": {"points": flat}}}
    assert Criterion()(comparison.effect(outside)) == "undecided"
    assert comparison.note(records) == "2 of 4 points in a common range"
    assert comparison.note(outside) == "0 of 3 points in a common range"
