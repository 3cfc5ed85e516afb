"""Laws of a lost token: the first axis of a process."""

from tokenloom.noise.base import NOISES as NOISES
from tokenloom.noise.base import Noise as Noise
from tokenloom.noise.hybrid import MaskAndUniform as MaskAndUniform
from tokenloom.noise.law import Law as Law
from tokenloom.noise.law import PointLaw as PointLaw
from tokenloom.noise.law import TableLaw as TableLaw
from tokenloom.noise.law import UniformLaw as UniformLaw
from tokenloom.noise.mask import Mask as Mask
from tokenloom.noise.table import Table as Table
from tokenloom.noise.table import unigrams as unigrams
from tokenloom.noise.uniform import Uniform as Uniform
