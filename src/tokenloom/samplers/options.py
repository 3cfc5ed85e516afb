"""The settings of a sampler as plain values, as they stand on a command line and in a record."""

from dataclasses import dataclass, fields
from typing import Literal

from tokenloom.drawing.truncation import Sharpening
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens
from tokenloom.samplers.grids import GridName
from tokenloom.samplers.sampler import Sampler

ON: dict[str, type[OverTokens]] = {"loo": LeaveOneOut, "denoiser": Denoiser}


@dataclass(frozen=True)
class Kernels:
    """The kernels of a sampler, and their budget."""

    steps: int = int(Sampler.steps)
    """Network evaluations per sequence, the corrector's included."""
    sampler: str = "ancestral"
    """A sampler with options, as in psi:kappa=0.9; `tokenloom sample x --sampler list` names them all."""
    corrector: str = "none"
    """A corrector with options, as in informed:steps=2,parallel=4; `none` is without."""

    @property
    def kernels(self) -> str:
        """Predictor and corrector as `Sampler.parse` reads them."""
        return self.sampler + ("" if self.corrector == "none" else f" + {self.corrector}")


@dataclass(frozen=True)
class SamplerOptions(Sharpening, Kernels):
    """The options of a sampler."""

    on: Literal["loo", "denoiser"] = "loo"
    """The posterior that temperature, top-p and top-k act on."""
    grid: GridName = "uniform"
    """The spacing of the times: uniform, or cosine, which is denser near t = 0."""

    def sampler_value(self) -> Sampler:
        """Build the sampler that these settings stand for."""
        settings = {item.name: getattr(self, item.name) for item in fields(SamplerOptions)}
        return Sampler.parse(settings.pop("sampler"), **settings | {"on": ON[self.on]})
