"""How a model answers the harness: one value, whether it comes from Python, a command or `--model_args`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenloom.samplers.sampler import Sampler
from tokenloom.support.registry import build

AUTOMATIC = 64
"""What `batch_size=auto` means here: rows are short, and the batch changes no figure."""


@dataclass(frozen=True)
class HarnessOptions:
    """Settings of the bound and of the sampler."""

    samples: int = 128
    """Network evaluations behind each log-likelihood; a causal model is exact with one."""
    seed: int = 0
    batch_size: int = AUTOMATIC
    """Rows per network call."""
    sampler: str = "ancestral"
    """What generates text, as `tokenloom sample` takes it."""
    corrector: str | None = None
    steps: int = 128
    """Network evaluations per generated text."""
    temperature: float = 1.0
    top_p: float = 1.0
    max_gen_toks: int = 256
    """Tokens to generate where a task does not say."""

    def __post_init__(self) -> None:
        for name in ("samples", "batch_size", "max_gen_toks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        self.build_sampler()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "HarnessOptions":
        """Options from what the harness parsed; an unknown one is answered with the nearest known name."""
        known = {name: float(value) if name in ("temperature", "top_p") else value for name, value in values.items()}
        size = known.get("batch_size", AUTOMATIC)
        known["batch_size"] = AUTOMATIC if str(size).startswith("auto") else int(size)
        return build(cls, known, "the model tokenloom")

    def build_sampler(self) -> Sampler:
        """The sampler that these settings stand for."""
        return Sampler.parse(
            self.sampler, corrector=self.corrector, steps=self.steps, temperature=self.temperature, top_p=self.top_p
        )
