"""Options of a model in the harness: one value, whether it comes from Python, a command or `--model_args`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenloom.samplers.options import SamplerOptions
from tokenloom.support.checks import check_least
from tokenloom.support.registry import build

AUTOMATIC = 64
"""The batch of `batch_size=auto`: rows are short, and the batch changes no figure."""


@dataclass(frozen=True)
class HarnessOptions(SamplerOptions):
    """Settings of the sampler and of the bound."""

    samples: int = 128
    """Network evaluations behind each log-likelihood; a causal model is exact with one."""
    seed: int = 0
    """Seed of every random number."""
    batch_size: int = AUTOMATIC
    """Rows per network call."""
    max_gen_toks: int = 256
    """Tokens to generate where a task does not say."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, samples=1, batch_size=1, max_gen_toks=1)
        self.sampler_value()  # a wrong name or number is refused here

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "HarnessOptions":
        """Build the options from what the harness parsed; an unknown one is answered with the nearest known name."""
        known = {name: float(value) if name in ("temperature", "top_p") else value for name, value in values.items()}
        size = known.get("batch_size", AUTOMATIC)
        known["batch_size"] = AUTOMATIC if str(size).startswith("auto") else int(size)
        return build(cls, known, "the model tokenloom")
