"""Solve rates of Sudokus by sampler and budget: the same puzzles for all, one try each."""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from evidence.measures.base import Measure, opened
from evidence.runs import Place, Run
from evidence.settings import Setting
from tokenloom.samplers.options import SamplerOptions
from tokenloom.sudoku.data import SudokuSource
from tokenloom.sudoku.evaluate_task import solve_rate
from tokenloom.sudoku.puzzles import Puzzles, unique_puzzles

GIVENS = {4: (4, 8), 9: (22, 29)}
MAIN = {"udm-loo-ce": ("ancestral",), "mdm": ("ancestral",), "audm": ("ancestral", "reaudm")}
"""Samplers that are tried with every budget."""
MORE = {"mdm": ("confidence", "remasking", "mudm:resample=true")}
"""Samplers that are tried with the last budget."""


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
        budgets = list(chosen.evaluations)
        tried = dict.fromkeys(MAIN[run.arm], budgets) | dict.fromkeys(MORE.get(run.arm, ()), budgets[-1:])
        givens = list(GIVENS[_side(chosen)])
        return {"puzzles": chosen.scored, "givens": givens, "samplers": tried}

    def of(self, run: Run, place: Place) -> dict[str, Any]:
        chosen, model = place.setting(run.setting), opened(run, place).model
        puzzles = _puzzles(chosen.scored, _side(chosen))
        found: dict[str, Any] = {}
        for sampler, budgets in self.settings(run, place)["samplers"].items():
            rates = {}
            for steps in budgets:
                rate = solve_rate(
                    run.name, model, puzzles, SamplerOptions(steps, sampler, grid="uniform"), seed=run.seed
                )
                kept = ("solve_rate", "low", "high", "cell_accuracy", "evaluations", "by_difficulty")
                rates[str(steps)] = {name: asdict(rate)[name] for name in kept}
            found[sampler] = rates | {"mean": sum(item["solve_rate"] for item in rates.values()) / len(rates)}
        return found
