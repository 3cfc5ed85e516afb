"""`tokenloom sample`: draw from a model with any sampler; text, grids or pictures, on screen or in a file."""

import json as json_library
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
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

from tokenloom.cells import PROCESSES
from tokenloom.cli.given import read_given
from tokenloom.cli.registry import COMMANDS
from tokenloom.cli.sample_shards import begin, is_folder, missing, write_shard
from tokenloom.cli.samples_file import check_out, write_samples
from tokenloom.data.view import draw as draw_tokens
from tokenloom.data.view import frame
from tokenloom.drawing.randomness import derive_seed
from tokenloom.evaluation.runs import Run, named, open_run, placed
from tokenloom.evaluation.sizes import check_sampling
from tokenloom.samplers import CORRECTORS, PREDICTORS, Samples, Step
from tokenloom.samplers.options import SamplerOptions
from tokenloom.samplers.run import OnStep
from tokenloom.support.display import Display
from tokenloom.support.ranks import ranks
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
    compile: bool = False
    """Compile the network first (torch.compile), which takes up to a minute; for long runs on a GPU."""
    watch: bool = False
    """Show the first sequence while it denoises."""
    json: bool = False
    """Print JSON with everything needed to repeat it."""
    out: Path | None = None
    """Write the same JSON to this file (ending in .png, pictures such as digits), or stream the samples to this folder,
    one JSON line each, in shards; what is there already is not drawn again."""
    shard: int = 1000
    """Samples per file of a folder."""

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
        run = placed(open_run(named(config.run, config.process)), config.compile)
    given, length = read_given(run, config.prompt, config.infill, config.length)
    options = asdict(config)
    for name in ("watch", "json", "out", "shard", "sampling"):
        options.pop(name)
    provenance = run.provenance() | {"options": options | asdict(config.settings)}
    folder = config.out if is_folder(config.out) else None
    at_once = config.num if folder is None else min(config.num, config.shard)
    check_sampling(run.model, at_once, config.batch, config.settings.steps, length)
    if folder is not None:
        _stream(run, config, folder, provenance, partial(_draw_rows, run, config, given, length), display)
        return
    if ranks().count > 1:
        raise ValueError("several processes write their samples to a folder; name one with --out samples/")
    if config.out is not None:
        check_out(config.out, run.decoder, length)
    console = Console()
    with _noted(display), nullcontext() if config.watch else display.status("sampling"):
        tokens, evaluations, seconds = draw(run, config, given, length, display)
    record = {
        "samples": run.decoder(tokens),
        "tokens": tokens.tolist(),
        "evaluations": evaluations,
        "seconds_per_sample": round(seconds / config.num, 4),
        "provenance": provenance,
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
    parts, evaluations, start = [], 0, time.perf_counter()
    for first in range(0, config.num, config.batch):
        rows = range(first, min(first + config.batch, config.num))
        with watching(run, config.watch and first == 0, given) as show:
            on_step = show or partial(_show_share, display, config, first, len(rows))
            samples = _draw_rows(run, config, given, length, rows, on_step)
        parts.append(samples.tokens)
        evaluations += int(samples.evaluations.sum())
    return torch.cat(parts), evaluations / config.num, time.perf_counter() - start


def _draw_rows(
    run: Run,
    config: SampleConfig,
    given: tuple[Tensor, Tensor] | None,
    length: int | None,
    rows: range,
    on_step: OnStep | None = None,
) -> Samples:
    """Some rows, each with random numbers of its own."""
    generator = run.randomness([derive_seed(config.seed, "row", row) for row in rows])
    sampler = config.settings.sampler_value()
    samples = sampler.run(run.model, len(rows), length=length, given=given, generator=generator, on_step=on_step)
    return replace(samples, tokens=samples.tokens.cpu())


@contextmanager
def _noted(display: Display) -> Iterator[None]:
    """Warnings of the block as lines, each once, after it."""
    with catch_warnings(record=True) as noted:
        simplefilter("default")
        yield
    for sentence in dict.fromkeys(str(warning.message) for warning in noted):
        display.console.print(f"[yellow]beware:[/] {escape(sentence)}", highlight=False, soft_wrap=True)


def _stream(
    run: Run,
    config: SampleConfig,
    folder: Path,
    provenance: dict[str, Any],
    draw_rows: Callable[[range], Samples],
    display: Display,
) -> None:
    """All rows as shards in a folder, those of this process."""
    if config.shard < 1:
        raise ValueError(f"--shard must be at least 1, got {config.shard}")
    if config.watch or config.json:
        raise ValueError("samples that go to a folder are neither watched nor printed; leave out --watch and --json")
    mine = ranks()
    begin(folder, {"provenance": provenance, "shard": config.shard}, mine)
    todo = missing(folder, config.num, config.shard, mine)
    with _noted(display), display.status("sampling"):
        for done, (path, rows) in enumerate(todo):
            display.update(f"process {mine.rank + 1} of {mine.count}: {path.name}", done / len(todo))
            write_shard(path, rows, config.batch, draw_rows, run)
    shards = counted(len(todo), "shard")
    display.console.print(f"process {mine.rank + 1} of {mine.count} wrote {shards} to {folder}", highlight=False)


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
    return f"{(kernel.__doc__ or '').splitlines()[0]}  [dim](needs {kernel.needs})[/]"


def list_samplers() -> None:
    """Print every sampler and corrector, and the processes they run under."""
    console = Console()
    for title, registry in (("samplers", PREDICTORS), ("correctors", CORRECTORS)):
        console.print(f"[bold]{title}[/]")
        for name in registry:
            console.print(f"  {name:17} {_in_a_line(registry, name)}", highlight=False)
    console.print(f"[dim]processes: {', '.join(PROCESSES)}[/]", highlight=False)
