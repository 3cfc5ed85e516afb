"""The settings of a sampler as plain values, as they stand on a command line and in a record."""

from dataclasses import dataclass
from typing import Literal

from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens
from tokenloom.samplers.grids import GridName
from tokenloom.samplers.sampler import Sampler

ON: dict[str, type[OverTokens]] = {"loo": LeaveOneOut, "denoiser": Denoiser}


@dataclass(frozen=True)
class SamplerOptions:
    """How to draw."""

    steps: int = 128
    """Network evaluations per sequence, the corrector's included."""
    sampler: str = "ancestral"
    """A sampler with options, as in psi:kappa=0.9; `tokenloom sample x --sampler list` names them all."""
    corrector: str = "none"
    """A corrector with options, as in informed:steps=2,parallel=4; `none` is without."""
    temperature: float = 1.0
    """Divides the logits."""
    top_p: float = 1.0
    """Keep the most probable tokens up to this mass."""
    top_k: int | None = None
    """Keep this many of the most probable tokens."""
    on: Literal["loo", "denoiser"] = "loo"
    """The posterior that temperature, top-p and top-k act on."""
    grid: GridName = "uniform"
    """How the times are spaced."""

    def sampler_value(self) -> Sampler:
        """The sampler that these settings stand for."""
        return Sampler.parse(
            self.sampler,
            corrector=self.corrector,
            steps=self.steps,
            grid=self.grid,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            on=ON[self.on],
        )

    @property
    def kernels(self) -> str:
        """The kernels in words."""
        return self.sampler + ("" if self.corrector == "none" else f" + {self.corrector}")
