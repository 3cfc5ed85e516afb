"""The bound on held-out rows at a quarter, half, three quarters and the end of training, and the mean of these four."""

from dataclasses import dataclass
from typing import Any

import torch

from evidence.measures.base import Measure
from evidence.reporting import validations
from evidence.runs import Place, Run, quarter_of

SHARES = ("25", "50", "75", "100")
"""Per cent of the steps."""


@dataclass(frozen=True)
class Throughout(Measure):
    """Nats per token by share of training, with groups of rows; rows are the same for all, noise differs by seed."""

    name: str = "throughout"

    def settings(self, run: Run, place: Place) -> dict[str, Any]:
        quarter = quarter_of(place.steps(run))
        rows = place.setting(run.setting).validated
        return {"rows": rows, "steps": [(number + 1) * quarter for number in range(len(SHARES))]}

    def of(self, run: Run, place: Place) -> dict[str, Any]:
        wanted = self.settings(run, place)["steps"]
        found = {item.step: item for item in validations(place.run_folder(run))}
        four = [found[step] for step in wanted]
        groups = torch.tensor([item.groups for item in four], dtype=torch.float64)
        by_share = {
            share: {"step": item.step, "per_token": item.per_token, "per_token_groups": list(item.groups)}
            for share, item in zip(SHARES, four, strict=True)
        }
        mean = sum(item.per_token for item in four) / len(four)
        return by_share | {"mean": {"per_token": mean, "per_token_groups": groups.mean(0).tolist()}}
