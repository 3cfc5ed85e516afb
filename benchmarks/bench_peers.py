"""`tokenloom bench peers`: samplers of diffusers, of transformers and ours, handed the same logits (`schedulers.py`).

    law    exact posteriors of a random p_0 over two positions of three tokens, once as the denoiser, once as the
           leave-one-out posterior: total variation of the draws to p_0
    cost   random logits: a step in units of `torch.logsumexp` of the same logits (`step_costs.py`)

`diffusers` and `transformers` come with the extra `diffusers`, and are imported where they are used.
"""

from collections.abc import Iterator
from itertools import product
from json import dumps
from pathlib import Path
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

import tokenloom as tl
from benchmarks.bench_correctors import distance, frequencies, random_table, seeded
from benchmarks.schedulers import DISCRETE_DDIM, KINDS, SAMPLERS, Build, Driven, Setting
from benchmarks.step_costs import CASES, GRID, SHAPES, cost
from tokenloom.support.extras import optional
from tokenloom.support.files import write_json

TOKENS, POSITIONS = 3, 2
CHANCE = 1000
"""Sets of exact draws that say how far from p_0 chance leads."""
HEURISTIC = (
    *(f"{DISCRETE_DDIM}, its corrector", "EntropyBoundScheduler", "BlockRefinementScheduler"),
    *("EntropyBoundSampler", "ancestral, informed", "entropy-bound"),
)
"""They sharpen by design, or by what they look at."""


def drawn(driven: Driven, model: tl.Oracle, rows: int, steps: int) -> Tensor:
    """Draw as a pipeline does: uniform tokens, steps, and a correction after every step but the last."""
    generator = seeded(1)
    tokens = torch.randint(TOKENS, (rows, model.length), generator=generator)

    def logits(index: int) -> Tensor:
        t = torch.full((rows,), (steps - index) / steps, dtype=torch.float64)
        return model.logits(tl.Noisy(tokens, t, model.process.alpha(t))).float()

    for index in range(steps):
        tokens = driven.step(logits(index), index, tokens, generator)
        if driven.correct is not None and index + 1 < steps:
            tokens = driven.correct(logits(index + 1), index, tokens, generator)
    return tokens


def distance_to_law(build: Build, predicts: str, rows: int, steps: int) -> float:
    """Return the total variation between draws and p_0, the network being exact."""
    p_0 = random_table(TOKENS, POSITIONS, 0)
    process = tl.Uniform(TOKENS, schedule=tl.LinearSchedule(eps=0.0))
    model = tl.Oracle(p_0, process, predicts=KINDS[predicts])
    setting = Setting(TOKENS, POSITIONS, steps, predicts)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return distance(frequencies(drawn(build(setting), model, rows, steps), TOKENS), p_0)


def chance(rows: int) -> dict[str, float]:
    """Return how far as many exact draws are from p_0: on average, and once in a hundred times."""
    p_0 = random_table(TOKENS, POSITIONS, 0).flatten()
    tokens = torch.multinomial(p_0.expand(CHANCE, -1), rows, replacement=True, generator=seeded(2))
    counts = torch.zeros(CHANCE, len(p_0), dtype=torch.float64).scatter_add_(
        1, tokens, torch.ones(1, 1, dtype=torch.float64).expand(tokens.shape)
    )
    distances = (counts / rows - p_0).abs().sum(1) / 2
    return {"mean": float(distances.mean()), "quantile": float(distances.quantile(0.99))}


def law(rows: int, steps: int) -> Iterator[dict[str, Any]]:
    """Yield a row for every sampler."""
    for package, samplers in SAMPLERS.items():
        for name, build in samplers.items():
            found = {kind: distance_to_law(build, kind, rows, steps) for kind in KINDS}
            yield {"package": package, "name": name, "heuristic": name in HEURISTIC, **found}


def main(rows: int = 20_000, steps: int = 64, rounds: int = 5, threads: int = 1, out: Path | None = None) -> None:
    """Compare with the samplers of diffusers and transformers: their law with exact posteriors, and what a step costs.

    Args:
        rows: Draws that a law is judged by.
        steps: Steps of these draws.
        rounds: Times that each cost is measured.
        threads: Threads of PyTorch.
        out: Write the result to this file, after every measurement, instead of printing it.
    """
    if min(rows, steps, rounds, threads) < 1:
        given = f"{rows}, {steps}, {rounds} and {threads}"
        raise ValueError(f"rows, steps, rounds and threads must be at least 1, got {given}")
    versions = {name: optional(name, "diffusers").__version__ for name in ("diffusers", "transformers")}
    torch.set_num_threads(threads)
    laws: list[dict[str, Any]] = []
    cases: list[dict[str, Any]] = []
    size = {"tokens": TOKENS, "positions": POSITIONS, "steps": steps, "draws": rows}
    record = {
        **versions,
        "torch": torch.__version__,
        "tokenloom": tl.__version__,
        "law": {**size, "chance": chance(rows), "rows": laws},
        "cost": {"threads": threads, "steps": GRID, "cases": cases},
    }
    every = list(product(CASES, SHAPES))
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("law", total=sum(map(len, SAMPLERS.values())) + rounds * len(every))

        def keep() -> None:
            if out is not None:
                write_json(out, record)
            progress.advance(task)

        for found in law(rows, steps):
            laws.append(found)
            keep()
        for (vocab, length), shape in every:
            progress.update(task, description=f"K = {vocab:,}, L = {length}, {shape}")
            cases.append({})
            for cases[-1] in cost(vocab, length, shape, rounds):
                keep()
    if out is None:
        print(dumps(record, indent=2))


if __name__ == "__main__":
    tyro.cli(main)
