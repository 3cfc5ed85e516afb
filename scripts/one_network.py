"""One network for every noise against a dedicated one for each: bounds side by side, at equal steps and size.

    python scripts/one_network.py markov text8 [--out runs/one-network] [--text8 text8.txt.gz]

Every run of a data set has the same network, batch, data order and optimiser, and predicts the leave-one-out posterior;
`any` is trained once with as many steps as each dedicated network and once with twice as many.  Dedicated networks are
trained with their own bounds and, for a second comparison, with the loss of the one network.  Bounds are measured on
the same held-out rows with the same noise.  Runs that are finished are not repeated.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import torch

from tokenloom import load, nelbo
from tokenloom.data.base import Source, take
from tokenloom.data.markov import MarkovSource
from tokenloom.data.text import TextSource
from tokenloom.models.store import under
from tokenloom.nn.transformer import TransformerOptions
from tokenloom.support.files import write_json
from tokenloom.training.build import resolve
from tokenloom.training.config import OptimiserConfig, RunConfig, TrainConfig
from tokenloom.training.loop import train
from tokenloom.training.reporting import Reporter

PROCESSES = {"udm": "uniform", "mdm": "masked", "audm": "absorbing", "hybrid": "hybrid"}
"""The dedicated methods, each with its process."""
SEEDS = (1, 2, 3)
SAME = "ce:weight=0.5"
"""The objective of the one network."""


@dataclass(frozen=True)
class Setting:
    """A data set with what suits it."""

    source: Source
    network: TransformerOptions
    steps: int
    batch: int
    rows: int
    """Held-out rows that are scored."""


def setting(name: str, text8: Path) -> Setting:
    """The settings of a data set."""
    if name == "markov":
        network = TransformerOptions(width=48, depth=2, heads=4, condition=64)
        return Setting(MarkovSource(), network, steps=1000, batch=48, rows=1024)
    network = TransformerOptions(width=64, depth=3, heads=4, condition=64)
    return Setting(TextSource(path=str(text8), length=48), network, steps=1000, batch=32, rows=1024)


def config_of(
    chosen: Setting, method: str, seed: int, steps: int, out: Path, objective: str | None = None
) -> TrainConfig:
    """A run, with the method's own objective unless another is named."""
    return resolve(
        TrainConfig(
            method=method,
            predicts="loo",
            objective=objective,
            data=chosen.source,
            network=chosen.network,
            optimiser=OptimiserConfig(lr=2e-3, warmup=50, decay="linear", batch=chosen.batch, ema=0.99),
            run=RunConfig(seed=seed, valid_rows=64, validate_every=10**6, checkpoint_every=500),
            max_steps=steps,
            out=str(out),
        )
    )


def runs(chosen: Setting, out: Path) -> Iterator[tuple[str, int, TrainConfig]]:
    """Every run with its label and seed, those of a seed together."""
    for seed in SEEDS:
        for method in (*PROCESSES, "any"):
            yield method, seed, config_of(chosen, method, seed, chosen.steps, out / f"{method}-{seed}")
        for method in PROCESSES:
            same = config_of(chosen, method, seed, chosen.steps, out / f"{method}-same-{seed}", SAME)
            yield f"{method}, same loss", seed, same
        twice = config_of(chosen, "any", seed, 2 * chosen.steps, out / f"any-twice-{seed}")
        yield "any, twice the steps", seed, twice


def bounds(folder: Path, chosen: Setting) -> dict[str, list[float]]:
    """Nats per token and their error under every process that the model serves."""
    model, data = load(folder), chosen.source.load()
    x_0 = take(data.valid, torch.arange(min(chosen.rows, len(data.valid))))
    served = PROCESSES.values() if model.reads_evidence else [model.process.name]
    found = {}
    for name in served:
        figure = nelbo(under(model, name), x_0, samples=2, generator=torch.Generator().manual_seed(0))
        found[name] = [figure.per_token, figure.per_token_error]
    return found


def measure(name: str, chosen: Setting, out: Path) -> dict[str, dict[str, dict[str, list[float]]]]:
    """label -> seed -> process -> figure, written after every run."""
    path, found = out / "bounds.json", {}
    if path.is_file():
        found = json.loads(path.read_text(encoding="utf-8"))
    for label, seed, config in runs(chosen, out):
        if str(seed) in found.get(label, {}):
            continue
        folder = Path(config.out or "")
        result = train(config, (folder / "config.json").is_file(), Reporter(quiet=True))
        if result is not None and result.stopped_by is not None:
            raise SystemExit(128 + result.stopped_by)
        found.setdefault(label, {})[str(seed)] = bounds(folder, chosen)
        write_json(path, found)
        print(name, label, seed, found[label][str(seed)], flush=True)
    return found


def table(found: dict[str, dict[str, dict[str, list[float]]]]) -> str:
    """Markdown: every bound, and its standard error over seeds."""
    lines = ["| process | dedicated | with the same loss | one network | twice the steps |", "|---|---|---|---|---|"]
    for method, process in PROCESSES.items():
        cells = []
        for label in (method, f"{method}, same loss", "any", "any, twice the steps"):
            figures = [found[label][str(seed)][process][0] for seed in SEEDS if str(seed) in found.get(label, {})]
            spread = stdev(figures) / len(figures) ** 0.5 if len(figures) > 1 else float("nan")
            cells.append(f"{mean(figures):.4f} ± {spread:.4f}" if figures else "-")
        lines.append(f"| {process} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is asked for and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", choices=("markov", "text8"))
    parser.add_argument("--out", type=Path, default=Path("runs/one-network"))
    parser.add_argument("--text8", type=Path, default=Path("text8.txt.gz"), help="a file of text8 characters")
    arguments = parser.parse_args()
    for name in arguments.data:
        found = measure(name, setting(name, arguments.text8), arguments.out / name)
        print(f"{name}\n{table(found)}", flush=True)


if __name__ == "__main__":
    main()
