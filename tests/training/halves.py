"""Run under torchrun with two processes: one step in parts, then count what this process holds."""

import sys
from pathlib import Path
from typing import Any

from tests.training.helpers import tiny
from tokenloom.training import loop
from tokenloom.training.config import RunConfig
from tokenloom.training.reporting import Reporter


class Counting(loop._Run):
    """Says the share of parameters, of averages and of moments that are here."""

    def _take(self, step: int) -> None:
        super()._take(step)
        moments = [value for state in self.optimiser.state.values() for value in state.values() if value.ndim]
        for tensors in (list(self.model.parameters()), list(self.averaged.module.parameters()), moments):
            print(f"holds {share(tensors):.3f}")


def share(tensors: list[Any]) -> float:
    return float(sum(tensor.to_local().numel() for tensor in tensors) / sum(tensor.numel() for tensor in tensors))


if __name__ == "__main__":
    loop._Run = Counting  # type: ignore[misc]
    run = RunConfig(strategy="fsdp", valid_rows=8)
    loop.train(tiny(Path(sys.argv[1]), max_steps=1, run=run), False, Reporter(quiet=True))
