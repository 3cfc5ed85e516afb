"""Correctors with exact posteriors: how fast each comes to p_t, and what a run with it ends in.

    mixing   the law at a level of 0.9 from the product of its marginals, computed, not drawn: total variation to p_t;
             `balanced` in one call, whose last evaluation says that no jump follows: its evaluations are a mean, or,
             as `never more`, the most that any row may take, at the best of some running times
    table    runs on a random p_0 of three positions of three tokens: total variation to p_0
    chain    runs on a Markov chain of 32 positions of 8 tokens: total variation of neighbouring pairs to the true ones

python -m benchmarks.bench_correctors --out benchmarks/results/correctors.json
"""

import math
from pathlib import Path

import torch
import tyro
from rich.console import Console
from rich.progress import track
from torch import Tensor

import tokenloom as tl
from benchmarks.keeping import keep
from tokenloom.samplers.correctors.balanced import BALANCING

LEVEL = 0.9
SIZES = ((3, 4), (4, 3), (8, 3))
"""Tokens and positions of the enumerated tables."""
COUNTS = (1, 2, 4, 8)
ROOM = 8
"""Jumps beyond the mean after which a path of `balanced` returns; so few do that they do not show."""
TIMES = (0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
CAPPED = "balanced:g=max, never more"
TABLES = 5
"""Random tables that a figure is the mean of."""
ON_TABLE = (
    *("none", "random-scan", "random-scan:metropolised=true", "scan", "scan:metropolised=true"),
    *("balanced:g=max", "balanced:g=sqrt", "balanced:g=barker", "balanced:g=min"),
    *("balanced:g=max,parallel=true", "balanced:g=sqrt,parallel=true", "random-scan:parallel=2"),
    *("informed:by=margin", "informed:by=top", "informed:by=current", "informed:by=random"),
    *("informed:by=margin,temperature=1", "informed:by=top,temperature=1", "informed:by=current,temperature=1"),
    "forward-backward",
)
ON_CHAIN = (
    *("none", "random-scan", "random-scan:metropolised=true", "random-scan:parallel=4"),
    *("balanced:g=max", "balanced:g=max,parallel=true", "balanced:g=sqrt,parallel=true,time=4"),
    *("informed:by=margin", "informed:by=margin,temperature=1"),
)
BUDGETS = (16, 64)
STEPS = 64


def seeded(seed: int) -> torch.Generator:
    """A generator with this seed."""
    return torch.Generator().manual_seed(seed)


def random_table(tokens: int, positions: int, seed: int) -> Tensor:
    """A random law over sequences, [tokens] * positions."""
    logits = 1.5 * torch.randn(tokens**positions, generator=seeded(seed), dtype=torch.float64)
    return torch.softmax(logits, 0).view([tokens] * positions)


def distance(law: Tensor, other: Tensor) -> float:
    """Total variation."""
    return float((law.flatten() - other.flatten()).abs().sum() / 2)


# -------------------------------------------------------------------------------------------------------------- mixing


def noised(p_0: Tensor) -> Tensor:
    """p_t under uniform noise: each position keeps its token with the probability LEVEL."""
    for position in range(p_0.ndim):
        p_0 = LEVEL * p_0 + (1 - LEVEL) * p_0.mean(position, keepdim=True)
    return p_0


def conditionals(p_t: Tensor) -> Tensor:
    """p_t(y^l | x^{-l}) where y differs from x at most at position l, else 0: [positions, sequences, sequences]."""
    every = torch.cartesian_prod(*[torch.arange(size) for size in p_t.shape])
    found = []
    for position in range(p_t.ndim):
        others = [axis for axis in range(p_t.ndim) if axis != position]
        together = (every[:, None, others] == every[:, others]).all(-1)
        line = p_t.sum(position, keepdim=True).expand_as(p_t).flatten()
        found.append(torch.where(together, p_t.flatten() / line, 0))
    return torch.stack(found)


def completed(moves: Tensor) -> Tensor:
    """The kernel with these probabilities of moving, which else stays."""
    moves = moves - torch.diag(moves.diagonal())
    return moves + torch.diag(1 - moves.sum(1))


def laws(p_t: Tensor) -> dict[str, list[float]]:
    """The distance to p_t after so many evaluations, for every way to spend them."""
    each, target = conditionals(p_t), p_t.flatten()
    positions, own = len(each), each.diagonal(dim1=1, dim2=2)
    start = torch.ones(1, dtype=target.dtype)
    for position in range(positions):
        start = torch.kron(start, p_t.sum([axis for axis in range(positions) if axis != position]))
    leaving = torch.maximum(1 - own[:, :, None], 1 - own[:, None, :])
    rivals = (each - torch.diag_embed(own)).amax(-1)
    share = torch.softmax(rivals.log() - own.log(), 0)  # Gumbel noise on the margins, at a temperature of 1
    kernels = {
        "random-scan": each.mean(0),
        "random-scan:metropolised=true": completed((each / leaving).mean(0)),
        "informed:by=margin,temperature=1": (share[:, :, None] * each).sum(0),
    }
    found = {
        name: [distance(start @ torch.linalg.matrix_power(kernel, count), target) for count in COUNTS]
        for name, kernel in kernels.items()
    }
    one_apart = (each > 0).sum(0) == 1
    for name, g in BALANCING.items():
        rates = torch.where(one_apart, g(target / target[:, None]), 0)
        rates = rates / (target @ rates.sum(1))  # a unit of time has one jump on average
        enough = max(COUNTS) + ROOM
        found[f"balanced:g={name}"] = [distance(balanced(start, rates, n - 1.0, enough), target) for n in COUNTS]
        if name == "max":
            capped = [min(distance(balanced(start, rates, time, n - 1), target) for time in TIMES) for n in COUNTS]
            found[CAPPED] = capped
    return found


def balanced(start: Tensor, rates: Tensor, time: float, steps: int) -> Tensor:
    """The law after a call that runs for a time: of paths of up to so many jumps, and the start of all others.

    By uniformisation: at each event of a Poisson process of rate c a path jumps with the probability rates / c.
    """
    leaving = rates.sum(1)
    c = float(leaving.max())
    jump, stay = rates / c, 1 - leaving / c
    law, within = torch.zeros(2, steps + 1, len(rates), dtype=rates.dtype)
    law[0], within[:] = start, 1.0  # by the number of jumps so far; and whether at most so many jumps follow
    weight, ended, ending = math.exp(-c * time), torch.zeros_like(start), torch.zeros_like(start)
    for event in range(round(c * time + 12 * math.sqrt(c * time) + 30)):
        ended, ending = ended + weight * law.sum(0), ending + weight * within[-1]
        law = law * stay + torch.cat([torch.zeros_like(law[:1]), law[:-1] @ jump])
        within = within * stay + torch.cat([torch.zeros_like(within[:1]), within[:-1] @ jump.T])
        weight *= c * time / (event + 1)
    return ended + start * (1 - ending)


def mixing() -> list[dict[str, object]]:
    """A row for every kernel and size."""
    rows: list[dict[str, object]] = []
    for tokens, positions in SIZES:
        every = [laws(noised(random_table(tokens, positions, seed))) for seed in range(TABLES)]
        for name in every[0]:
            values = torch.tensor([found[name] for found in every]).mean(0)
            rows.append({"corrector": name, "tokens": tokens, "positions": positions, "distances": values.tolist()})
    return rows


# ---------------------------------------------------------------------------------------------------------------- runs


def drawn(model: tl.Oracle | tl.MarkovOracle, corrector: str, steps: int, rows: int) -> tl.Samples:
    """A run of ancestral steps beside a corrector."""
    sampler = tl.Sampler.parse("ancestral", corrector=corrector, steps=steps, grid="uniform")
    return sampler.run(model, rows, generator=seeded(1))


def frequencies(tokens: Tensor, states: int) -> Tensor:
    """The share of each sequence."""
    weights = states ** torch.arange(tokens.shape[1] - 1, -1, -1)
    return torch.bincount((tokens * weights).sum(1), minlength=states ** tokens.shape[1]).double() / len(tokens)


def row(name: str, steps: int, samples: tl.Samples, measured: dict[str, float]) -> dict[str, object]:
    """One run."""
    cost = float(samples.evaluations.double().mean())
    return {"corrector": name, "budget": steps, "evaluations": cost, **measured}


def on_table(rows: int) -> list[dict[str, object]]:
    """Runs on the table, and first as many exact draws, whose distance is chance."""
    p_0 = random_table(3, 3, 0)
    model = tl.Oracle(p_0, tl.Uniform(3))

    def measured(tokens: Tensor) -> dict[str, float]:
        return {"distance": distance(frequencies(tokens, 3), p_0)}

    exact = tl.Samples(model.sample(rows, seeded(1)), torch.zeros(rows, dtype=torch.int64))
    found = [row("exact draws", 0, exact, measured(exact.tokens))]
    for name in track(ON_TABLE, "table", console=Console(stderr=True)):
        samples = drawn(model, name, STEPS, rows)
        found.append(row(name, STEPS, samples, measured(samples.tokens)))
    return found


def on_chain(rows: int) -> tuple[float, list[dict[str, object]]]:
    """The entropy of the chain in nats per token given the one before, and runs on it, exact draws first."""
    transition = torch.softmax(1.8 * torch.randn(8, 8, generator=seeded(0), dtype=torch.float64), -1)
    stationary = torch.linalg.matrix_power(transition, 1024)[0]
    pairs = stationary[:, None] * transition
    model = tl.MarkovOracle(stationary, transition, 32, tl.Uniform(8))

    def measured(tokens: Tensor) -> dict[str, float]:
        neighbours = torch.stack([tokens[:, :-1].flatten(), tokens[:, 1:].flatten()], 1)
        nats = -transition.log()[neighbours[:, 0], neighbours[:, 1]].mean()
        return {"distance": distance(frequencies(neighbours, 8), pairs), "nats": float(nats)}

    exact = tl.Samples(model.sample(rows, seeded(1)), torch.zeros(rows, dtype=torch.int64))
    found = [row("exact draws", 0, exact, measured(exact.tokens))]
    for name in track(ON_CHAIN, "chain", console=Console(stderr=True)):
        for steps in BUDGETS:
            samples = drawn(model, name, steps, rows)
            found.append(row(name, steps, samples, measured(samples.tokens)))
    return float((pairs * -transition.log()).sum()), found


def main(table_rows: int = 20_000, chain_rows: int = 4_000, out: Path | None = None) -> None:
    """Compare correctors with exact posteriors.

    Args:
        table_rows: Draws of each run on the table.
        chain_rows: Draws of each run on the chain.
        out: Write the result to this file instead of printing it.
    """
    entropy, chain = on_chain(chain_rows)
    record = {
        "level": LEVEL,
        "counts": COUNTS,
        "tables": TABLES,
        "mixing": mixing(),
        "table": {"rows": table_rows, "runs": on_table(table_rows)},
        "chain": {"rows": chain_rows, "entropy": entropy, "runs": chain},
    }
    keep(record, out)


if __name__ == "__main__":
    tyro.cli(main)
