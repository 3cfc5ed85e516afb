"""Uniform noise: a lost token is any token, equally likely (UDM)."""

from dataclasses import dataclass

from tokenloom.noise.base import NOISES, Noise
from tokenloom.noise.law import Law, UniformLaw


@NOISES.register("uniform")
@dataclass(frozen=True)
class Uniform(Noise):
    """w = 1/K."""

    def law(self) -> Law:
        return UniformLaw(self.vocab_size)
