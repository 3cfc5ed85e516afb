"""What a lost token looks like: the first axis of a process, a law per file."""

from tokenloom.noise.base import NOISES, Noise
from tokenloom.noise.hybrid import MaskAndUniform
from tokenloom.noise.law import Law, PointLaw, TableLaw, UniformLaw
from tokenloom.noise.mask import Mask
from tokenloom.noise.table import Table, unigrams
from tokenloom.noise.uniform import Uniform

__all__ = [
    "NOISES",
    "Law",
    "Mask",
    "MaskAndUniform",
    "Noise",
    "PointLaw",
    "Table",
    "TableLaw",
    "Uniform",
    "UniformLaw",
    "unigrams",
]
