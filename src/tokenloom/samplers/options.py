"""The settings of a sampler as plain values, as they stand on a command line and in a record.

A setting is described once, where `Sampler` declares it; a command line adds how it is written.
"""

from dataclasses import dataclass, fields
from typing import Annotated, Literal

import tyro
from docstring_parser import parse_from_object

from tokenloom.drawing.truncation import Sharpening, Truncation
from tokenloom.models.protocol import Model
from tokenloom.posteriors import REPRESENTATIONS
from tokenloom.samplers.run import length_of
from tokenloom.samplers.sampler import Sampler
from tokenloom.support.memory import check_memory

SAYS = {item.arg_name: item.description for kind in (Truncation, Sampler) for item in parse_from_object(kind).params}
STEPS, ON, GRID = (tyro.conf.arg(help=SAYS[name]) for name in ("steps", "on", "grid"))
LISTED = "As in psi:kappa=0.9; `tokenloom sample x --sampler list` names them all."
SAMPLER = tyro.conf.arg(help=f"{SAYS['predictor']} {LISTED}")
CORRECTOR = tyro.conf.arg(help=f"{SAYS['corrector']} As in informed:steps=2,parallel=4.")
"""The help of each option, for one value or for several."""


@dataclass(frozen=True)
class Kernels:
    """The kernels of a sampler, and their budget."""

    steps: Annotated[int, STEPS] = int(Sampler.steps)
    sampler: Annotated[str, SAMPLER] = "ancestral"
    corrector: Annotated[str, CORRECTOR] = "none"

    @property
    def kernels(self) -> str:
        """Predictor and corrector as `Sampler.parse` reads them."""
        return self.sampler + ("" if self.corrector == "none" else f" + {self.corrector}")


@dataclass(frozen=True)
class SamplerOptions(Sharpening, Kernels):
    """The options of a sampler."""

    on: Annotated[Literal["loo", "denoiser"], ON] = "loo"
    grid: Annotated[str, GRID] = "auto"

    def sampler_value(self) -> Sampler:
        """Build the sampler that these settings stand for."""
        settings = {item.name: getattr(self, item.name) for item in fields(SamplerOptions)}
        return Sampler.parse(settings.pop("sampler"), **settings | {"on": REPRESENTATIONS[self.on]})

    def check_memory(self, model: Model, num: int, batch: int, length: int | None = None) -> None:
        """Raise unless `num` sequences, drawn `batch` at a time, fit into the memory of this machine."""
        width, rows = length_of(model, length), min(num, batch)
        drawn = 64 * num * width  # bytes of every token as a number, in a list and as a piece of text
        check_memory(drawn, f"drawing {num:,} sequences of {width:,} tokens", "draw fewer")
        check_memory(8 * self.steps, f"a grid of {self.steps:,} steps", "take fewer")
        logits = 3 * 4 * rows * width * model.process.vocab_size  # three tensors of float32 at once
        check_memory(logits, f"a batch of {rows:,} sequences of {width:,} tokens", "lower the batch or the length")
