"""What is measured of a trained network: one idea per file, each a function of the run alone."""

from evidence.measures.base import Measure
from evidence.measures.bigrams import Bigrams
from evidence.measures.bound import LikelihoodBound
from evidence.measures.curves import CURVES, Curve
from evidence.measures.drawing import Drawing
from evidence.measures.sensitivity import OwnToken
from evidence.measures.solving import Solving

_ALL: list[Measure] = [
    LikelihoodBound(),
    OwnToken(),
    Solving(),
    Bigrams(),
    Drawing(),
    *(Curve(f"curve: {name}", name) for name in CURVES),
]
MEASURES: dict[str, Measure] = {measure.name: measure for measure in _ALL}
"""All measures by name."""
