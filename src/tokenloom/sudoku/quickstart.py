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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from rich.console import Console
from rich.table import Table

from tokenloom.models.model import DiffusionModel
from tokenloom.models.opening import open_run
from tokenloom.models.store import load_model
from tokenloom.samplers import Sampler
from tokenloom.sudoku.data import draw_given
from tokenloom.sudoku.quickstart_report import CAUTION, Curves, Measured, Recorder, ReportContent, trained, write_report
from tokenloom.sudoku.solve_command import MODELS, print_one, watch
from tokenloom.sudoku.solver import BLANK
from tokenloom.sudoku.solving import Solver, solve_puzzles
from tokenloom.sudoku.text import parse_puzzles
from tokenloom.support.files import check_writable
from tokenloom.training.build import resolve
from tokenloom.training.config import TrainConfig, read_config
from tokenloom.training.loop import train
from tokenloom.training.recipes import recipe
from tokenloom.training.reporting import Reporter
from tokenloom.types import Tokens

PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
MOST = 100_000
"""Puzzles that a method can be asked to complete, in an hour or so."""
GIVENS = (4, 7)
STEPS = (8, 16, 32)
PARTS = ("config.json", "metrics.jsonl", "checkpoints", "best", "model", "evaluation")
"""What a run leaves in its folder."""

Method = Literal["udm", "mdm"]


@dataclass(frozen=True)
class Contender:
    """A row of the table."""

    name: str
    method: Method
    corrector: str = "none"


CONTENDERS = (
    Contender("UDM", "udm"),
    Contender("UDM, predictor-corrector", "udm", "informed"),
    Contender("MDM", "mdm"),
)


def quickstart(minutes: float = 1.0, puzzles: int = 300, seed: int = 0, out: Path = Path("quickstart")) -> None:
    """Solve a Sudoku live, train two methods on a small one, compare them, and write a report."""
    if not 0 < minutes < math.inf or not 1 <= puzzles <= MOST:
        raise ValueError(f"minutes must be positive and puzzles in 1..{MOST:,}, got {minutes:g} and {puzzles}")
    check_writable(out)
    console = Console()
    configs = [
        clear(config_of(contender, minutes, seed, out)) for contender in CONTENDERS if contender.corrector == "none"
    ]
    console.rule("[bold]1. A Sudoku, from noise", align="left")
    large = solve_live(console, seed)
    console.rule(f"[bold]2. UDM and MDM learn Sudoku of side 4, {minutes:g} min each", align="left")
    curves = [train_one(config) for config in configs]
    console.rule("[bold]3. Grids they never saw", align="left")
    unseen = unseen_puzzles(configs[0], puzzles, seed)
    models = {config.method: load_model(Path(config.out or "") / "model") for config in configs}
    measured = [
        rate_of(models[contender.method], contender, steps, unseen, seed) for contender in CONTENDERS for steps in STEPS
    ]
    console.print(table(measured, puzzles))
    console.print(f"{trained(curves)}.\n{CAUTION}\n", highlight=False, style="dim")
    small = [
        record_small(models[contender.method], contender, unseen[:1], seed)
        for contender in CONTENDERS
        if contender.corrector == "none"
    ]
    report = write_report(out / "report.html", ReportContent(large, small, measured, curves, puzzles, minutes))
    console.print(f"The same with pictures: [bold]{report}[/]\n", highlight=False, soft_wrap=True)
    print_next(console, out)


def config_of(contender: Contender, minutes: float, seed: int, out: Path) -> TrainConfig:
    """The run, as `tokenloom train` would do it."""
    base = recipe("sudoku4")
    run = replace(base.run, validate_every=100, checkpoint_every=10**9, seed=seed + 1)
    return resolve(
        replace(base, method=contender.method, max_minutes=minutes, out=str(out / contender.method), run=run)
    )


def clear(config: TrainConfig) -> TrainConfig:
    """Remove the run of an earlier quickstart, and nothing else."""
    folder = Path(config.out or "")
    if not folder.exists():
        return config
    if not (folder / "config.json").is_file() or read_config(folder / "config.json").recipe != config.recipe:
        raise ValueError(
            f"{folder} is in the way and does not hold a run of an earlier quickstart; choose another --out"
        )
    for part in PARTS:
        path = folder / part
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return config


def solve_live(console: Console, seed: int) -> Recorder:
    """The bundled model on a famous puzzle, on screen and on record."""
    puzzle, recorder, start = parse_puzzles([PUZZLE]), Recorder("the bundled model", PUZZLE), time.perf_counter()
    outcome = watch(open_run(MODELS[9]), puzzle, Solver(seed=seed), console, recorder)
    print_one(console, puzzle, outcome, time.perf_counter() - start)
    return recorder


def train_one(config: TrainConfig) -> Curves:
    """Train, and read back the curves; Ctrl-C ends all of it, not this run alone."""
    result = train(config, False, Reporter())
    if result is None or result.stopped_by is not None:
        raise KeyboardInterrupt
    lines = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    loss = [(line["step"], line["loss"]) for line in lines if "loss" in line]
    bound = [(line["step"], line["valid_nats"]) for line in lines if "valid_nats" in line]
    return Curves(config.method, result.steps, result.parameters, loss, bound)


def unseen_puzzles(config: TrainConfig, count: int, seed: int) -> Tokens:
    """Held-out grids in turn, each with cells given at random: few enough that several solutions may fit."""
    valid = config.data.load().valid
    grids = valid[torch.arange(count) % len(valid)].long()
    given = draw_given(grids, None, torch.Generator().manual_seed(seed), *GIVENS)
    return torch.where(given, grids, BLANK)


def rate_of(model: DiffusionModel, contender: Contender, steps: int, puzzles: Tokens, seed: int) -> Measured:
    """One try per puzzle."""
    sampler = Sampler.parse("ancestral", corrector=contender.corrector, steps=steps)
    start = time.perf_counter()
    found = solve_puzzles(model, puzzles, Solver(sampler, tries=1, seed=seed, batch=len(puzzles)))
    rate = sum(outcome.solved for outcome in found) / len(found)
    return Measured(contender.name, steps, rate, standard_error(rate, len(puzzles)), time.perf_counter() - start)


def standard_error(rate: float, count: int) -> float:
    """Of a share, after one more success and one more failure: none of 300 is not 0 without doubt."""
    share = (rate * count + 1) / (count + 2)
    return math.sqrt(share * (1 - share) / (count + 2))


def record_small(model: DiffusionModel, contender: Contender, puzzle: Tokens, seed: int) -> Recorder:
    """How one small grid comes about."""
    given = "".join("." if cell == BLANK else str(cell + 1) for cell in puzzle[0].tolist())
    recorder = Recorder(contender.name, given)
    solve_puzzles(model, puzzle, Solver(Sampler(steps=16), tries=1, seed=seed), recorder)
    return recorder


def table(measured: Sequence[Measured], puzzles: int) -> Table:
    """Method x steps."""
    found = Table(title=f"{puzzles} unseen grids of side 4, one try each", title_justify="left", title_style="bold")
    for column in ("method", "steps", "solve rate", "seconds"):
        found.add_column(column, justify="left" if column == "method" else "right")
    for index, row in enumerate(measured):
        rate = f"{row.rate:6.1%} ± {row.error:.1%}"
        found.add_row(row.method, str(row.steps), rate, f"{row.seconds:.1f}", end_section=(index + 1) % len(STEPS) == 0)
    return found


def print_next(console: Console, out: Path) -> None:
    """Commands that run as they stand."""
    program = sys.argv[0] if Path(sys.argv[0]).name == "tokenloom" else "tokenloom"
    console.print("[bold]Next[/]")
    for what, command in (
        ("your own Sudoku", 'solve "81 characters, . for a blank"'),
        ("watch a small grid denoise", f"sample {out / 'udm'} --num 1 --steps 32 --watch"),
        ("another method, beside the exact entropy", "train --recipe markov --method audm --max-minutes 3"),
        ("your own text", "train --recipe chars --method mdm --data.path my_text.txt"),
    ):
        console.print(f"  {what:42} [cyan]{program} {command}[/]", highlight=False, soft_wrap=True)
