"""The picture of the README: a Sudoku denoised by uniform diffusion, from noise to its one solution.

    python scripts/draw_denoising.py sudoku-udm-loo docs/pictures/denoising.png

Every cell holds a digit at all times.  Given cells are bold, free ones green where they agree with the solution.
"""

import random
import sys

import matplotlib
import torch

import tokenloom as tl
from tokenloom.sudoku.solver import BLANK, random_puzzle

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

SIDE, GIVENS, STEPS, SEED = 9, 28, 64, 5
MOMENTS = (1.0, 0.75, 0.5, 0.25, 0.0)
GIVEN, RIGHT, NOISE = "#111111", "#0f7b3e", "#c4c4c4"


def draw_grid(axes: Axes, tokens: list[int], given: list[bool], solution: list[int]) -> None:
    """One grid."""
    for line in range(SIDE + 1):
        width = 1.6 if line % 3 == 0 else 0.35
        axes.plot([0, SIDE], [line, line], color="#444444", linewidth=width)
        axes.plot([line, line], [0, SIDE], color="#444444", linewidth=width)
    for cell, token in enumerate(tokens):
        row, column = divmod(cell, SIDE)
        colour = GIVEN if given[cell] else RIGHT if token == solution[cell] else NOISE
        weight = "bold" if given[cell] else "normal"
        place = (column + 0.5, row + 0.55)
        axes.text(*place, str(token + 1), color=colour, weight=weight, ha="center", va="center", fontsize=10)
    axes.set(xlim=(-0.1, SIDE + 0.1), ylim=(SIDE + 0.1, -0.1), aspect="equal")
    axes.axis("off")


def main(model_folder: str, picture: str) -> None:
    """Sample once, keep the states at the moments, draw them side by side."""
    model = tl.load(model_folder)
    puzzle, solution = random_puzzle(SIDE, GIVENS, random.Random(SEED))
    given = [token != BLANK for token in puzzle]
    states: list[tuple[float, list[int]]] = []

    def keep(step: tl.Step) -> None:
        if not states:
            states.append((1.0, step.before.tokens[0].tolist()))
        states.append((float(step.after.t[0]), step.after.tokens[0].tolist()))

    cells = (torch.tensor([puzzle]), torch.tensor([given]))
    generator = torch.Generator().manual_seed(SEED)
    tl.sample(model, 1, steps=STEPS, given=cells, generator=generator, on_step=keep)
    figure, panels = plt.subplots(1, len(MOMENTS), figsize=(12.5, 2.9))
    for axes, moment in zip(panels, MOMENTS, strict=True):
        t, tokens = min(states, key=lambda state: abs(state[0] - moment))
        draw_grid(axes, tokens, given, list(solution))
        axes.set_title(f"t = {t:g}", fontsize=11)
    figure.tight_layout()
    figure.savefig(picture, dpi=110, facecolor="white")
    print(f"{sum(a == b for a, b in zip(states[-1][1], solution, strict=True))} of {SIDE * SIDE} cells solved")


if __name__ == "__main__":
    main(*sys.argv[1:])
