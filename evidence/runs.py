"""The runs: an arm (method, prediction, objective, network) on a setting with a seed.

All arms of a setting have the same optimiser, batch, steps and, for equal seeds, the same rows in the same order.  What
some networks have beside others (a module that reads U, a second stream) is taken from their width or condition, so
that parameter counts agree within `WITHIN`; a causal network has no time to read and is wider for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evidence.settings import Scale, Setting, setting
from tokenloom.models.store import model_folder
from tokenloom.nn.base import NETWORKS, NetworkOptions
from tokenloom.support.reading import read_json
from tokenloom.support.words import nearest
from tokenloom.training.build import resolve
from tokenloom.training.config import OptimiserConfig, Predicts, RunConfig, TrainConfig
from tokenloom.training.loop import train
from tokenloom.training.reporting import Reporter

WITHIN = 0.05
"""How far parameter counts of a setting may lie from the first arm's, relatively."""


@dataclass(frozen=True)
class Arm:
    """A way to train."""

    method: str
    predicts: Predicts | None = None
    objective: str | None = None
    network: str | None = None
    """Another kind of network than the setting's."""


ARMS = {
    "udm-loo-ce": Arm("udm", "loo", "ce"),
    "udm-loo-nelbo": Arm("udm", "loo", "nelbo"),
    "udm-denoiser-ce": Arm("udm", "denoiser", "ce"),
    "udm-denoiser-nelbo": Arm("udm", "denoiser", "nelbo"),
    "max-coupling": Arm("max-coupling", "loo", "nelbo"),
    "audm": Arm("audm", "denoiser", "nelbo"),
    "audm-loo": Arm("audm", "loo", "nelbo"),
    "mdm": Arm("mdm", "denoiser", "nelbo"),
    "hollow": Arm("udm", "loo", "ce", network="hollow"),
    "ar": Arm("ar"),
}

SIZES: dict[tuple[str, str], dict[str, Any]] = {
    ("markov", "audm"): {"condition": 36},
    ("markov", "audm-loo"): {"condition": 36},
    ("markov", "hollow"): {"width": 40, "depth": 1, "condition": 52},
    ("markov", "ar"): {"width": 70, "heads": 5},
    ("text8", "audm"): {"condition": 32},
    ("text8", "audm-loo"): {"condition": 32},
    ("text8", "ar"): {"width": 84, "heads": 6},
}
"""What differs from the setting's network, at full scale, so that parameter counts agree."""


@dataclass(frozen=True, order=True)
class Run:
    """A network to train."""

    setting: str
    arm: str
    seed: int

    @property
    def name(self) -> str:
        """As in markov/udm-loo-ce-1."""
        return f"{self.setting}/{self.arm}-{self.seed}"


@dataclass(frozen=True)
class Place:
    """Where runs and their data lie, and at which scale."""

    folder: Path
    scale: Scale = "full"
    text8: Path | None = None

    def setting(self, name: str) -> Setting:
        """The setting of a name at this scale."""
        return setting(name, self.scale, self.text8)

    def run_folder(self, run: Run) -> Path:
        """The folder of a run."""
        return self.folder / "runs" / self.scale / run.name

    def config(self, run: Run) -> TrainConfig:
        """All of a run, resolved."""
        if run.arm not in ARMS:
            raise ValueError(f"there is no arm {run.arm!r}; {nearest(run.arm, ARMS)}")
        chosen, arm = self.setting(run.setting), ARMS[run.arm]
        optimiser = OptimiserConfig(lr=chosen.lr, warmup=100, decay="linear", batch=chosen.batch, ema=0.995)
        every = max(chosen.steps // 4, 1)
        return resolve(
            TrainConfig(
                recipe="evidence",
                method=arm.method,
                predicts=arm.predicts,
                objective=arm.objective,
                data=chosen.source,
                network=_network(chosen, run.arm, self.scale),
                optimiser=optimiser,
                run=RunConfig(seed=run.seed, valid_rows=32, validate_every=10**9, checkpoint_every=every),
                max_steps=chosen.steps,
                out=str(self.run_folder(run)),
            )
        )


def _network(chosen: Setting, arm: str, scale: Scale) -> NetworkOptions:
    """The setting's network in the form that the arm needs."""
    network: NetworkOptions = chosen.network
    kind = ARMS[arm].network
    if kind is not None:
        values: dict[str, Any] = {name: getattr(network, name) for name in ("width", "depth", "heads", "condition")}
        network = NETWORKS[kind].Options(kind=kind, **values)
    sizes: dict[str, Any] = SIZES.get((chosen.name, arm), {}) if scale == "full" else {}
    return replace(network, **sizes)


def is_trained(run: Run, place: Place) -> bool:
    """Whether the model of the last step is there; one that was interrupted leaves a model, too."""
    folder = place.run_folder(run)
    return model_folder(folder) is not None and steps_of(folder) == place.setting(run.setting).steps


def steps_of(folder: Path) -> int | None:
    """The optimiser steps behind the model of a run."""
    record = read_json(folder / "model" / "config.json")
    found = record.get("about", {}).get("step") if isinstance(record, dict) else None
    return found if isinstance(found, int) else None


def train_runs(runs: Iterable[Run], place: Place) -> int:
    """Train what is missing, one after the other; what was interrupted is resumed."""
    count = 0
    for run in runs:
        if is_trained(run, place):
            continue
        config = place.config(run)
        started = (Path(config.out or "") / "checkpoints").is_dir()
        result = train(config, started, Reporter(quiet=True))
        if result is not None and result.stopped_by is not None:
            raise SystemExit(128 + result.stopped_by)
        count += 1
    return count
