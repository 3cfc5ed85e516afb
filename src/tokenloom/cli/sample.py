"""`tokenloom sample`: draw from a model with any sampler; text, grids or pictures, on screen or in a file."""

import json as json_library
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from warnings import catch_warnings, simplefilter

import torch
import tyro
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from torch import Tensor

from tokenloom.cli.given import read_given
from tokenloom.cli.registry import COMMANDS
from tokenloom.cli.samples_file import check_out, write_samples
from tokenloom.data.view import draw as draw_tokens
from tokenloom.data.view import frame
from tokenloom.drawing.randomness import RowGenerators, derive_seed
from tokenloom.evaluation.runs import Run, named, open_run
from tokenloom.evaluation.sizes import check_sampling
from tokenloom.processes import PROCESSES
from tokenloom.samplers import CORRECTORS, PREDICTORS, Step
from tokenloom.samplers.options import SamplerOptions
from tokenloom.support.display import Display
from tokenloom.support.registry import Directory
from tokenloom.support.words import counted


@dataclass(frozen=True)
class SampleConfig:
    """What to draw and how."""

    run: tyro.conf.Positional[str]
    """A run folder, a model folder or the name of a bundled model."""
    num: int = 16
    """Sequences to draw."""
    process: str | None = None
    """Draw under another process, such as masked or hybrid:p_uniform=0.2; for models trained with --method any."""
    sampling: Annotated[SamplerOptions, tyro.conf.arg(name="")] = field(default_factory=SamplerOptions)
    corrector_steps: int | None = None
    """Corrector steps after each sampler step, of the informed corrector unless --corrector names another."""
    prompt: str | None = None
    """Text that every sequence begins with."""
    infill: str | None = None
    """A sequence with blanks to fill: _ in text, one per token, and what follows the text is free; . or 0 in a grid."""
    length: int | None = None
    """Tokens per sequence; by default as trained."""
    seed: int = 0
    """Row i of a seed is the same whatever --num is."""
    batch: int = 16
    """Sequences drawn at a time."""
    watch: bool = False
    """Show the first sequence while it denoises."""
    json: bool = False
    """Print JSON with everything needed to repeat it."""
    out: Path | None = None
    """Write the same JSON to this file (or, ending in .png, pictures such as digits)."""

    @property
    def settings(self) -> SamplerOptions:
        """The sampler's settings, with the corrector that --corrector-steps asks for."""
        steps, named = self.corrector_steps, self.sampling.corrector
        if steps is None:
            return self.sampling
        if steps < 0:
            raise ValueError(f"--corrector-steps must not be negative, got {steps}")
        if steps == 0:
            return replace(self.sampling, corrector="none")
        kernel = "informed" if named == "none" else named
        return replace(self.sampling, corrector=f"{kernel}{',' if ':' in kernel else ':'}steps={steps}")


@COMMANDS.register("sample")
def sample(config: Annotated[SampleConfig, tyro.conf.arg(name="")]) -> None:
    """Draw sequences from a trained model."""
    if "list" in (config.sampling.sampler, config.sampling.corrector):
        list_samplers()
        return
    if config.num < 1 or config.batch < 1:
        raise ValueError(f"--num and --batch must be at least 1, got {config.num} and {config.batch}")
    display = Display(Console(file=sys.stderr))
    with display.status("loading the model"):
        run = open_run(named(config.run, config.process))
    given, length = read_given(run, config.prompt, config.infill, config.length)
    check_sampling(run.model, config.num, config.batch, config.settings.steps, length)
    if config.out is not None:
        check_out(config.out, run.decoder, length)
    console = Console()
    with catch_warnings(record=True) as noted, nullcontext() if config.watch else display.status("sampling"):
        simplefilter("default")
        tokens, evaluations, seconds = draw(run, config, given, length, display)
    for sentence in dict.fromkeys(str(warning.message) for warning in noted):
        display.console.print(f"[yellow]beware:[/] {escape(sentence)}", highlight=False, soft_wrap=True)
    options = asdict(config)
    for name in ("watch", "json", "out", "sampling"):
        options.pop(name)
    record = {
        "samples": run.decoder(tokens),
        "tokens": tokens.tolist(),
        "evaluations": evaluations,
        "seconds_per_sample": round(seconds / config.num, 4),
        "provenance": run.provenance() | {"options": options | asdict(config.settings)},
    }
    if config.out is not None:
        write_samples(config.out, record, tokens, run)
    if config.json:
        print(json_library.dumps(record))
        return
    for index, row in enumerate(tokens.tolist()):
        console.print(f"[dim]── {index}[/]", highlight=False)
        console.print(draw_tokens(run.decoder, row), soft_wrap=True)
    cost = f"{evaluations:.1f} evaluations each, {seconds / config.num:.2f} s each"
    console.print(f"[dim]{counted(config.num, 'sequence')}, {cost}[/]", highlight=False)


def draw(
    run: Run, config: SampleConfig, given: tuple[Tensor, Tensor] | None, length: int | None, display: Display
) -> tuple[Tensor, float, float]:
    """Tokens, mean evaluations per sequence, and seconds."""
    sampler = config.settings.sampler_value()
    parts, evaluations, start = [], 0, time.perf_counter()
    for first in range(0, config.num, config.batch):
        seeds = [derive_seed(config.seed, "row", row) for row in range(first, min(first + config.batch, config.num))]
        with watching(run, config.watch and first == 0, given) as show:
            on_step = show or partial(_show_share, display, config, first, len(seeds))
            samples = sampler.run(
                run.model, len(seeds), length=length, given=given, generator=RowGenerators(seeds), on_step=on_step
            )
        parts.append(samples.tokens)
        evaluations += int(samples.evaluations.sum())
    return torch.cat(parts), evaluations / config.num, time.perf_counter() - start


def _show_share(display: Display, config: SampleConfig, first: int, rows: int, step: Step) -> None:
    done = (first + rows * step.index / step.count) / config.num
    display.update(f"sampling {counted(config.num, 'sequence')}: step {step.index} of {step.count}", done)


class watching:  # noqa: N801
    """A live view of the first sequence, as a context that gives the callback; nothing without --watch."""

    def __init__(self, run: Run, watch: bool, given: tuple[Tensor, Tensor] | None) -> None:
        self.decoder = run.decoder
        self.given = None if given is None else given[1].tolist()
        self.live = Live(console=Console(), refresh_per_second=20) if watch else None

    def __enter__(self) -> Callable[[Step], None] | None:
        if self.live is None:
            return None
        self.live.__enter__()
        return self.show

    def __exit__(self, *error: Any) -> None:
        if self.live is not None:
            self.live.__exit__(*error)

    def show(self, step: Step) -> None:
        """Show one step."""
        assert self.live is not None
        title = (
            f"step {step.index}/{step.count}   t = {float(step.after.t[0]):.3f}   {int(step.changed[0].sum())} changed"
        )
        row, changed = step.after.tokens[0].tolist(), step.changed[0].tolist()
        self.live.update(frame(title, draw_tokens(self.decoder, row, changed, self.given)))


def _in_a_line(registry: Directory[Any], name: str) -> str:
    try:
        kernel = registry[name]
    except ValueError as error:  # of another package, which cannot be imported
        return f"[red]{escape(str(error))}[/]"
    return f"{(kernel.__doc__ or '').splitlines()[0]}  [dim](needs {kernel.serves.words})[/]"


def list_samplers() -> None:
    """Print every sampler and corrector, and the processes they run under."""
    console = Console()
    for title, registry in (("samplers", PREDICTORS), ("correctors", CORRECTORS)):
        console.print(f"[bold]{title}[/]")
        for name in registry:
            console.print(f"  {name:17} {_in_a_line(registry, name)}", highlight=False)
    console.print(f"[dim]processes: {', '.join(PROCESSES)}[/]", highlight=False)
