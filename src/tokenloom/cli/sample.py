"""`tokenloom sample`: draw from a model with any sampler; text, grids or pictures, on screen or in a file."""

import json as json_library
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from tokenloom.cells import PROCESSES
from tokenloom.cli.given import read_given
from tokenloom.cli.ranks import ranks
from tokenloom.cli.registry import COMMANDS
from tokenloom.cli.sample_files import Draw, Drawn, check_out, write_samples, write_shards
from tokenloom.data.base import decoder_of
from tokenloom.data.decoder import Decoder, frame
from tokenloom.drawing.randomness import derive_seed
from tokenloom.models.model import DiffusionModel
from tokenloom.models.opening import named, open_run, placed
from tokenloom.models.threads import fit_threads
from tokenloom.samplers import CORRECTORS, PREDICTORS, STOPS, Autoregressive, Sampler, Step
from tokenloom.samplers.fill import draw_each
from tokenloom.samplers.options import SamplerOptions
from tokenloom.samplers.run import OnStep
from tokenloom.support.checks import check_least
from tokenloom.support.display import Display
from tokenloom.support.registry import Registry
from tokenloom.support.words import counted


@dataclass(frozen=True)
class SampleConfig:
    """Sequences to draw, and how."""

    run: tyro.conf.Positional[str]
    """A run folder, a model folder or the name of a bundled model."""
    num: int = 16
    """Sequences to draw."""
    process: str | None = None
    """Draw under another process, such as masked or hybrid:p_uniform=0.2; for models trained with --method any."""
    sampling: Annotated[SamplerOptions, tyro.conf.arg(name="")] = field(default_factory=SamplerOptions)
    corrector_steps: int | None = None
    """Corrector steps after each sampler step, of the informed corrector unless --corrector names another."""
    until: str | None = None
    """Stop a sequence early by this rule, as in stable:confidence=0.005; it is then no longer a draw from the model."""
    prompt: tuple[str, ...] = ()
    """Text that sequences begin with; of several, each sequence takes the next in turn."""
    infill: tuple[str, ...] = ()
    """A sequence with blanks to fill: _ in text, one per token, . or 0 in a grid; several take turns."""
    length: int | None = None
    """Tokens per sequence; by default as trained, and with --infill as long as the text."""
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

    def __post_init__(self) -> None:
        check_least(self, num=1, batch=1, shard=1)

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

    @property
    def in_shards(self) -> bool:
        """True if --out names a folder: it is one, or has no ending."""
        found = self.out is not None and (self.out.is_dir() or not self.out.suffix)
        if found and (self.watch or self.json):
            raise ValueError("samples in a folder are neither watched nor printed; leave out --watch and --json")
        return found


@COMMANDS.register("sample")
def sample(config: Annotated[SampleConfig, tyro.conf.arg(name="")]) -> None:
    """Draw sequences from a trained model."""
    if "list" in (config.sampling.sampler, config.sampling.corrector, config.until):
        list_samplers()
        return
    until = None if config.until is None else STOPS.parse(config.until)
    display = Display()
    with display.noting(), display.status("loading the model"):
        run = placed(open_run(named(config.run, config.process)), config.compile)
    given = read_given(run.model, config.prompt, config.infill, config.length)
    length = max(given, key=lambda one: one[1] or 0)[1]
    settings, decoder, in_shards = config.settings, decoder_of(run.model), config.in_shards
    at_once = min(config.num, config.shard) if in_shards else config.num
    settings.check_memory(run.model, at_once, config.batch, length)
    with display.status("choosing the number of threads"):
        fit_threads(run.model, min(config.num, config.batch), length)
    sampler = ending(settings.sampler_value(), run.model)
    shown = ("watch", "json", "out", "shard", "sampling")  # change no row, or are among the settings
    options = {key: value for key, value in asdict(config).items() if key not in shown}
    options |= {"prompt": list(config.prompt), "infill": list(config.infill)}  # as JSON gives them back
    provenance = run.provenance() | {"options": options | asdict(settings)}

    def draw(rows: range, on_step: OnStep | None = None) -> Drawn:
        """Draw some rows, each with random numbers of its own; return their tokens and evaluations."""
        cells, lengths = zip(*(given[row % len(given)] for row in rows), strict=True)
        seeds = [derive_seed(config.seed, "row", row) for row in rows]
        return draw_each(sampler, run.model, cells, lengths, seeds, on_step, until)

    if config.out is not None and in_shards:
        about = {"provenance": provenance, "shard": config.shard}
        with display.noting():
            write_shards(config.out, about, config.num, config.batch, draw, decoder)
        return
    if ranks().count > 1:
        raise ValueError("several processes write their samples to a folder; name one with --out samples/")
    if config.out is not None:
        check_out(config.out, decoder, length)
    first, own = given[0]
    flags = [cell is not None for cell in first] + [False] * ((own or 0) - len(first))
    record = _draw_all(config, draw, display, decoder, flags) | {"provenance": provenance}
    if config.out is not None:
        write_samples(config.out, record, run.model.process.vocab_size)
    if config.json:
        print(json_library.dumps(record))
    else:
        _print_samples(record, decoder)


def ending(sampler: Sampler, model: DiffusionModel) -> Sampler:
    """Return the sampler that stops a row of a causal model at the end of a document, behind which nothing is shown."""
    chosen = sampler.for_model(model)
    if chosen.predictor != Autoregressive() or model.tokenizer is None:
        return chosen
    return replace(chosen, predictor=Autoregressive(model.tokenizer.end_of_sequence))


def _draw_all(
    config: SampleConfig, draw: Draw, display: Display, decoder: Decoder, flags: list[bool]
) -> dict[str, Any]:
    """Draw all rows, batch by batch, and return their record."""
    drawn, start = Drawn(), time.perf_counter()
    with display.noting(), nullcontext() if config.watch else display.status("sampling"):
        for first in range(0, config.num, config.batch):
            rows = range(config.num)[first : first + config.batch]
            share = partial(_show_share, display, config.num, rows)
            watched = config.watch and first == 0
            with watching(decoder, flags) if watched else nullcontext(share) as on_step:
                drawn += draw(rows, on_step)
    tokens, costs = map(list, zip(*drawn, strict=True))
    record = {
        "samples": [decoder.shown(row) for row in tokens],
        "tokens": tokens,
        "evaluations": sum(costs) / len(costs),
    }
    return record | {"seconds_per_sample": round((time.perf_counter() - start) / config.num, 4)}


def _print_samples(record: dict[str, Any], decoder: Decoder) -> None:
    console = Console()
    for index, row in enumerate(record["tokens"]):
        console.print(f"[dim]── {index}[/]", highlight=False)
        console.print(decoder.coloured(decoder.until_end(row)), soft_wrap=True)
    each = f"{record['evaluations']:.1f} evaluations each, {record['seconds_per_sample']:.2f} s each"
    console.print(f"[dim]{counted(len(record['tokens']), 'sequence')}, {each}[/]", highlight=False)


def _show_share(display: Display, num: int, rows: range, step: Step) -> None:
    done = (rows.start + len(rows) * step.index / step.count) / num
    display.update(f"sampling {counted(num, 'sequence')}: step {step.index} of {step.count}", done)


@contextmanager
def watching(decoder: Decoder, flags: list[bool]) -> Iterator[Callable[[Step], None]]:
    """Yield a callback that shows the first sequence of every step in a live view, with `flags` of given tokens."""
    with Live(console=Console(), refresh_per_second=20) as live:

        def show(step: Step) -> None:
            changed = step.changed[0]
            title = f"step {step.index}/{step.count}   t = {float(step.after.t[0]):.3f}   {int(changed.sum())} changed"
            live.update(frame(title, decoder.coloured(step.after.tokens[0].tolist(), changed.tolist(), flags)))

        yield show


def list_samplers() -> None:
    """Print every sampler and corrector, the processes they run under, and the rules to stop by."""
    console = Console()
    registries: dict[str, Registry[Any]] = {"samplers": PREDICTORS, "correctors": CORRECTORS, "stop rules": STOPS}
    for title, registry in registries.items():
        table = Table.grid("", "", padding=(0, 2), pad_edge=True)
        for name in registry:
            try:
                kernel = registry[name]
                needs = f" [dim](needs {kernel.needs})[/]" if registry is not STOPS else ""
                line = (kernel.__doc__ or "").splitlines()[0] + needs
            except ValueError as error:  # of another package, which cannot be imported
                line = f"[red]{escape(str(error))}[/]"
            table.add_row(name, line)
        console.print(f"[bold]{title}[/]", table, sep="\n")
    console.print(f"[dim]processes: {', '.join(PROCESSES)}[/]", highlight=False)
