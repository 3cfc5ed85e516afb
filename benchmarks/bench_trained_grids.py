"""Grids of times on trained networks under uniform noise, where `bench_grids.py` has exact posteriors.

    text     the bound of a chain of so many steps, as `tokenloom fit-grid` measures it, and samples under a judge, by
             temperature: nats per token below those of the uniform grid at the same entropy
    sudoku   the same bound, and the share of minimal puzzles that one draw solves

`fitted` is fitted to other rows than those that judge it.

python -m benchmarks.bench_trained_grids --out benchmarks/results/trained_grids.json
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.progress import track

import tokenloom as tl
from benchmarks.keeping import keep
from tokenloom.data.base import decoder_of, trained_on
from tokenloom.drawing.randomness import starting_at
from tokenloom.evaluation.frontier import nats_at_entropy
from tokenloom.evaluation.grid_fit import fit_grids
from tokenloom.evaluation.held_out import held_out
from tokenloom.evaluation.judges import load_judge, rate
from tokenloom.models.model import DiffusionModel
from tokenloom.models.opening import open_run
from tokenloom.samplers.options import SamplerOptions
from tokenloom.sudoku.evaluate_task import solve_rate
from tokenloom.sudoku.puzzles import unique_puzzles
from tokenloom.types import Flags, Tokens

GRIDS = ("uniform", "power:1.5", "information", "fitted")
TEXT_BUDGETS, SUDOKU_BUDGETS = (8, 32), (4, 8, 16)
TEMPERATURES = (0.7, 0.85, 1.0)
GIVENS, MINIMAL = (29, 37), (22, 26)
"""Givens of the puzzles that a grid is fitted to, and of those that are solved."""
Record = dict[str, Any]


def fitted(model: DiffusionModel, x_0: Tokens, given: Flags | None) -> list[Record]:
    """Let the model keep grids that are fitted to rows, and return the bounds of all grids on the second half."""
    found = fit_grids(model, x_0, given)
    model.describe(grids={model.process.name: {str(each.steps): list(each.levels) for each in found}})
    return [{"steps": each.steps, "bounds": each.bounds, "kept": each.kept} for each in found]


def gap(points: Sequence[Record], uniform: Sequence[Record]) -> float | None:
    """How far points lie below the uniform grid's at their entropies, on average; None outside its range."""
    there = [(nats_at_entropy(uniform, point["entropy"]), point["nats_per_token"]) for point in points]
    gains = [other - nats for other, nats in there if other is not None]
    return sum(gains) / len(gains) if gains else None


def on_text(name: str, judge_name: str, rows: int, samples: int, steps: Iterable[tuple[int, str]]) -> Record:
    """Bounds and frontiers of a text model."""
    run = open_run(name)
    x_0, given = held_out(run).draw(rows, starting_at(0))
    bounds, judge = fitted(run.model, x_0, given), load_judge(judge_name, trained_on(run.model))
    curves: list[Record] = []
    for budget, grid in steps:
        points = []
        for temperature in TEMPERATURES:
            sampler = tl.Sampler(steps=budget, grid=grid, temperature=temperature)
            tokens = sampler.run(run.model, samples, generator=starting_at(1)).tokens
            rating = rate(judge, tokens, decoder_of(run.model))
            figures = {key: getattr(rating, key) for key in ("entropy", "nats_per_token", "nats_error")}
            points.append({"temperature": temperature, **figures})
        curves.append({"steps": budget, "grid": grid, "points": points})
    for curve in curves:
        uniform = next(item for item in curves if (item["steps"], item["grid"]) == (curve["steps"], "uniform"))
        curve["below_uniform"] = gap(curve["points"], uniform["points"])
    return {"model": name, "judge": judge.title, "rows": rows, "samples": samples, "bounds": bounds, "curves": curves}


def on_sudoku(name: str, rows: int, puzzles: int, steps: Iterable[tuple[int, str]]) -> Record:
    """Bounds and solve rates of a Sudoku model."""
    model = tl.load(name)
    side = model.process.vocab_size
    usual = unique_puzzles(rows, GIVENS, seed=3, side=side)
    bounds = fitted(model, usual.solutions.long(), usual.given)
    posed, rates = unique_puzzles(puzzles, MINIMAL, seed=4, side=side, minimal=True), []
    for budget, grid in steps:
        found = solve_rate(name, model, posed, SamplerOptions(budget, grid=grid))
        rates.append({"steps": budget, "grid": grid, "solve_rate": found.solve_rate, "error": found.error})
    return {"model": name, "rows": rows, "puzzles": puzzles, "bounds": bounds, "rates": rates}


def main(
    judge: str = "smollm2",
    text: str = "shakespeare-udm-loo",
    sudoku: str = "sudoku",
    rows: int = 128,
    samples: int = 96,
    puzzles: int = 400,
    out: Path | None = None,
) -> None:
    """Compare grids on trained networks.

    Args:
        judge: The language model that judges samples of text.
        text: A text model under uniform noise.
        sudoku: A Sudoku model under uniform noise.
        rows: Sequences, or puzzles, that a grid is fitted to and judged on, a half for each.
        samples: Samples of every point.
        puzzles: Puzzles to solve.
        out: Write the result to this file instead of printing it.
    """
    console = Console(stderr=True)
    settings = [[(budget, grid) for budget in budgets for grid in GRIDS] for budgets in (TEXT_BUDGETS, SUDOKU_BUDGETS)]
    record = {
        "text": on_text(text, judge, rows, samples, track(settings[0], "text", console=console)),
        "sudoku": on_sudoku(sudoku, rows, puzzles, track(settings[1], "sudoku", console=console)),
    }
    keep(record, out)


if __name__ == "__main__":
    tyro.cli(main)
