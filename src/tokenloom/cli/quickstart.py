"""`tokenloom quickstart`: two reverse chains driven by an exact network, and the law of what they draw."""

import math

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Generator, Tensor

from tokenloom.oracle import Oracle
from tokenloom.posteriors import Denoiser, LeaveOneOut
from tokenloom.processes import Masked, Uniform
from tokenloom.types import Tokens

WORDS = ("loom", "warp", "weft")
LENGTH = 2


def quickstart(samples: int = 20_000, steps: int = 64, seed: int = 0) -> None:
    """Draw from an oracle with two processes and print the empirical against the exact law.

    Args:
        samples: How many sequences to draw with each process.
        steps: How many reverse steps to take. Positions jump independently within a step, so few steps are biased.
        seed: Seed of every random number.
    """
    for name, value in (("samples", samples), ("steps", steps)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    p0 = example_distribution()
    vocab_size = len(WORDS)
    models = {
        "uniform, leave-one-out": Oracle(p0, Uniform(vocab_size), predicts=LeaveOneOut),
        "masked, denoiser": Oracle(p0, Masked(vocab_size), predicts=Denoiser),
    }
    drawn = {}
    for title, model in models.items():
        generator = torch.Generator().manual_seed(seed)
        drawn[title] = frequencies(reverse_chain(model, samples, steps, generator, title))
    console = Console()
    console.print(comparison(p0, drawn, samples, steps))
    console.print(
        "Next: the same with [bold]--steps 2[/] shows the bias of few steps; README.md has this chain in Python."
    )


def reverse_chain(model: Oracle, samples: int, steps: int, generator: Generator, title: str) -> Tokens:
    """From the prior at t = 1 down to t = 0, one network call a step."""
    process = model.process
    state = process.prior(samples, model.length, generator)
    grid = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    for s in track(grid[1:], title, transient=True):
        time = s.expand(samples)
        step = process.bridge(state, time, model.predict(state))
        state = process.arrive(state, step.draw(generator), time)
    return state.tokens


def example_distribution() -> Tensor:
    """Two words that depend on each other."""
    table = torch.tensor([[1, 6, 3], [6, 1, 8], [2, 9, 1]], dtype=torch.float64)
    return table / table.sum()


def frequencies(tokens: Tokens) -> Tensor:
    """How often each pair of words was drawn."""
    index = tokens[:, 0] * len(WORDS) + tokens[:, 1]
    return torch.bincount(index, minlength=len(WORDS) ** LENGTH).view(len(WORDS), len(WORDS)) / len(tokens)


def comparison(p0: Tensor, drawn: dict[str, Tensor], samples: int, steps: int) -> Table:
    """The exact law beside the empirical ones."""
    table = Table(title=f"{samples:,} draws, {steps} steps: frequency ± standard error", title_justify="left")
    table.add_column("sequence")
    table.add_column("exact", justify="right")
    for title in drawn:
        table.add_column(title, justify="right")
    for first, row in enumerate(p0.tolist()):
        for second, exact in enumerate(row):
            error = math.sqrt(exact * (1 - exact) / samples)
            cells = [f"{frequency[first, second]:.4f} ± {error:.4f}" for frequency in drawn.values()]
            table.add_row(f"{WORDS[first]} {WORDS[second]}", f"{exact:.4f}", *cells)
    table.add_section()
    distances = [f"{0.5 * (frequency - p0).abs().sum():.4f}" for frequency in drawn.values()]
    table.add_row("total variation", "", *distances)
    return table
