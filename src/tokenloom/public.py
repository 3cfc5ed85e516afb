"""The public names of `tokenloom`, imported when the first of them is used."""

from tokenloom import couplings, nn, noise, objectives, samplers
from tokenloom.cells import (
    AbsorbingUniform,
    Hybrid,
    Interpolating,
    LeftToRight,
    Masked,
    MaskedUniform,
    MaxCoupling,
    Uniform,
)
from tokenloom.drawing.categorical import draw
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.drawing.truncation import Truncation, truncate
from tokenloom.models import DiffusionModel, Model
from tokenloom.models.opening import load
from tokenloom.objectives.head_loss import Loss, training_loss
from tokenloom.objectives.likelihood import Likelihood, nelbo
from tokenloom.oracles import MarkovOracle, Oracle
from tokenloom.posteriors import Denoiser, LeaveOneOut, Score, conditional_log_probs, convert
from tokenloom.process import Process
from tokenloom.samplers import Sampler, Samples, Step, sample
from tokenloom.schedules import CosineSchedule, GeometricSchedule, LinearSchedule, PolynomialSchedule, Schedule
from tokenloom.state import Noisy
from tokenloom.support.about import About

__all__ = [
    "About",
    "AbsorbingUniform",
    "CosineSchedule",
    "Denoiser",
    "DiffusionModel",
    "GeometricSchedule",
    "Hybrid",
    "Interpolating",
    "LeaveOneOut",
    "LeftToRight",
    "Likelihood",
    "LinearSchedule",
    "Loss",
    "MarkovOracle",
    "Masked",
    "MaskedUniform",
    "MaxCoupling",
    "Model",
    "Noisy",
    "Oracle",
    "PolynomialSchedule",
    "Process",
    "RowGenerators",
    "Sampler",
    "Samples",
    "Schedule",
    "Score",
    "Step",
    "Truncation",
    "Uniform",
    "conditional_log_probs",
    "convert",
    "couplings",
    "draw",
    "load",
    "nelbo",
    "nn",
    "noise",
    "objectives",
    "sample",
    "samplers",
    "training_loss",
    "truncate",
]
