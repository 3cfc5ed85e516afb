"""The pictures of the page: every seed or the spread over seeds, exact values as lines; colours also differ in grey."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.claim import SEEDS, Records
from evidence.verdicts import Effect
from tokenloom.evaluation.plots import COLOURS, INK, band, canvas

TITLES = {"markov": "Markov chain", "text8": "text8", "sudoku": "Sudoku, 22 to 29 givens"}
BOTH = ("markov", "text8")


def figures(records: Records, setting: str, arm: str, measure: str) -> list[Any]:
    """What a measure found, seed by seed."""
    found = (records.get((setting, arm, seed), {}).get(measure) for seed in SEEDS)
    return [item for item in found if item is not None]


def mean(values: Sequence[float]) -> float:
    """The mean of a few numbers."""
    return Effect(tuple(values)).mean


def error(values: Sequence[float]) -> float:
    """Its standard error; 0 for a single number."""
    spread = sum((value - mean(values)) ** 2 for value in values) / max(len(values) - 1, 1)
    return math.sqrt(spread / len(values))


@dataclass(frozen=True)
class Bounds:
    """The bound of each arm: a dot per seed, a bar for their mean; 0 is the exact likelihood of the same rows."""

    arms: tuple[str, ...]

    def draw(self, records: Records, path: Path) -> None:
        """Write the picture; what is missing in the records is left out."""
        units = {
            "markov": ("nats per token above the exact likelihood", "above_exact"),
            "text8": ("bits per character", "bits_per_token"),
        }
        with canvas(path, 1, 2, 8.4, 0.9 + 0.3 * len(self.arms)) as (_, grid):
            for axes, setting in zip(grid[0], BOTH, strict=True):
                label, key = units[setting]
                for row, arm in enumerate(self.arms):
                    values = [item[key] for item in figures(records, setting, arm, "bound")]
                    if values:
                        colour = COLOURS[0] if "loo" in arm or arm == "max-coupling" else COLOURS[1]
                        axes.plot([mean(values)] * 2, [row - 0.28, row + 0.28], color=colour, linewidth=2.4)
                        axes.plot(values, [row] * len(values), "o", color=colour, markersize=4.5, alpha=0.75)
                axes.set_yticks(range(len(self.arms)), self.arms if setting == "markov" else [""] * len(self.arms))
                axes.set_ylim(len(self.arms) - 0.5, -0.5)
                axes.set(xlabel=label, title=TITLES[setting])
                if setting == "markov":
                    axes.axvline(0, color=INK, linewidth=0.9, linestyle="--")


@dataclass(frozen=True)
class Frontiers:
    """Nats per token of the judge against entropy; a cross has the spread of the seeds, the star is held-out data."""

    curves: tuple[tuple[str, str], ...]
    """Arm and curve."""
    settings: tuple[str, ...] = BOTH

    def draw(self, records: Records, path: Path) -> None:
        """Write the picture; what is missing in the records is left out."""
        several = len({arm for arm, _ in self.curves}) > 1
        with canvas(path, 1, len(self.settings), 4.2 * len(self.settings), 4.3) as (figure, grid):
            for axes, setting in zip(grid[0], self.settings, strict=True):
                for number, (arm, curve) in enumerate(self.curves):
                    found = figures(records, setting, arm, f"curve: {curve}")
                    if found:
                        _curve(
                            axes, [item["points"] for item in found], f"{arm}: {curve}" if several else curve, number
                        )
                        data = found[0]["data"]
                if axes.lines:
                    axes.axvline(data["entropy"], color=INK, linewidth=0.9, linestyle="--")
                    axes.plot(
                        data["entropy"], data["nats_per_token"], "*", color=INK, markersize=11, label="held-out data"
                    )
                axes.set(
                    xlabel="unigram entropy of a sample, nats", ylabel="nats per token (judge)", title=TITLES[setting]
                )
            handles, labels = grid[0][0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8)


def _curve(axes: Any, seeds: Sequence[Sequence[Mapping[str, float]]], label: str, number: int) -> None:
    """One curve: the points of all seeds with the same knob are one cross; they are joined in the order of entropy."""
    knobs = [
        [[point[axis] for point in knob] for axis in ("entropy", "nats_per_token")] for knob in zip(*seeds, strict=True)
    ]
    ordered = sorted(knobs, key=lambda knob: mean(knob[0]))
    x, y = ([mean(knob[axis]) for knob in ordered] for axis in (0, 1))
    spread = [[2 * error(knob[axis]) for knob in ordered] for axis in (0, 1)]
    colour, marker = COLOURS[number % len(COLOURS)], "osD^vP"[number % 6]
    look = {"color": colour, "marker": marker, "markersize": 4.2, "linewidth": 1.4, "elinewidth": 0.9}
    axes.errorbar(x, y, yerr=spread[1], xerr=spread[0], label=label, **look)


@dataclass(frozen=True)
class SolveRates:
    """Puzzles solved: a dot for every seed, a bar for their mean; open for 8 evaluations, filled for 32."""

    samplers: tuple[tuple[str, str, str], ...]
    """Label, arm and sampler."""

    def draw(self, records: Records, path: Path) -> None:
        """Write the picture; what is missing in the records is left out."""
        with canvas(path, 1, 1, 7.6, 0.9 + 0.34 * len(self.samplers)) as (_, grid):
            axes = grid[0][0]
            for row, (_, arm, sampler) in enumerate(self.samplers):
                found = [item[sampler] for item in figures(records, "sudoku", arm, "solving")]
                for budget, fill, side in (("8", "none", -0.13), ("32", COLOURS[0], 0.13)):
                    rates = [100 * item[budget]["solve_rate"] for item in found if budget in item]
                    if rates:
                        look = {"color": COLOURS[0], "markerfacecolor": fill, "markersize": 4.5}
                        axes.plot(rates, [row + side] * len(rates), "o", **look)
                        axes.plot([mean(rates)] * 2, [row + side - 0.13, row + side + 0.13], color=INK, linewidth=1.6)
            axes.set_yticks(range(len(self.samplers)), [label for label, _, _ in self.samplers])
            axes.set_ylim(len(self.samplers) - 0.5, -0.5)
            axes.set(xlim=(0, 100), xlabel="% solved; open: 8 evaluations, filled: 32", title=TITLES["sudoku"])


@dataclass(frozen=True)
class OwnTokens:
    """Dependence on the own token against time, mean and two standard errors over seeds."""

    arms: tuple[str, ...]

    def draw(self, records: Records, path: Path) -> None:
        """Write the picture; what is missing in the records is left out."""
        with canvas(path, 1, 2, 8.4, 3.6) as (figure, grid):
            for axes, setting in zip(grid[0], BOTH, strict=True):
                for number, arm in enumerate(self.arms):
                    found = [item["times"] for item in figures(records, setting, arm, "own token")]
                    if found:
                        values = [[item["total_variation"] for item in time] for time in zip(*found, strict=True)]
                        times = [item["t"] for item in found[0]]
                        band(
                            axes,
                            times,
                            [mean(value) for value in values],
                            [error(value) for value in values],
                            arm,
                            number,
                        )
                axes.set(xlabel="t", ylabel="total variation", title=TITLES[setting], xlim=(0, 1))
                axes.axhline(0, color=INK, linewidth=0.9, linestyle="--")
            handles, labels = grid[0][0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)


@dataclass(frozen=True)
class Drawn:
    """Nats of drawn tokens by the way of drawing, every seed a dot; 0 is the law."""

    def draw(self, records: Records, path: Path) -> None:
        """Write the picture; what is missing in the records is left out."""
        ways = (("textbook, float32", "float32"), ("exact", "exact"))
        with canvas(path, 1, 2, 8.4, 1.9) as (_, grid):
            for axes, arm in zip(grid[0], ("vocabulary of 50,257", "vocabulary of 27"), strict=True):
                for row, (_, way) in enumerate(ways):
                    found = figures(records, "softmax", arm, "drawing")
                    values = [item[way]["nats"] - item["law"]["nats"] for item in found]
                    axes.plot(values, [row] * len(values), "o", color=COLOURS[1 - row], markersize=5, alpha=0.8)
                axes.set_yticks(range(2), [label for label, _ in ways] if arm.endswith("257") else ["", ""])
                axes.set(ylim=(1.5, -0.5), xlim=(-0.45, 0.15), xlabel="nats per token, minus the law's", title=arm)
                axes.axvline(0, color=INK, linewidth=0.9, linestyle="--")
