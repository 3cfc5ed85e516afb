"""`tokenloom probe`: how much a prediction still depends on the token it should not see."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from jaxtyping import Float
from rich.console import Console
from rich.table import Column, Table
from torch import Tensor

from tokenloom.cli.registry import COMMANDS
from tokenloom.data.base import decoder_of
from tokenloom.drawing.randomness import RowGenerators, starting_at
from tokenloom.evaluation.held_out import HeldOut, held_out
from tokenloom.evaluation.plots import band, canvas
from tokenloom.evaluation.probe import Along, Effort, Sensitivity, check_probed, posterior_maps, probe, probe_along
from tokenloom.models.opening import Run, Weights, open_runs
from tokenloom.samplers.options import SamplerOptions
from tokenloom.support.display import Display
from tokenloom.support.extras import optional
from tokenloom.support.files import check_writable, write_json, write_text

TIMES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SHOWN = (0.2, 0.5, 0.8)  # times of the heat maps
Results = Mapping[str, tuple[Sensitivity, ...]]


@COMMANDS.register("probe")
def probe_command(
    runs: tyro.conf.Positional[tuple[str, ...]],
    data: str | None = None,
    sequences: int = 64,
    times: tuple[float, ...] = TIMES,
    effort: Annotated[Effort, tyro.conf.arg(name="")] = Effort(),  # noqa: B008
    weights: Weights = "ema",
    seed: int = 0,
    out: Path | None = None,
    along_samples: bool = False,
    sampling: Annotated[SamplerOptions, tyro.conf.arg(name="")] = SamplerOptions(),  # noqa: B008
) -> None:
    """Compare runs by the leave-one-out probe: change a token, keep the rest, and watch its own prediction.

    Draws a figure (and, for digits, heat maps of the two posteriors) and writes the numbers beside it.

    Args:
        runs: Run folders, model folders or names of bundled models.
        data: Held-out data: a path, a Hub name or a kind such as markov; by default what each run held out.
        sequences: Held-out sequences.
        times: Times in (0, 1] at which sequences are noised and probed.
        weights: Averaged weights, or the raw ones of the newest checkpoint.
        seed: Seed of the noise and of the choice of positions and substitutes.
        out: Folder for figures and numbers; by default evaluation/ in the first run.
        along_samples: Also draw as many samples (those of `tokenloom sample` with this seed), probe the states that
            they pass through, at the steps nearest to the times, and keep them.
    """
    display, console = Display(), Console(markup=False)
    with display.status("loading"):
        opened = open_runs(runs, weights)
    for run in opened:
        check_probed(run.model)
        if along_samples:
            sampling.check_memory(run.model, sequences, sequences)
            sampling.sampler_value().steps(run.model, 0)  # a run of no sequence makes all its checks
    folder = opened[0].results if out is None else out
    check_writable(folder)
    optional("matplotlib", "evaluate")
    found: dict[str, tuple[Sensitivity, ...]] = {}
    with display.status("reading the data"):
        pairs = [(run, held_out(run, data)) for run in opened]
        names = {run.name: source.data.name for run, source in pairs}
        for number, (run, source) in enumerate(pairs):
            generator = starting_at(seed)  # for every run: equal processes see equal states
            show = display.part(f"probing {run.name} on {names[run.name]}", number, len(opened))
            show(0.0)
            x_0, given = source.draw(sequences, generator)
            found[run.name] = probe(run.model, x_0, times, effort, generator, given, show)
    settings = {"times": times, "sequences": sequences, "weights": weights, "seed": seed}
    record = {
        "settings": settings | asdict(effort),
        "compared_with": "the mean over substitutes",
        "data": names,
        "runs": {name: [asdict(item) for item in results] for name, results in found.items()},
    }
    written = [draw_probe(found, folder / "probe.png"), write_json(folder / "probe.json", record)]
    for run, source in pairs:
        written += _heat_maps(run, source, folder, seed)
    console.print(probe_table(found))
    if along_samples:
        along: dict[str, Along] = {}
        with display.status("sampling"):
            for number, run in enumerate(opened):
                show = display.part(f"sampling from {run.name}", number, len(opened))
                rows = RowGenerators.spawn(seed, sequences, run.model.device or "cpu")
                generator = starting_at(seed)
                sampler = sampling.sampler_value()
                along[run.name] = probe_along(run.model, sampler, rows, times, effort, generator, show)
        results = {name: item.results for name, item in along.items()}
        record |= {"settings": settings | asdict(effort) | {"sampler": sampling.sampler_value().record()}}
        record |= {"runs": {name: [asdict(item) for item in items] for name, items in results.items()}}
        both = {f"{name}, along samples": items for name, items in results.items()}
        both |= {f"{name}, noised data": items for name, items in found.items()}
        written.append(draw_probe(both, folder / "probe-along-samples.png"))
        written.append(write_json(folder / "probe-along-samples.json", record))
        written += [_keep(run, along[run.name], folder) for run in opened]
        console.print(probe_table(results, "along samples"))
    for line in (*(f"{run} on {name}" for run, name in names.items()), *written):
        console.print(str(line), style="dim", highlight=False, soft_wrap=True)


def _keep(run: Run, along: Along, folder: Path) -> Path:
    """Write the samples and the states that were probed, one JSON line per sample."""
    decoder, at = decoder_of(run.model), [result.t for result in along.results]
    lines = []
    for row, ids in enumerate(along.tokens.tolist()):
        states = [{"t": t, "tokens": state[row].tolist()} for t, state in zip(at, along.states, strict=True)]
        lines.append(json.dumps({"row": row, "sample": decoder.shown(ids), "tokens": ids, "states": states}))
    return write_text(folder / f"probe-samples-{run.name.replace('/', '-')}.jsonl", "\n".join([*lines, ""]))


def _heat_maps(run: Run, source: HeldOut, folder: Path, seed: int) -> list[Path]:
    """Draw heat maps of the first held-out image, where the process has both posteriors everywhere."""
    if decoder_of(run.model).side is None or run.model.process.reveals:
        return []
    generator = starting_at(seed)
    image = source.draw(1, generator)[0][0]
    maps = posterior_maps(run.model, image, SHOWN, generator)
    title = f"{run.name}: predicts {run.model.predicts.__name__}"
    return [draw_heat_maps(maps, SHOWN, folder / f"heat-maps-{run.name.replace('/', '-')}.png", title)]


def draw_probe(found: Results, path: Path) -> Path:
    """Draw both measures over time, one line per run, with bands of two standard errors."""
    with canvas(path, 1, 2, 9.0, 3.6) as (figure, axes):
        measures = {"total_variation": "total variation", "divergence": "divergence (nats)"}
        for axis, (measure, title) in zip(axes[0], measures.items(), strict=True):
            for number, (name, results) in enumerate(found.items()):
                keys = ("t", measure, f"{measure}_error")
                t, values, errors = ([getattr(result, key) for result in results] for key in keys)
                band(axis, t, values, errors, name, number)
            axis.set(title=title, xlabel="t", xlim=(0, 1), ylim=(0, None))
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(found)))
        figure.suptitle("Dependence of the leave-one-out prediction on its own token", x=0.01, ha="left")
    return path


def draw_heat_maps(maps: Float[Tensor, "4 times side side"], times: Sequence[float], path: Path, title: str) -> Path:
    """Draw one row per time; the columns are x_t, the two posteriors and the information in the own token."""
    columns = ("noisy", "leave-one-out", "denoiser", "added by its own token")
    most = float(maps[-1].abs().max())
    side = 1.75  # of one map, in inches
    with canvas(path, len(times), 4, 4 * side + 1.4, len(times) * side + 0.7) as (figure, axes):
        figure.suptitle(title, x=0.01, ha="left")
        for column, name in enumerate(columns):
            colours, low, high = ("RdBu_r", -most, most) if column == 3 else ("gray_r", 0, 1)
            for axis, values in zip(axes[:, column], maps[column].numpy(), strict=True):
                axis.set(xticks=[], yticks=[])
                axis.grid(visible=False)
                for spine in axis.spines.values():
                    spine.set(visible=True, color="#c9cdd2", linewidth=0.6)
                drawn = axis.imshow(values, cmap=colours, vmin=low, vmax=high, interpolation="nearest")
            axes[0, column].set_title(name)
            if column >= 2:
                label = "nats" if column == 3 else "mean grey level"
                figure.colorbar(drawn, ax=list(axes[:, column]), shrink=0.6, label=label)
        for axis, t in zip(axes[:, 0], times, strict=True):
            axis.set_ylabel(f"t = {t:g}")
    return path


def probe_table(found: Results, states: str = "noised data") -> Table:
    """Return a table of total variation, one column per run and one row per time."""
    title = f"Total variation to the mean over substitutes (0 = leave-one-out), {states}"
    runs = (Column(name, justify="right", overflow="fold") for name in found)
    table = Table(Column("t", justify="right"), *runs, title=title, title_justify="left")
    for at_time in zip(*found.values(), strict=True):
        cells = (f"{item.total_variation:.4f} ± {item.total_variation_error:.4f}" for item in at_time)
        table.add_row(f"{at_time[0].t:.4g}", *cells)
    return table
