"""The picture of docs/one-network.md: one sentence half noised by each process, every letter at its evidence.

    python scripts/draw_evidence.py docs/pictures/evidence.svg

Dark letters are the clean ones and orange ones are not.  Rings say where the letters lie at other levels.
"""

import sys
from collections import defaultdict
from itertools import groupby

import matplotlib
import torch

import tokenloom as tl

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

matplotlib.rcParams["svg.fonttype"] = "none"
matplotlib.rcParams["svg.hashsalt"] = "tokenloom"
ALPHABET = "abcdefghijklmnopqrstuvwxyz "
SENTENCE = "the loom weaves"
K = len(ALPHABET)
LEVEL, OTHERS = 0.5, (0.1, 0.25, 0.75, 0.9)
CLEAN, LOST, NOTE = "#1f2a44", "#d9730d", "#7a7a7a"
SCHEDULE = tl.LinearSchedule(eps=0)
ROWS: list[tuple[str, tl.Process, int, bool]] = [
    ("MDM", tl.Masked(K, schedule=SCHEDULE), 3, False),
    ("MUDM", tl.MaskedUniform(K, schedule=SCHEDULE), 1, False),
    ("AUDM", tl.AbsorbingUniform(K, schedule=SCHEDULE), 3, False),
    ("UDM", tl.Uniform(K, schedule=SCHEDULE), 3, False),
    ("hybrid", tl.Hybrid(K), 8, False),
    ("UDM, “the” given", tl.Uniform(K, schedule=SCHEDULE), 3, True),
]
"""A label, the process, a seed and whether the first word is given."""


def place(evidence: float) -> float:
    """Where an evidence lies on the axis from 0 to 1."""
    return 1.0 if evidence == float("inf") else evidence / (evidence + 3)


def noised(process: tl.Process, seed: int, level: float, given: bool) -> tl.Noisy:
    """The sentence at a level, with the same random numbers at every level."""
    x_0 = torch.tensor([[ALPHABET.index(letter) for letter in SENTENCE]])
    flags = (torch.arange(x_0.shape[1]) < 3).unsqueeze(0) if given else None
    time = process.time_at(torch.tensor([level], dtype=torch.float64))
    return process.corrupt(x_0, time, torch.Generator().manual_seed(seed), flags)


def write_letters(axes: Axes, x: float, height: float, letters: list[tuple[str, bool]]) -> None:
    """Letters side by side over one place, inside the ends of the axis, each in its colour."""
    step = 0.0175
    left = min(max(x - step * (len(letters) - 1) / 2, -0.02), 1.02 - step * (len(letters) - 1))
    for column, (letter, clean) in enumerate(letters):
        axes.text(left + step * column, height, letter, ha="center", va="bottom", color=CLEAN if clean else LOST,
                  family="monospace", fontsize=11)  # fmt: skip


def draw_row(axes: Axes, height: float, label: str, process: tl.Process, seed: int, given: bool) -> None:
    """One process: its axis, its letters at the level drawn, and rings for other levels."""
    axes.plot([0, 1], [height, height], color="#d0d0d0", linewidth=1, zorder=0)
    axes.text(-0.06, height, label, ha="right", va="center", color=CLEAN, fontsize=11)
    groups: dict[float, list[tuple[str, bool]]] = defaultdict(list)
    state = noised(process, seed, LEVEL, given)
    for position, (token, evidence) in enumerate(
        zip(state.tokens[0].tolist(), process.evidence(state)[0].tolist(), strict=True)
    ):
        letter = "▢" if token == K else "␣" if ALPHABET[token] == " " else ALPHABET[token]
        groups[round(place(evidence), 6)].append((letter, token != K and ALPHABET[token] == SENTENCE[position]))
    rings = {x for level in OTHERS for x in places_of(process, seed, level, given)} - set(groups)
    axes.scatter(list(rings), [height] * len(rings), s=16, facecolors="white", edgecolors=NOTE, linewidths=0.8)
    axes.scatter(list(groups), [height] * len(groups), s=22, color=CLEAN)
    for x, letters in groups.items():
        write_letters(axes, x, height + 0.13, letters)


def places_of(process: tl.Process, seed: int, level: float, given: bool) -> list[float]:
    """Where the letters lie at another level."""
    return [
        round(place(a), 6)
        for a, _ in groupby(sorted(process.evidence(noised(process, seed, level, given))[0].tolist()))
    ]


def main(path: str) -> None:
    """The whole picture."""
    figure, axes = plt.subplots(figsize=(8.4, 4.6))
    for number, (label, process, seed, given) in enumerate(ROWS):
        draw_row(axes, len(ROWS) - number, label, process, seed, given)
    ticks = [
        (0.0, "0"),
        (1.0, "1"),
        (2.0, "2"),
        (torch.tensor(float(K)).log().item(), "log K"),
        (6.0, "6"),
        (10.0, "10"),
        (float("inf"), "∞"),
    ]
    for evidence, word in ticks:
        axes.plot([place(evidence)] * 2, [0.42, 0.5], color=NOTE, linewidth=1)
        axes.text(place(evidence), 0.34, word, ha="center", va="top", color=NOTE, fontsize=10)
    axes.plot([0, 1], [0.5, 0.5], color=NOTE, linewidth=1)
    for x, word, side in (
        (0.0, "says nothing", "left"),
        (0.5, "evidence a of a token", "center"),
        (1.0, "says everything", "right"),
    ):
        axes.text(x, -0.08, word, ha=side, va="top", color=CLEAN if side == "center" else NOTE, fontsize=10)
    axes.set(xlim=(-0.25, 1.04), ylim=(-0.4, len(ROWS) + 0.7))
    axes.axis("off")
    figure.savefig(
        path, bbox_inches="tight", facecolor="white", metadata={"Date": None} if path.endswith("svg") else None
    )
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
