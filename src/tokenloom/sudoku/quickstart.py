"""`tokenloom quickstart`: a Sudoku solved live, two methods trained for a minute each, and a report of what they do.

    UDM: uniform noise, the network predicts the leave-one-out posterior, cross-entropy;   MDM: masks, its bound.

Both complete grids of side 4 that training never saw, one try each, within a budget of network evaluations.
"""

import json
import math
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Column, Table

from tokenloom.drawing.randomness import starting_at
from tokenloom.models.opening import open_run
from tokenloom.models.store import load_model
from tokenloom.samplers import Sampler, Step
from tokenloom.samplers.options import SamplerOptions
from tokenloom.sudoku.data import draw_given
from tokenloom.sudoku.evaluate_task import SolveRate, solve_rate
from tokenloom.sudoku.puzzles import Puzzles
from tokenloom.sudoku.quickstart_report import CAUTION, Curves, trained, write_report
from tokenloom.sudoku.solve_command import MODELS, print_one, watch
from tokenloom.sudoku.solving import Solver, solve_puzzles
from tokenloom.sudoku.text import parse_puzzles
from tokenloom.support.files import check_writable
from tokenloom.training.build import resolve
from tokenloom.training.config import TrainConfig, read_config
from tokenloom.training.loop import train
from tokenloom.training.recipes import recipe
from tokenloom.training.reporting import Reporter

PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
MOST = 100_000
"""Most puzzles that a method can be asked to complete, which takes an hour or so."""
STEPS = (8, 16, 32)
METHODS = ("udm", "mdm")
PARTS = ("config.json", "metrics.jsonl", "checkpoints", "best", "model", "evaluation")
"""Files and folders that a run leaves in its folder."""
CONTENDERS = {"UDM": ("udm", "none"), "UDM, predictor-corrector": ("udm", "informed"), "MDM": ("mdm", "none")}
"""The method and the corrector of each row of the table."""


def quickstart(minutes: float = 1.0, puzzles: int = 300, seed: int = 0, out: Path = Path("quickstart")) -> None:
    """Solve a Sudoku live, train two methods on a small one, compare them, and write a report."""
    if not 0 < minutes < math.inf or not 1 <= puzzles <= MOST:
        raise ValueError(f"minutes must be positive and puzzles in 1..{MOST:,}, got {minutes:g} and {puzzles}")
    check_writable(out)
    console = Console()
    configs = {method: config_of(method, minutes, seed, out / method) for method in METHODS}
    for method, config in configs.items():
        clear(out / method, config)
    console.rule("[bold]1. A Sudoku, from noise", align="left")
    large = solve_live(console, seed)
    console.rule(f"[bold]2. UDM and MDM learn Sudoku of side 4, {minutes:g} min each", align="left")
    curves = [train_one(config) for config in configs.values()]
    console.rule("[bold]3. Grids they never saw", align="left")
    unseen = unseen_puzzles(configs["udm"], puzzles, seed)
    models = {method: load_model(out / method / "model") for method in METHODS}
    measured = [
        solve_rate(name, models[method], unseen, SamplerOptions(steps, corrector=corrector), seed=seed)
        for name, (method, corrector) in CONTENDERS.items()
        for steps in STEPS
    ]
    console.print(table(measured))
    console.print(f"{trained(curves)}.\n{CAUTION}\n", highlight=False, style="dim")
    small: dict[str, list[Step]] = {method.upper(): [] for method in METHODS}
    for model, steps in zip(models.values(), small.values(), strict=True):
        solve_puzzles(model, unseen.posed[:1], Solver(Sampler(steps=16), tries=1, seed=seed), steps.append)
    report = write_report(out / "report.html", large, small, measured, curves, minutes)
    console.print(f"The same with pictures: {report}\n", markup=False, highlight=False, soft_wrap=True)
    print_next(console, out)


def config_of(method: str, minutes: float, seed: int, folder: Path) -> TrainConfig:
    """Return the run, as `tokenloom train` would do it."""
    base = recipe("sudoku4")
    run = replace(base.run, validate_every=100, checkpoint_every=10**9, seed=seed + 1)
    return resolve(replace(base, method=method, max_minutes=minutes, out=str(folder), run=run))


def clear(folder: Path, config: TrainConfig) -> None:
    """Remove the run of an earlier quickstart, and nothing else."""
    if not folder.exists():
        return
    if not (folder / "config.json").is_file() or read_config(folder / "config.json").recipe != config.recipe:
        why = "is in the way and does not hold a run of an earlier quickstart"
        raise ValueError(f"{folder} {why}; choose another --out")
    for path in (folder / part for part in PARTS):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def solve_live(console: Console, seed: int) -> list[Step]:
    """Solve a famous puzzle with the bundled model, on screen and on record."""
    puzzle, steps, start = parse_puzzles([PUZZLE]), list[Step](), time.perf_counter()
    outcome = watch(open_run(MODELS[9]), puzzle, Solver(seed=seed), console, steps.append)
    print_one(console, puzzle, outcome, time.perf_counter() - start)
    return steps


def train_one(config: TrainConfig) -> Curves:
    """Train, and read back the curves; Ctrl-C ends the whole quickstart, not this run alone."""
    result = train(config, False, Reporter())
    if result is None or result.stopped_by is not None:
        raise KeyboardInterrupt
    lines = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    loss, bound = ([(line["step"], line[key]) for line in lines if key in line] for key in ("loss", "valid_nats"))
    return Curves(config.method.upper(), result.steps, result.parameters, loss, bound)


def unseen_puzzles(config: TrainConfig, count: int, seed: int) -> Puzzles:
    """Return held-out grids in turn, each with cells given at random: few enough that several solutions may fit."""
    valid = config.data.load().valid
    grids = valid[torch.arange(count) % len(valid)]
    return Puzzles(4, grids, draw_given(grids, None, starting_at(seed), low=4, high=7))


def table(measured: Sequence[SolveRate]) -> Table:
    """Return the table of solve rates, one row per method and number of steps."""
    columns = [Column(name, justify="right") for name in ("steps", "solve rate", "seconds")]
    title = f"{measured[0].puzzles} unseen grids of side 4, one try each"
    found = Table("method", *columns, title=title, title_justify="left", title_style="bold")
    for item in measured:
        rate, last = f"{item.solve_rate:6.1%} ± {item.error:.1%}", item.steps == measured[-1].steps
        found.add_row(item.run, str(item.steps), rate, f"{item.seconds:.1f}", end_section=last)
    return found


def print_next(console: Console, out: Path) -> None:
    """Print commands that run as they stand."""
    program = sys.argv[0] if Path(sys.argv[0]).name == "tokenloom" else "tokenloom"
    console.print("[bold]Next[/]")
    for what, command in (
        ("your own Sudoku", 'solve "81 characters, . for a blank"'),
        ("watch a small grid denoise", f"sample {out / 'udm'} --num 1 --steps 32 --watch"),
        ("another method, beside the exact entropy", "train --recipe markov --method audm --max-minutes 3"),
        ("your own text", "train --data.path my_text.txt"),
    ):
        console.print(f"  {what:42} [cyan]{program} {command}[/]", highlight=False, soft_wrap=True)
