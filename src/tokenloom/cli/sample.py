"""`tokenloom sample`: draw from a model with any sampler; text, grids or pictures, on screen or in a file."""

import hashlib
import json as json_library
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from rich.console import Console
from rich.live import Live
from rich.progress import track
from torch import Tensor

from tokenloom import __version__
from tokenloom.cli.given import read_given
from tokenloom.cli.samples_file import check_out, write_samples
from tokenloom.cli.view import Canvas, canvas_of, frame
from tokenloom.evaluation.runs import Run, model_folder, open_run
from tokenloom.posteriors import Denoiser, LeaveOneOut
from tokenloom.randomness import RowGenerators, derive_seed
from tokenloom.samplers import CORRECTORS, PREDICTORS, Step, run_sampler
from tokenloom.truncation import Truncation


@dataclass(frozen=True)
class SampleConfig:
    """What to draw and how."""

    run: tyro.conf.Positional[str]
    """A run folder, a model folder or the name of a bundled model."""
    num: int = 16
    """Sequences to draw."""
    steps: int = 128
    """Network evaluations a sequence, the corrector's included."""
    sampler: str = "ancestral"
    """A sampler with options, as in psi:kappa=0.9; `list` names them all."""
    corrector: str = "none"
    """A corrector with options, as in informed:steps=2,parallel=4; `none` is without."""
    corrector_steps: int | None = None
    """Corrector steps after each sampler step, of the informed corrector unless --corrector names another."""
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    on: Literal["loo", "denoiser"] = "loo"
    """The posterior that temperature, top-p and top-k act on."""
    prompt: str | None = None
    """Text that every sequence begins with."""
    infill: str | None = None
    """A sequence with blanks to fill: _ in text, one a token, and what follows the text is free; . or 0 in a grid."""
    length: int | None = None
    """Tokens a sequence; by default as trained."""
    grid: Literal["uniform", "cosine"] = "uniform"
    """How the times are spaced."""
    seed: int = 0
    """Row i of a seed is the same whatever --num is."""
    batch: int = 16
    """Sequences drawn at a time."""
    watch: bool = False
    """Show the first sequence while it denoises."""
    json: bool = False
    """Print JSON with everything needed to repeat it."""
    out: Path | None = None
    """Write the same JSON to this file (or, ending in .png, digits as a picture)."""


def sample(config: Annotated[SampleConfig, tyro.conf.arg(name="")]) -> None:
    """Draw sequences from a trained model."""
    if config.sampler == "list":
        list_samplers()
        return
    if config.num < 1 or config.batch < 1:
        raise ValueError(f"--num and --batch must be at least 1, got {config.num} and {config.batch}")
    run = open_run(config.run)
    fixed, length = read_given(run, config.prompt, config.infill, config.length)
    if config.out is not None:
        check_out(config.out, length)
    canvas, console = canvas_of(run), Console()
    tokens, evaluations, seconds = draw(run, config, canvas, fixed, length)
    record = {
        "samples": [canvas.plain(row) for row in tokens.tolist()],
        "tokens": tokens.tolist(),
        "evaluations": evaluations,
        "seconds_per_sample": round(seconds / config.num, 4),
        "provenance": provenance(run, config),
    }
    if config.out is not None:
        write_samples(config.out, record, tokens, run)
    if config.json:
        print(json_library.dumps(record))
        return
    for index, row in enumerate(tokens.tolist()):
        console.print(f"[dim]── {index}[/]", highlight=False)
        console.print(canvas.draw(row), soft_wrap=True)
    console.print(
        f"[dim]{config.num} sequences, {evaluations:.1f} evaluations each, {seconds / config.num:.2f} s each[/]",
        highlight=False,
    )


def draw(
    run: Run, config: SampleConfig, canvas: Canvas, fixed: tuple[Tensor, Tensor] | None, length: int | None
) -> tuple[Tensor, float, float]:
    """Tokens, mean evaluations a sequence, and seconds."""
    corrector = corrector_of(config)
    parts, evaluations, start = [], 0, time.perf_counter()
    firsts = range(0, config.num, config.batch)
    quiet = config.watch or len(firsts) == 1
    for first in firsts if quiet else track(firsts, "sampling", console=Console(stderr=True)):
        size = min(config.batch, config.num - first)
        seeds = [derive_seed(config.seed, "row", row) for row in range(first, first + size)]
        with watching(config, canvas, fixed) as on_step:
            samples = run_sampler(
                run.model,
                size,
                length,
                config.steps,
                config.sampler,
                corrector,
                truncation(config),
                fixed,
                RowGenerators(seeds),
                on_step if first == 0 else None,
                config.grid,
            )
        parts.append(samples.tokens)
        evaluations += int(samples.evaluations.sum())
    return torch.cat(parts), evaluations / config.num, time.perf_counter() - start


class watching:  # noqa: N801
    """A live view of the first sequence, as a context that gives the callback; nothing without --watch."""

    def __init__(self, config: SampleConfig, canvas: Canvas, fixed: tuple[Tensor, Tensor] | None) -> None:
        self.canvas = canvas
        self.given = None if fixed is None else fixed[1].tolist()
        self.live = Live(console=Console(), refresh_per_second=20) if config.watch else None

    def __enter__(self) -> Callable[[Step], None] | None:
        if self.live is None:
            return None
        self.live.__enter__()
        return self.show

    def __exit__(self, *error: Any) -> None:
        if self.live is not None:
            self.live.__exit__(*error)

    def show(self, step: Step) -> None:
        """One frame."""
        assert self.live is not None
        title = (
            f"step {step.index}/{step.count}   t = {float(step.after.t[0]):.3f}   {int(step.changed[0].sum())} changed"
        )
        row, changed = step.after.tokens[0].tolist(), step.changed[0].tolist()
        self.live.update(frame(title, self.canvas.draw(row, changed, self.given)))


def corrector_of(config: SampleConfig) -> str | None:
    """The corrector that is named, or the informed one; --corrector-steps goes before the steps in its name."""
    steps = config.corrector_steps
    if steps is not None and steps < 0:
        raise ValueError(f"--corrector-steps must not be negative, got {steps}")
    if steps is None or steps == 0:
        return None if steps == 0 or config.corrector == "none" else config.corrector
    named = "informed" if config.corrector == "none" else config.corrector
    return f"{named}{',' if ':' in named else ':'}steps={steps}"


def truncation(config: SampleConfig) -> Truncation | None:
    """What the options say; None where they leave the prediction as it is."""
    on = LeaveOneOut if config.on == "loo" else Denoiser
    asked = Truncation(config.temperature, config.top_p, config.top_k, on)
    return None if asked == Truncation(on=on) else asked


def provenance(run: Run, config: SampleConfig) -> dict[str, Any]:
    """Everything needed to draw the same again."""
    folder = model_folder(config.run)
    weights = b"" if folder is None else (folder / "model.safetensors").read_bytes()
    options = {key: value for key, value in asdict(config).items() if key not in ("watch", "json", "out")}
    model = run.model
    return {
        "tokenloom": __version__,
        "torch": torch.__version__,
        "model": run.name,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "process": type(model.process).__name__,
        "predicts": model.predicts.__name__,
        "trained_steps": run.step,
        "options": options,
    }


def list_samplers() -> None:
    """Names and what they serve."""
    console = Console()
    for title, registry in (("samplers", PREDICTORS), ("correctors", CORRECTORS)):
        console.print(f"[bold]{title}[/]")
        for name, kernel in sorted(registry.items()):
            serves = ", ".join(process.__name__ for process in kernel.serves)
            line = (kernel.__doc__ or "").splitlines()[0]
            console.print(f"  {name:17} {line}  [dim]({serves})[/]", highlight=False)
