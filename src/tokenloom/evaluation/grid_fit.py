r"""The levels between which n steps lose least, for one model on held-out data.

The bound of a chain of n steps is a sum over its steps,

    L_n = sum over t -> s of c(s, t),      c(s, t) = E KL( q(x_s | x_0, x_t) || p_theta(x_s | x_t) ),

so the best n of M levels are a shortest path, and dynamic programming finds those of every n at once.  A path over
costs that were measured takes their dips for gains.  So all levels of a row share their noise, the paths of `RESAMPLED`
bootstrap samples of the rows are averaged, and the result is kept only if it beats the default on other rows, by more
than `SURE` standard errors.  Where the bound is not tight (the maximal coupling), its best grid is not the best for
samples: measured on a chain, it drew worse ones than even the uniform grid.

Both laws of a step are mixtures of the same three branches (`couplings/steps.py`), so with w the noise

    KL = sum over y in {x_t, x_0} of q_y log(q_y / p_y)  +  q_noise E over y ~ w, not x_t or x_0, of log(q_y / p_y),

and a few draws of y stand for the vocabulary.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.couplings.steps import Branches, bridge
from tokenloom.drawing.chunks import chunks
from tokenloom.drawing.randomness import RowGenerators, row_seeds, uniform
from tokenloom.models.evaluating import evaluating
from tokenloom.models.protocol import Model
from tokenloom.posteriors import OverTokens, convert_at
from tokenloom.process import Process
from tokenloom.samplers.grids import COUNTS, default_grid, grid_times, times_of
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

LEVELS = 48
"""The levels that steps may end at, 0 not counted."""
BEND = 1.25
"""The power of their spacing: a little denser near t = 0."""
DRAWS = 8
"""Draws of the noise that stand for the vocabulary."""
RESAMPLED = 32
"""Bootstrap samples of the rows."""
NAMED = ("uniform", "power:1.5", "information")
"""The grids that a fitted one is shown beside; the default is one of them."""
SURE = 1.645
"""Standard errors by which chance alone is exceeded once in twenty times."""
ELEMENTS = 1 << 24
"""Logits at once."""

OnShare = Callable[[float], None]


@dataclass(frozen=True)
class Judged:
    """A number of steps, with the bounds of its grids on rows that none was fitted to."""

    steps: int
    bounds: dict[str, float]
    """Nats per token of each grid, `fitted` among them."""
    kept: str
    """`fitted`, if it is surely below the default, else the default."""
    gain: float
    """Nats per token by which the fitted grid is below the default."""
    error: float
    """The standard error of the gain, over rows."""
    levels: tuple[float, ...]
    """Its times as shares of the signal lost, from 1 to 0."""


def fit_grids(
    model: Model, x_0: Tokens, given: Flags | None, seed: int = 0, progress: OnShare | None = None
) -> list[Judged]:
    """Fit grids to the first half of the rows and judge them on the second."""
    half, process = len(x_0) // 2, model.process
    check_fits(process)
    if len(x_0) < 4:
        raise ValueError(f"a grid is fitted to at least 4 sequences, got {len(x_0)}")
    (fitted_to, marks), (judged_on, other) = (
        (x_0[part], None if given is None else given[part]) for part in (slice(half), slice(half, None))
    )
    levels = np.append(0, (np.arange(1, LEVELS + 1) / LEVELS) ** BEND)
    times = times_of(torch.from_numpy(levels), process)
    show, work = (lambda share: None) if progress is None else progress, LEVELS + sum(COUNTS) * (len(NAMED) + 1)
    table = np.full((len(fitted_to), LEVELS + 1, LEVELS + 1), np.inf)
    for index in range(1, LEVELS + 1):
        costs = step_costs(model, fitted_to, marks, float(times[index]), times[:index], seed)
        table[:, index, :index] = costs.numpy()
        show(index / work)
    paths = averaged_paths(table, levels, COUNTS, seed)
    found, done = [], LEVELS
    for steps, path in zip(COUNTS, paths, strict=True):
        grids = {name: grid_times(name, steps, process) for name in NAMED}
        grids["fitted"], rows = times_of(torch.from_numpy(path), process), {}
        for name, grid in grids.items():
            rows[name] = path_costs(model, judged_on, other, grid, seed)
            done += steps
            show(done / work)
        found.append(_judged(steps, rows, grids, process))
    return found


def check_fits(process: Process) -> None:
    """Raise unless steps that lower the bound of a process also draw better."""
    if not process.has_bridge:
        raise ValueError(f"{process.title} draws its tokens one after the other, so there are no times to choose")
    if not process.tight:
        raise ValueError(
            f"the bound of {process.title} is above the likelihood even of an exact model, so it does not say which "
            "steps draw best; compare grids by frontier --grids uniform power:1.5 power:2"
        )


def _judged(steps: int, rows: dict[str, Tensor], grids: dict[str, Tensor], process: Process) -> Judged:
    bounds, default = {name: float(costs.mean()) for name, costs in rows.items()}, default_grid(process)
    gains = rows[default] - rows["fitted"]
    gain, error = float(gains.mean()), float(gains.std() / len(gains) ** 0.5)
    kept = "fitted" if gain > SURE * error else default
    lost = process.schedule.lost(grids[kept])
    return Judged(steps, bounds, kept, gain, error, tuple((lost / lost[0]).tolist()))


def averaged_paths(
    table: Float[np.ndarray, "rows ends starts"], levels: np.ndarray, counts: Sequence[int], seed: int
) -> list[np.ndarray]:
    """Return the levels of the shortest path of each number of steps, averaged over bootstrap samples of the rows."""
    random, found = np.random.default_rng(seed), [np.zeros(count + 1) for count in counts]
    for _ in range(RESAMPLED):
        rows = random.integers(len(table), size=len(table))
        paths = shortest_paths(table[rows].mean(0), max(counts))
        for total, count in zip(found, counts, strict=True):
            total += levels[paths[count]] / RESAMPLED
    return found


def shortest_paths(costs: Float[np.ndarray, "ends starts"], most: int) -> dict[int, list[int]]:
    """Return the cheapest ways from the last level down to the first in 1, ..., `most` steps; +inf is no step."""
    size = len(costs)
    best, previous = np.full(size, np.inf), list[np.ndarray]()
    best[0] = 0.0
    found = {}
    for count in range(1, most + 1):
        through = costs + best[None, :]
        previous.append(through.argmin(1))
        best = through.min(1)
        path = [size - 1]
        for step in reversed(previous):
            path.append(int(step[path[-1]]))
        found[count] = path
    return found


def path_costs(model: Model, x_0: Tokens, given: Flags | None, times: Tensor, seed: int) -> PerRow:
    """Return the bound of a grid for each row, in nats per token."""
    steps = zip(times[:-1].tolist(), times[1:], strict=True)
    return torch.stack([step_costs(model, x_0, given, t, s[None], seed)[:, 0] for t, s in steps]).sum(0)


def step_costs(
    model: Model, x_0: Tokens, given: Flags | None, t: float, ends: Float[Tensor, "ends"], seed: int
) -> Float[Tensor, "batch ends"]:
    """Return the cost of a step from t to each end for each row, in nats per token, the same noise at every t."""
    process, found = model.process, []
    free = torch.full((len(x_0),), x_0.shape[1]) if given is None else (~given).sum(1).clamp(min=1)
    kind = process.step_representation(model.predicts)
    for rows in chunks(len(x_0), x_0.shape[1] * process.vocab_size, ELEMENTS):
        clean, marks = x_0[rows], None if given is None else given[rows]
        noise = RowGenerators(row_seeds(len(x_0), seed, "grid")[rows], clean.device)
        noisy = process.corrupted(clean, torch.full((len(clean),), t, dtype=torch.float64), noise, marks)
        with torch.no_grad(), evaluating(model):
            posterior = convert_at(model.interpret(model.logits(noisy).float(), noisy), kind, noisy, process)
        u = uniform((len(clean), DRAWS * clean.shape[1]), noise, clean.device).view(len(clean), DRAWS, -1).unbind(1)
        costs = [step_cost(process, noisy, s.expand(len(clean)), clean, posterior, u).sum(1) for s in ends]
        found.append(torch.stack(costs, 1) / free[rows, None])
    return torch.cat(found)


def step_cost(
    process: Process, noisy: Noisy, s: PerRow, x_0: Tokens, posterior: OverTokens, u: Iterable[PerPosition]
) -> PerPosition:
    """Return KL( q(x_s | x_0, x_t) || p(x_s | x_t) ), the vocabulary replaced by draws of the noise from `u`."""
    exact, model = bridge(process, noisy, s, x_0), bridge(process, noisy, s, posterior)
    total = torch.where(x_0 == noisy.tokens, 0, _term(exact, model, x_0)) + _term(exact, model, noisy.tokens)
    others = []
    for numbers in u:
        y = exact.noise.draw(numbers)
        ratio = mass(exact, y).log() - mass(model, y).log()
        others.append(torch.where((y == x_0) | (y == noisy.tokens), 0, ratio))
    fresh = exact.weights[..., 2]
    return total + torch.where(fresh > 0, fresh * torch.stack(others).mean(0), 0)


def _term(exact: Branches, model: Branches, y: Tokens) -> PerPosition:
    """Return q_y log(q_y / p_y)."""
    q, p = mass(exact, y), mass(model, y)
    return torch.where(q > 0, q * (q.clamp(min=1e-300).log() - p.clamp(min=1e-300).log()), 0)


def mass(law: Branches, y: Tokens) -> PerPosition:
    """Return the weight of one token per position."""
    stay, predicted, noise = law.weights.unbind(-1)
    end = law.prediction
    nu = (end == y).double() if isinstance(end, Tensor) else end.probability_of(y)
    return stay * (y == law.stay) + predicted * nu + noise * law.noise.probability_of(y)
