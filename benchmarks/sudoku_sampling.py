"""First tries on the sets of `sudoku_sets.py`: which kernel solves most at 16, 64 and 256 evaluations.

    python -m benchmarks.sudoku_sampling sudoku sets --steps 16 64 256 --out benchmarks/results/sudoku_sampling.json

A try stops early where the most probable grid obeys the rules, as in `tokenloom solve`; `--tries 8` counts puzzles
solved within eight.  Every kernel meets the same puzzles.  Errors are one standard error of a share of n puzzles,
from Wilson's interval.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console

from benchmarks.keeping import keep
from tokenloom.models.opening import open_run
from tokenloom.samplers.options import SamplerOptions
from tokenloom.sudoku.evaluate_task import Z, wilson
from tokenloom.sudoku.solving import Solver, solve_puzzles
from tokenloom.sudoku.text import read_puzzles

SAMPLERS = (
    "ancestral",
    "psi:kappa=0.9",
    "psi:kappa=0.7",
    "planned",
    "ancestral + balanced:parallel=true",
    "ancestral + informed:steps=1,parallel=4",
)


@dataclass(frozen=True)
class Study:
    """Options of the study."""

    model: tyro.conf.Positional[str]
    """A run or a bundled model; sudoku@masked is it under masks."""
    sets: tyro.conf.Positional[Path]
    """The folder with the sets."""
    steps: tuple[int, ...] = (16, 64, 256)
    samplers: tuple[str, ...] = SAMPLERS
    temperature: float = 1.0
    top_p: float = 1.0
    grid: str = "auto"
    loops: int | None = None
    """Passes through the blocks; by default as in training."""
    tries: int = 1
    count: int = 50
    """Puzzles of each set."""
    seed: int = 0
    out: Path | None = None
    """A JSON file for the figures."""


def main(study: tyro.conf.OmitArgPrefixes[Study]) -> None:
    """Solve every set with every kernel, and print a line for each."""
    run, console, found = open_run(study.model), Console(markup=False), list[dict[str, Any]]()
    model = run.model if study.loops is None else run.model.with_loops(study.loops)
    sets = {path.stem: read_puzzles(path, study.count) for path in sorted(study.sets.glob("*.csv"))}
    for text in study.samplers:
        kernel, _, corrector = text.partition(" + ")
        for steps in study.steps:
            line = f"{text:42} {steps:4}"
            options = SamplerOptions(
                steps=steps, sampler=kernel, corrector=corrector or "none",
                temperature=study.temperature, top_p=study.top_p, grid=study.grid,
            )  # fmt: skip
            solver = Solver(options.sampler_value(), study.tries, study.seed, 64, until_valid=True)
            for name, puzzles in sets.items():
                outcomes = solve_puzzles(model, puzzles.posed, solver)
                solved, count = sum(one.solved for one in outcomes), len(outcomes)
                low, high = wilson(solved, count)
                mean = sum(one.evaluations for one in outcomes) / count
                error = (high - low) / (2 * Z)
                found.append(
                    {
                        "sampler": text,
                        "steps": steps,
                        "set": name,
                        "puzzles": count,
                        "solved": solved,
                        "evaluations": mean,
                    }
                )
                line += f"   {name} {100 * solved / count:5.1f} ± {100 * error:.1f}"
            console.print(line, soft_wrap=True, highlight=False)
            if study.out is not None:
                record = {"study": asdict(study) | {"sets": study.sets.name, "out": None}, "results": found}
                keep(record, study.out)


if __name__ == "__main__":
    tyro.cli(main)
