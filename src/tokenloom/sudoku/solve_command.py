"""`tokenloom solve`: a Sudoku, or many, by conditional sampling; watch the grid denoise.

The exit status is 0 only if every grid obeys the rules and keeps its givens, 1 if some does not, 2 for wrong input.
"""

import json as json_library
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from rich.console import Console
from rich.live import Live
from tyro.conf import Positional, arg

from tokenloom.data.decoder import frame
from tokenloom.models.model import DiffusionModel
from tokenloom.models.opening import Run, open_run
from tokenloom.models.threads import fit_threads
from tokenloom.samplers import Step
from tokenloom.samplers.options import SamplerOptions
from tokenloom.samplers.run import OnStep
from tokenloom.sudoku.data import grid_decoder
from tokenloom.sudoku.solver import BLANK, SIDES
from tokenloom.sudoku.solving import Outcome, Solver, solve_puzzles
from tokenloom.sudoku.text import format_grid, parse_puzzles, puzzles_of_file
from tokenloom.support.display import Display
from tokenloom.support.words import counted
from tokenloom.types import Tokens

MODELS = {4: "sudoku4-udm-loo", 6: "sudoku6-udm-loo", 9: "sudoku"}
"""The bundled model that solves a puzzle of each side unless another is named."""
GLANCE = 3
"""The part of its loops with which a model looks at every puzzle first."""


@dataclass(frozen=True)
class SolveConfig:
    """Options of `tokenloom solve`."""

    puzzle: Positional[str]
    """81, 36 or 16 characters with . 0 or _ for a blank; or a file with one puzzle per line, or a CSV file; or - for
    stdin."""
    model: str | None = None
    """The name of a bundled model, a run folder or a model folder; by default the bundled UDM of the puzzle's size."""
    sampling: Annotated[SamplerOptions, arg(name="")] = field(default_factory=lambda: SamplerOptions(steps=32))
    tries: int = 8
    """Draws before a puzzle is given up; the first valid grid is kept."""
    seed: int = 0
    """Seed of every random number."""
    batch: int = 32
    """Grids drawn at a time."""
    until_valid: bool = True
    """Stop as soon as the grid that the model finds most probable obeys the rules: most puzzles then cost one network
    evaluation. Otherwise, and for a puzzle that is watched, the sampler takes all its steps."""
    watch: bool = True
    """Show the grid while it denoises; only for one puzzle on a terminal."""
    json: bool = False
    """Print JSON."""


def solve(config: Annotated[SolveConfig, arg(name="")]) -> None:
    """Solve a Sudoku, or a file of them, with a diffusion model."""
    puzzles = read(config.puzzle)
    solver = Solver(config.sampling.sampler_value(), config.tries, config.seed, config.batch, config.until_valid)
    run = open_run(config.model or MODELS[SIDES[puzzles.shape[1]]])
    fit_threads(run.model, min(len(puzzles), config.batch), run.model.length)
    single = len(puzzles) == 1
    console, start = Console(), time.perf_counter()
    if single and config.watch and console.is_terminal and not config.json:
        outcomes = [watch(run, puzzles, replace(solver, until_valid=False), console)]
    else:
        outcomes = _with_progress(run, puzzles, solver)
    seconds = time.perf_counter() - start
    if config.json:
        print(json_library.dumps(record(run, puzzles, solver, outcomes, seconds)))
    elif single:
        print_one(console, puzzles, outcomes[0], seconds)
    else:
        print_many(console, outcomes, seconds)
    if not all(outcome.solved for outcome in outcomes):
        sys.exit(1)


def read(source: str) -> Tokens:
    """Read puzzles from standard input, a file or the text itself."""
    if source == "-":
        return parse_puzzles((line for line in sys.stdin if line.strip()), "the standard input")
    if os.path.isfile(source):  # unlike Path.is_file it takes any text, however long
        return puzzles_of_file(Path(source))
    if len("".join(source.split())) not in SIDES and any(symbol.isalpha() for symbol in source):
        raise ValueError(f"{source} is neither a file nor a puzzle of 16, 36 or 81 characters")
    return parse_puzzles([source])


def watch(run: Run, puzzles: Tokens, solver: Solver, console: Console, keep: OnStep | None = None) -> Outcome:
    """Solve one puzzle, drawing the first grid of every round as it denoises; `keep` sees the same steps."""
    given, decoder, drawn = (puzzles[0] != BLANK).tolist(), grid_decoder(SIDES[puzzles.shape[1]]), 0
    with Live(console=console, refresh_per_second=30, transient=True) as live:

        def show(step: Step) -> None:
            noise, changed = 1 - float(step.after.alpha_t[0]), step.changed[0].tolist()
            where = f"try {drawn + 1}   step {step.index:2}/{step.count}   noise {noise:4.0%}"
            grid = decoder.coloured(step.after.tokens[0].tolist(), changed, given)
            live.update(frame(f"{where}   {sum(changed):2} changed", grid))
            if keep is not None:
                keep(step)

        def count(outcomes: Sequence[Outcome]) -> None:
            nonlocal drawn
            drawn = outcomes[0].tries

        return solve_puzzles(run.model, puzzles, solver, show, count)[0]


def _with_progress(run: Run, puzzles: Tokens, solver: Solver) -> list[Outcome]:
    """Solve puzzles with a bar on the standard error, or a line now and then where that is piped."""
    display, total = Display(), len(puzzles)

    def update(outcomes: Sequence[Outcome]) -> None:
        solved, tried = sum(one.solved for one in outcomes), sum(one.tries > 0 for one in outcomes)
        display.update(f"{solved} solved of {tried} tried, of {counted(total, 'puzzle')}", solved / total)

    with display.status(f"solving {counted(total, 'puzzle')}"):
        return solve_puzzles(
            run.model, puzzles, solver, None, update, glance_of(run.model) if solver.until_valid else None
        )


def glance_of(model: DiffusionModel) -> DiffusionModel | None:
    """Return the model with a third of its loops, which usual puzzles need no more of; None if it has few."""
    loops = getattr(getattr(model.network, "config", None), "loops", 1)
    return model.with_loops(loops // GLANCE) if loops >= 2 * GLANCE else None


def print_one(console: Console, puzzles: Tokens, outcome: Outcome, seconds: float) -> None:
    """Print the grid with its givens bold, the cost, and a remedy if it is not solved."""
    side = SIDES[len(outcome.grid)]
    console.print(grid_decoder(side).coloured(outcome.grid, given=(puzzles[0] != BLANK).tolist()))
    cost = f"{counted(outcome.evaluations, 'network evaluation')}, {seconds:.1f} s"
    if outcome.told is not None:
        console.print(f"[yellow]{outcome.told}[/]", highlight=False)
    if outcome.solved:
        console.print(f"[green]solved[/] at try {outcome.tries}, {cost}", highlight=False)
    elif outcome.solutions != 0:
        sure = "there is a solution, so " if outcome.solutions else ""
        remedy = f"{sure}try more --tries, more --steps or another --seed{'' if sure else ', if there is a solution'}"
        failed = f"[red]not solved[/] in {_tries(outcome)}, {cost}"
        console.print(f"{failed}: the grid above breaks the rules; {remedy}", highlight=False)


def print_many(console: Console, outcomes: list[Outcome], seconds: float) -> None:
    """Print a line for each puzzle, and a summary."""
    width = len(str(len(outcomes)))
    for number, outcome in enumerate(outcomes, 1):
        word = "[green]solved    [/]" if outcome.solved else "[red]not solved[/]"
        note = "" if outcome.told is None else f"  {'no solution' if outcome.solutions == 0 else 'several solutions'}"
        line = f"{number:{width}}  {word}  {_tries(outcome):7}  {format_grid(outcome.grid)}{note}"
        console.print(line, highlight=False, soft_wrap=True)
    solved = sum(outcome.solved for outcome in outcomes)
    tries, cost = (fmean(getattr(outcome, name) for outcome in outcomes) for name in ("tries", "evaluations"))
    rate = f"[bold]{solved} of {len(outcomes)} solved[/] ({solved / len(outcomes):.1%}), {tries:.2f} tries per puzzle"
    summary = f"{rate}, {cost:.2f} network evaluations per puzzle, {seconds:.1f} s"
    console.print(summary, highlight=False, soft_wrap=True)


def _tries(outcome: Outcome) -> str:
    return "1 try" if outcome.tries == 1 else f"{outcome.tries} tries"


def record(run: Run, puzzles: Tokens, solver: Solver, outcomes: list[Outcome], seconds: float) -> dict[str, Any]:
    """Return everything that --json prints."""
    options = {"tries": solver.tries, "seed": solver.seed, "until_valid": solver.until_valid}
    return {
        "model": run.name,
        "options": options | solver.sampler.record(),
        "solved": sum(outcome.solved for outcome in outcomes),
        "evaluations_per_puzzle": round(fmean(outcome.evaluations for outcome in outcomes), 3),
        "puzzles": [
            {"puzzle": format_grid(puzzle)} | asdict(outcome) | {"grid": format_grid(outcome.grid)}
            for puzzle, outcome in zip(puzzles.tolist(), outcomes, strict=True)
        ],
        "seconds": round(seconds, 3),
    }
