"""The settings of a sampler as plain values, as they stand on a command line and in a record.

A setting is described once, where `Sampler` declares it; a command line adds how it is written.
"""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import tyro
from docstring_parser import parse_from_object

from tokenloom.drawing.truncation import Sharpening, Truncation
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens
from tokenloom.samplers.sampler import GridName, Sampler

ON: dict[str, type[OverTokens]] = {"loo": LeaveOneOut, "denoiser": Denoiser}
FIELDS = {item.arg_name: item for kind in (Truncation, Sampler) for item in parse_from_object(kind).params}


def _described(field: str, written: str = "") -> Any:
    """Return the help of an option: what `Sampler` says of its field, and how the option is written."""
    return tyro.conf.arg(help=f"{FIELDS[field].description} {written}".strip())


@dataclass(frozen=True)
class Kernels:
    """The kernels of a sampler, and their budget."""

    steps: Annotated[int, _described("steps")] = int(Sampler.steps)
    sampler: Annotated[
        str, _described("predictor", "As in psi:kappa=0.9; `tokenloom sample x --sampler list` names them all.")
    ] = "ancestral"
    corrector: Annotated[str, _described("corrector", "As in informed:steps=2,parallel=4.")] = "none"

    @property
    def kernels(self) -> str:
        """Predictor and corrector as `Sampler.parse` reads them."""
        return self.sampler + ("" if self.corrector == "none" else f" + {self.corrector}")


@dataclass(frozen=True)
class SamplerOptions(Sharpening, Kernels):
    """The options of a sampler."""

    on: Annotated[Literal["loo", "denoiser"], _described("on")] = "loo"
    grid: Annotated[GridName, _described("grid")] = "uniform"

    def sampler_value(self) -> Sampler:
        """Build the sampler that these settings stand for."""
        settings = {item.name: getattr(self, item.name) for item in fields(SamplerOptions)}
        return Sampler.parse(settings.pop("sampler"), **settings | {"on": ON[self.on]})
