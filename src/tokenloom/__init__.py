"""Discrete diffusion with uniform and masked noise, built on exact posteriors."""

from tokenloom.categorical import draw
from tokenloom.markov_oracle import MarkovOracle
from tokenloom.oracle import Oracle
from tokenloom.posteriors import Denoiser, LeaveOneOut, Score, conditional_log_probs, convert
from tokenloom.processes import AbsorbingUniform, Interpolating, Masked, MaskedUniform, MaxCoupling, Process, Uniform
from tokenloom.schedules import CosineSchedule, GeometricSchedule, LinearSchedule, PolynomialSchedule, Schedule
from tokenloom.state import Noisy
from tokenloom.truncation import Truncation, truncate

__version__ = "0.1.0"

__all__ = [
    "AbsorbingUniform",
    "CosineSchedule",
    "Denoiser",
    "GeometricSchedule",
    "Interpolating",
    "LeaveOneOut",
    "LinearSchedule",
    "MarkovOracle",
    "Masked",
    "MaskedUniform",
    "MaxCoupling",
    "Noisy",
    "Oracle",
    "PolynomialSchedule",
    "Process",
    "Schedule",
    "Score",
    "Truncation",
    "Uniform",
    "conditional_log_probs",
    "convert",
    "draw",
    "truncate",
]
