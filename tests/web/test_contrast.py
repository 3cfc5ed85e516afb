"""Colours that can be read: WCAG AA for every pair that the page draws together, in both themes."""

import re
from importlib.resources import files
from itertools import pairwise

import pytest

STYLE = (files("tokenloom.web") / "static" / "style.css").read_text(encoding="utf-8")
AGES = [f"age-{age}" for age in range(6)]
TEXT = [("ink", surface) for surface in ("paper", "card", *AGES)]
TEXT += [("soft", "paper"), ("soft", "card"), ("accent", "card"), ("on-accent", "accent"), ("warn", "warn-soft")]
PARTS = [("law-denoiser", "card"), ("law-leave_one_out", "card"), ("law-conditional", "card"), ("line-strong", "card")]
PARTS += [("accent", "paper"), *(("accent", age) for age in AGES[:3])]


def variables(theme: str) -> dict[str, str]:
    blocks = re.findall(r":root(\[data-theme=\"dark\"\])? \{(.*?)\n\}", STYLE, re.DOTALL)
    return {
        name: value
        for dark, block in blocks
        if not dark or theme == "dark"
        for name, value in re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)
    }


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXT, 4.5), (PARTS, 3)], ids=["text", "parts that carry meaning"])
def test_contrast_is_that_of_wcag_aa(theme: str, pairs: list[tuple[str, str]], least: float) -> None:
    colours = variables(theme)
    ratios = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert not {pair: ratio for pair, ratio in ratios.items() if ratio < least}


def without_red_or_green(colour: str) -> tuple[float, float]:
    """What someone who does not tell red from green still sees: the axis from blue to yellow, and how light it is."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return blue - (red + green) / 2, 255 * luminance(colour)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_ages_are_told_apart_without_red_and_green(theme: str) -> None:
    colours = variables(theme)
    seen = [without_red_or_green(colours[age]) for age in AGES]
    axis = [place for place, _ in seen]
    assert axis == sorted(axis, reverse=True)  # from blue to yellow, in order
    steps = [abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in pairwise(seen)]
    assert min(steps) > 10
