"""The moving picture of the README: one network denoises one Sudoku twice, under masked and under uniform noise.

    python scripts/draw_denoising.py docs/pictures/denoising.svg

Given digits are bold; a free one is green where it agrees with the solution and grey where it does not.
"""

import random
import sys
from pathlib import Path

import torch

import tokenloom as tl
from tokenloom.sudoku.solver import BLANK, random_puzzle

SIDE, GIVENS, STEPS, SEED = 9, 27, 24, 5
CELL, GAP, TOP = 26, 60, 30
SECONDS, REST = 7.0, 3.0
"""How long the steps take together, and how long the end stays."""
TITLES = {"masked": "masked noise: blanks are filled", "uniform": "uniform noise: digits are revised"}
STYLE = (
    "text{font:15px system-ui,sans-serif;text-anchor:middle}.g{font-weight:700;fill:#111}.r{fill:#0f7b3e}"
    ".n{fill:#b5b5b5}.t{font-size:14px;fill:#333}line{stroke:#444}.f{opacity:0}"
)


def states(process: str, puzzle: tuple[int, ...]) -> list[list[int]]:
    """The grid at the start and after every step."""
    kept: list[list[int]] = []

    def keep(step: tl.Step) -> None:
        if not kept:
            kept.append(step.before.tokens[0].tolist())
        kept.append(step.after.tokens[0].tolist())

    cells = torch.tensor([puzzle])
    generator = torch.Generator().manual_seed(SEED)
    given = (cells.clamp(min=0), cells != BLANK)
    tl.sample(tl.load(f"sudoku@{process}"), 1, steps=STEPS, given=given, generator=generator, on_step=keep)
    return kept


def digits(tokens: list[int], where: list[bool], style: str, left: int) -> str:
    """Some cells of a grid as one text element; a mask is empty."""
    spans = []
    for cell, token in enumerate(tokens):
        if where[cell] and 0 <= token < SIDE:
            row, column = divmod(cell, SIDE)
            x, y = left + CELL * column + CELL // 2, TOP + CELL * row + 19
            spans.append(f'<tspan x="{x}" y="{y}">{token + 1}</tspan>')
    return f'<text class="{style}">{"".join(spans)}</text>'


def frame(number: int, grids: list[tuple[list[int], int]], given: list[bool], solution: tuple[int, ...]) -> str:
    """The free cells of both grids at one step, shown in its share of the time."""
    total = SECONDS + REST
    begin, end = (SECONDS / total * step / STEPS for step in (number, number + 1))
    last = number == STEPS
    times, values = (f"0;{begin:.4f}", "0;1") if last else (f"0;{begin:.4f};{end:.4f}", "0;1;0")
    if number == 0:
        times, values = f"0;{end:.4f}", "1;0"
    parts = []
    for tokens, left in grids:
        right = [not known and token == truth for known, token, truth in zip(given, tokens, solution, strict=True)]
        wrong = [not known and not good for known, good in zip(given, right, strict=True)]
        parts += [digits(tokens, right, "r", left), digits(tokens, wrong, "n", left)]
    moving = f'<animate attributeName="opacity" calcMode="discrete" dur="{total}s" repeatCount="indefinite"'
    style = ' style="opacity:1"' if last else ""
    return f'<g class="f"{style}>{"".join(parts)}{moving} keyTimes="{times}" values="{values}"/></g>'


def lines(left: int) -> str:
    """The rules of a grid."""
    parts, size = [], CELL * SIDE
    for place in range(SIDE + 1):
        width = 1.8 if place % 3 == 0 else 0.4
        at = CELL * place
        for x1, y1, x2, y2 in ((left + at, TOP, left + at, TOP + size), (left, TOP + at, left + size, TOP + at)):
            parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke-width="{width}"/>')
    return "".join(parts)


def main(picture: str) -> None:
    """Sample twice, and draw every step."""
    puzzle, solution = random_puzzle(SIDE, GIVENS, random.Random(SEED))
    given = [token != BLANK for token in puzzle]
    size, runs = CELL * SIDE, {process: states(process, puzzle) for process in TITLES}
    lefts = [10 + number * (size + GAP) for number in range(len(runs))]
    body = "".join(
        f'<text class="t" x="{left + size // 2}" y="18">{TITLES[name]}</text>'
        for left, name in zip(lefts, runs, strict=True)
    )
    body += "".join(lines(left) + digits(list(puzzle), given, "g", left) for left in lefts)
    for number in range(STEPS + 1):
        body += frame(
            number, [(run[number], left) for run, left in zip(runs.values(), lefts, strict=True)], given, solution
        )
    box = f"0 0 {2 * size + GAP + 20} {size + TOP + 10}"
    white = '<rect width="100%" height="100%" fill="#fff"/>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}"><style>{STYLE}</style>{white}{body}</svg>\n'
    Path(picture).write_text(svg, encoding="utf-8")
    for name, run in runs.items():
        print(f"{name}: {sum(a == b for a, b in zip(run[-1], solution, strict=True))} of {SIDE * SIDE} cells solved")


if __name__ == "__main__":
    main(*sys.argv[1:])
