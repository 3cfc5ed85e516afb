"""Grids of times at equal evaluations, with exact posteriors: where a budget is best spent, for every kind of process.

A Markov chain of 32 positions of 8 tokens, sampled by ancestral steps: nats per token of the samples above the entropy
of the chain, and total variation to the true law of three neighbours and of two tokens four positions apart.  `fitted`
is fitted to sequences of the chain, as `tokenloom fit-grid` does.  Under uniform noise, more sequences say whether the
default saves a quarter of the evaluations of the uniform grid.

python -m benchmarks.bench_grids --out benchmarks/results/grids.json
"""

from collections.abc import Callable
from pathlib import Path

import torch
import tyro
from rich.console import Console
from rich.progress import track
from torch import Tensor

import tokenloom as tl
from benchmarks.bench_correctors import distance, frequencies, seeded
from benchmarks.keeping import keep
from tokenloom.evaluation.grid_fit import fit_grids
from tokenloom.samplers.grids import interpolated, times_of

TOKENS, LENGTH, SHARPNESS = 8, 32, 1.8
BUDGETS = (4, 8, 16, 32)
GRIDS = ("uniform", "power:1.25", "power:1.5", "power:1.75", "power:2", "cosine", "information")

SAVED = ((8, 11), (16, 21), (32, 43))
"""Evaluations of the default grid, and of the uniform one: a third more, rounded."""
FITTED = 512
"""Sequences that `fitted` is fitted to and judged on."""


def unigrams() -> Tensor:
    """A table of noise, the same at every position."""
    return torch.softmax(torch.randn(TOKENS, generator=seeded(9), dtype=torch.float64), -1).repeat(LENGTH, 1)


PROCESSES: dict[str, Callable[[], tl.Process]] = {
    "Uniform": lambda: tl.Uniform(TOKENS),
    "Interpolating": lambda: tl.Interpolating(TOKENS, pi=unigrams()),
    "MaxCoupling": lambda: tl.MaxCoupling(TOKENS),
    "Hybrid": lambda: tl.Hybrid(TOKENS),
    "Masked": lambda: tl.Masked(TOKENS),
    "AbsorbingUniform": lambda: tl.AbsorbingUniform(TOKENS),
    "MaskedUniform": lambda: tl.MaskedUniform(TOKENS),
}


def chain() -> tuple[Tensor, Tensor]:
    """The stationary law of a random chain, and its transitions."""
    logits = torch.randn(TOKENS, TOKENS, generator=seeded(0), dtype=torch.float64)
    transition = torch.softmax(SHARPNESS * logits, -1)
    return torch.linalg.matrix_power(transition, 1024)[0], transition


def measured(tokens: Tensor) -> dict[str, float]:
    """How far sequences are from the chain."""
    stationary, transition = chain()
    windows = tokens.unfold(1, 3, 1).reshape(-1, 3)
    triples = stationary[:, None, None] * transition[:, :, None] * transition
    pairs = torch.stack([tokens[:, :-4].flatten(), tokens[:, 4:].flatten()], 1)
    apart = stationary[:, None] * torch.linalg.matrix_power(transition, 4)
    nats = -stationary[tokens[:, 0]].log() - transition[tokens[:, :-1], tokens[:, 1:]].log().sum(1)
    entropy = torch.special.entr(stationary).sum() + (LENGTH - 1) * (stationary @ torch.special.entr(transition).sum(1))
    return {
        "nats": float(nats.mean() - entropy) / LENGTH,
        "triples": distance(frequencies(windows, TOKENS), triples),
        "apart": distance(frequencies(pairs, TOKENS), apart),
    }


def fitted(model: tl.MarkovOracle) -> dict[int, Tensor]:
    """The times of every budget, fitted to `FITTED` sequences; none where the bound is not tight."""
    if not model.process.tight:
        return {}
    found = fit_grids(model, model.sample(FITTED, seeded(3)), None)
    stored = {str(each.steps): each.levels for each in found}
    return {steps: times_of(interpolated(stored, steps), model.process) for steps in BUDGETS}


def savings(rows: int) -> list[dict[str, object]]:
    """Uniform noise: the default grid, and the uniform one at as many evaluations and at a third more."""
    stationary, transition = chain()
    model, found = tl.MarkovOracle(stationary, transition, LENGTH, tl.Uniform(TOKENS)), []
    for few, many in SAVED:
        for grid, steps in (("auto", few), ("uniform", few), ("uniform", many)):
            tokens = [tl.sample(model, rows, steps=steps, grid=grid, generator=seeded(100 + part)) for part in range(8)]
            found.append({"grid": grid, "steps": steps, **measured(torch.cat(tokens))})
    return found


def main(rows: int = 8_000, out: Path | None = None) -> None:
    """Compare grids with exact posteriors.

    Args:
        rows: Sequences of each run.
        out: Write the result to this file instead of printing it.
    """
    stationary, transition = chain()
    runs: list[dict[str, object]] = []
    for name, make in track(PROCESSES.items(), "grids", console=Console(stderr=True)):
        model = tl.MarkovOracle(stationary, transition, LENGTH, make())
        times = fitted(model)
        for steps in BUDGETS:
            for grid in (*GRIDS, "fitted") if times else GRIDS:
                where = times[steps] if grid == "fitted" else grid
                tokens = tl.sample(model, rows, steps=steps, grid=where, generator=seeded(1))
                runs.append({"process": name, "steps": steps, "grid": grid, **measured(tokens)})
    exact = measured(tl.MarkovOracle(stationary, transition, LENGTH, tl.Uniform(TOKENS)).sample(rows, seeded(1)))
    record = {
        "rows": rows,
        "grids": [*GRIDS, "fitted"],
        "budgets": BUDGETS,
        "exact": exact,
        "runs": runs,
        "savings": savings(rows),
    }
    keep(record, out)


if __name__ == "__main__":
    tyro.cli(main)
