"""How a model answers the harness: one value, whether it comes from Python, a command or `--model_args`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenloom.samplers.options import SamplerOptions
from tokenloom.support.registry import build

AUTOMATIC = 64
"""What `batch_size=auto` means here: rows are short, and the batch changes no figure."""


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
        for name in ("samples", "batch_size", "max_gen_toks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        self.sampler_value()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "HarnessOptions":
        """Options from what the harness parsed; an unknown one is answered with the nearest known name."""
        known = {name: float(value) if name in ("temperature", "top_p") else value for name, value in values.items()}
        size = known.get("batch_size", AUTOMATIC)
        known["batch_size"] = AUTOMATIC if str(size).startswith("auto") else int(size)
        return build(cls, known, "the model tokenloom")
