"""Discrete diffusion with uniform and masked noise, built on exact posteriors."""

from tokenloom import nn, objectives, samplers
from tokenloom.categorical import draw
from tokenloom.evaluation.likelihood import Likelihood, nelbo
from tokenloom.markov_oracle import MarkovOracle
from tokenloom.model import DiffusionModel
from tokenloom.objectives.head_loss import Loss, training_loss
from tokenloom.oracle import Oracle
from tokenloom.posteriors import Denoiser, LeaveOneOut, Score, conditional_log_probs, convert
from tokenloom.processes import AbsorbingUniform, Interpolating, Masked, MaskedUniform, MaxCoupling, Process, Uniform
from tokenloom.randomness import RowGenerators
from tokenloom.samplers import Samples, Step, run_sampler, sample
from tokenloom.schedules import CosineSchedule, GeometricSchedule, LinearSchedule, PolynomialSchedule, Schedule
from tokenloom.state import Noisy
from tokenloom.store import load_model as load
from tokenloom.truncation import Truncation, truncate

__version__ = "0.1.0"

__all__ = [
    "AbsorbingUniform",
    "CosineSchedule",
    "Denoiser",
    "DiffusionModel",
    "GeometricSchedule",
    "Interpolating",
    "LeaveOneOut",
    "Likelihood",
    "LinearSchedule",
    "Loss",
    "MarkovOracle",
    "Masked",
    "MaskedUniform",
    "MaxCoupling",
    "Noisy",
    "Oracle",
    "PolynomialSchedule",
    "Process",
    "RowGenerators",
    "Samples",
    "Schedule",
    "Score",
    "Step",
    "Truncation",
    "Uniform",
    "conditional_log_probs",
    "convert",
    "draw",
    "load",
    "nelbo",
    "nn",
    "objectives",
    "run_sampler",
    "sample",
    "samplers",
    "training_loss",
    "truncate",
]
