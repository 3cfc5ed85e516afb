"""Solve rates of Sudokus by sampler at equal evaluations, counted: the same puzzles for all, in groups."""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import torch

from evidence.groups import group_means
from evidence.measures.base import Measure, opened
from evidence.measures.budget import ROWS, spending
from evidence.runs import Place, Run
from evidence.settings import Setting
from tokenloom.samplers.options import SamplerOptions
from tokenloom.sudoku.data import SudokuSource
from tokenloom.sudoku.evaluate_task import solve_rate
from tokenloom.sudoku.puzzles import Puzzles, unique_puzzles

GIVENS = {4: (4, 8), 9: (29, 37)}
"""Fewest and most givens, by side: puzzles of the usual kind."""
SAMPLERS = {
    "udm-loo-ce": (
        "ancestral",
        "ancestral + balanced:parallel=true",
        "ancestral + random-scan",
        "ancestral + informed",
    ),
    "mdm": ("ancestral", "confidence", "remasking", "mudm:resample=true"),
    "audm": ("ancestral", "reaudm"),
}
"""The samplers of every arm."""
EVERY = ("ancestral", "reaudm")
"""Samplers that have every budget."""
BUDGETS = (16, 32, 64, 128)
"""The paper's budgets of evaluations."""
ONE = 64
"""The budget of the others."""
REPEATS = 2
"""Draws of every puzzle."""


@lru_cache(maxsize=1)
def _puzzles(count: int, side: int) -> Puzzles:
    return unique_puzzles(count, GIVENS[side], seed=0, side=side)


def _side(chosen: Setting) -> int:
    assert isinstance(chosen.source, SudokuSource)
    return chosen.source.side


@dataclass(frozen=True)
class Solving(Measure):
    """sampler -> budget -> rate; `mean` is over the budgets of the sampler."""

    name: str = "solving"

    def settings(self, run: Run, place: Place) -> dict[str, Any]:
        chosen = place.setting(run.setting)
        tried = {name: list(BUDGETS) if name in EVERY else [ONE] for name in SAMPLERS[run.arm]}
        givens, most = list(GIVENS[_side(chosen)]), place.budget(max(BUDGETS))
        return {"puzzles": chosen.scored, "repeats": REPEATS, "givens": givens, "samplers": tried, "most": most}

    def of(self, run: Run, place: Place) -> dict[str, Any]:
        chosen, model = place.setting(run.setting), opened(run, place).model
        puzzles = _puzzles(chosen.scored, _side(chosen))
        few = Puzzles(puzzles.side, puzzles.solutions[:ROWS], puzzles.given[:ROWS])
        found: dict[str, Any] = {}
        for name, budgets in self.settings(run, place)["samplers"].items():
            sampler, _, corrector = name.partition(" + ")
            rates: dict[str, dict[str, Any]] = {}
            for budget in budgets:
                options = SamplerOptions(1, sampler, corrector or "none", grid="uniform")
                options = spending(
                    options, place.budget(budget), lambda item: solve_rate("", model, few, item).evaluations
                )
                rate = solve_rate(run.name, model, puzzles, options, REPEATS, seed=run.seed)
                kept = ("solve_rate", "low", "high", "cell_accuracy", "steps", "evaluations", "by_difficulty")
                figures = {key: asdict(rate)[key] for key in kept}
                rates[str(budget)] = figures | {"solve_rate_groups": group_means(torch.tensor(rate.by_puzzle))}
            groups = torch.tensor([item["solve_rate_groups"] for item in rates.values()]).mean(0).tolist()
            mean = sum(item["solve_rate"] for item in rates.values()) / len(rates)
            found[name] = rates | {"mean": mean, "mean_groups": groups}
        return found
