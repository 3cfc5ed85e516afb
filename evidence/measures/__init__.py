"""What is measured of a trained network: one idea per file, each a function of the run alone."""

from evidence.measures.base import Measure
from evidence.measures.bound import LikelihoodBound
from evidence.measures.curves import BUDGETS, CURVES, Curve, curve_name
from evidence.measures.drawing import Drawing
from evidence.measures.neighbours import CORRECTED, GRIDS, REDRAWN, Neighbours
from evidence.measures.ngrams import NGrams
from evidence.measures.sensitivity import OwnToken
from evidence.measures.solving import Solving
from evidence.measures.throughout import Throughout

_ALL: list[Measure] = [
    LikelihoodBound(),
    *(LikelihoodBound(f"bound under {name}", name) for name in ("uniform", "masked", "absorbing")),
    Throughout(),
    NGrams(),
    OwnToken(),
    Solving(),
    Neighbours("neighbours: redrawn times", REDRAWN, (6, 48)),
    Neighbours("neighbours: correctors", CORRECTED, (32,)),
    Neighbours("neighbours: grids", GRIDS, (8, 16)),
    Drawing(),
    *(Curve(curve_name(curve, budget), curve, budget) for curve in CURVES for budget in BUDGETS),
]
MEASURES: dict[str, Measure] = {measure.name: measure for measure in _ALL}
"""All measures by name."""
