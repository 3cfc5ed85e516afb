"""The runs: an arm (method, prediction, objective, network) on a setting with a seed.

All arms of a setting have the same optimiser, batch, steps and, for equal seeds, the same rows in the same order; on
`chain` and `stories` each has the learning rate that a pilot chose for it.  All have the setting's network: what a
method needs beside it (a module that reads U) makes it larger, as in the paper, and `mdm-module` is the control.  Only
the hollow network is cut to size, `any-double` has twice the steps, and `judge` is as good as two cores can make it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evidence.network import MODULE
from evidence.reporting import Logged
from evidence.settings import Scale, Setting, setting
from tokenloom.models.store import model_folder
from tokenloom.nn.base import NETWORKS, NetworkOptions
from tokenloom.nn.conditioning import Fusion
from tokenloom.support.reading import read_json
from tokenloom.support.words import nearest
from tokenloom.training.build import resolve
from tokenloom.training.config import OptimiserConfig, Predicts, RunConfig, TrainConfig
from tokenloom.training.loop import train

PILOT = Path(__file__).parent / "results" / "pilot.json"
"""The learning rates that a pilot chose."""


@dataclass(frozen=True)
class Arm:
    """A way to train."""

    method: str
    predicts: Predicts | None = None
    objective: str | None = None
    network: str | None = None
    """Another kind of network than the setting's."""
    fusion: Fusion | None = None
    """The way in which the network reads U, where it does: `shared_mlp` is that of the paper."""
    longer: int = 1
    """Times as many steps as the setting has."""
    rate: float | None = None
    """A learning rate of its own, which no pilot chose."""


ARMS = {
    "udm-loo-ce": Arm("udm", "loo", "ce"),
    "udm-loo-nelbo": Arm("udm", "loo", "nelbo"),
    "udm-denoiser-ce": Arm("udm", "denoiser", "ce"),
    "udm-denoiser-nelbo": Arm("udm", "denoiser", "nelbo"),
    "max-coupling": Arm("max-coupling", "loo", "nelbo"),
    "audm": Arm("audm", "denoiser", "nelbo", fusion="shared_mlp"),
    "audm-loo": Arm("audm", "loo", "nelbo", fusion="shared_mlp"),
    "audm-gated": Arm("audm", "denoiser", "nelbo", fusion="gated"),
    "audm-loo-gated": Arm("audm", "loo", "nelbo", fusion="gated"),
    "mdm": Arm("mdm", "denoiser", "nelbo"),
    "mdm-module": Arm("mdm", "denoiser", "nelbo", network=MODULE),
    "udm-unigram": Arm("udm:noise=unigram", "loo", "nelbo"),
    "audm-unigram": Arm("audm:noise=unigram", "denoiser", "nelbo", fusion="gated"),
    "any": Arm("any:noises=uniform+masked+absorbing", "loo"),
    "any-double": Arm("any:noises=uniform+masked+absorbing", "loo", longer=2),
    "hollow": Arm("udm", "loo", "ce", network="hollow"),
    "ar": Arm("ar"),
    "judge": Arm("ar", longer=2, rate=1e-3),
}

LIKELIHOODS = (
    "udm-loo-ce",
    "udm-loo-nelbo",
    "udm-denoiser-ce",
    "udm-denoiser-nelbo",
    "max-coupling",
    "mdm",
    "mdm-module",
    "audm",
    "audm-gated",
    "audm-loo-gated",
    "udm-unigram",
    "audm-unigram",
    "any",
    "ar",
)
"""The arms whose likelihoods are compared on `chain` and `stories`, each with a learning rate of its own."""
PILOTED = {"any-double": "any", "hollow": "udm-loo-ce"}
"""Arms that take the learning rate of another."""

SIZES: dict[tuple[str, str], dict[str, Any]] = {
    ("chain", "hollow"): {"width": 40, "depth": 1, "condition": 52},
    ("chain", "mdm"): {"time": False},
    ("chain", "mdm-module"): {"time": False},
    ("stories", "mdm"): {"time": False},
    ("stories", "mdm-module"): {"time": False},
    ("stories", "judge"): {"width": 192, "depth": 4},
}
"""What differs from the setting's network at full scale: the time, which a masked network does not need and the
reference implementation does not show it, and some sizes."""


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
    stories: Path | None = None
    """A folder with train.txt and valid.txt (or .gz) of TinyStories."""
    pilot: Path = PILOT

    def setting(self, name: str) -> Setting:
        """The setting of a name at this scale."""
        return setting(name, self.scale, self.stories)

    def budget(self, evaluations: int) -> int:
        """A budget of evaluations at this scale."""
        return evaluations if self.scale == "full" else min(evaluations, 6)

    def run_folder(self, run: Run) -> Path:
        """The folder of a run."""
        return self.folder / "runs" / self.scale / run.name

    def rate(self, run: Run) -> float:
        """The learning rate of a run: its own, the only one, or the one that a pilot chose for its arm."""
        own = ARMS[run.arm].rate
        if own is not None:
            return own
        first, *others = self.setting(run.setting).rates
        if not others or self.scale == "tiny":
            return first
        kept = read_json(self.pilot) if self.pilot.exists() else {}
        arm = PILOTED.get(run.arm, run.arm)
        found = kept.get(run.setting, {}).get(arm, {}).get("chosen") if isinstance(kept, dict) else None
        if not isinstance(found, float):
            raise ValueError(
                f"{self.pilot.name} has no learning rate for {run.setting}/{arm}; "
                f"python -m evidence.pilot --setting {run.setting} chooses one"
            )
        return found

    def steps(self, run: Run) -> int:
        """Optimiser steps of a run."""
        return self.setting(run.setting).steps * ARMS[run.arm].longer

    def config(self, run: Run, lr: float | None = None, steps: int | None = None) -> TrainConfig:
        """All of a run, resolved; a pilot gives the learning rate and may take fewer steps."""
        if run.arm not in ARMS:
            raise ValueError(f"there is no arm {run.arm!r}; {nearest(run.arm, ARMS)}")
        chosen, arm = self.setting(run.setting), ARMS[run.arm]
        rate = self.rate(run) if lr is None else lr
        quarter = quarter_of(self.steps(run))
        rows, every = (32, 10**9) if chosen.validated is None else (chosen.validated, quarter)
        saved = quarter if self.scale == "full" else self.steps(run)
        return resolve(
            TrainConfig(
                recipe="evidence",
                method=arm.method,
                predicts=arm.predicts,
                objective=arm.objective,
                data=chosen.source,
                network=_network(chosen, run.arm, self.scale),
                optimiser=OptimiserConfig(lr=rate, warmup=100, decay="linear", batch=chosen.batch, ema=0.995),
                run=RunConfig(seed=run.seed, valid_rows=rows, validate_every=every, checkpoint_every=saved),
                max_steps=steps or self.steps(run),
                out=str(self.run_folder(run)),
            )
        )


def quarter_of(steps: int) -> int:
    """Steps between two validations, a quarter of all."""
    return max(steps // 4, 1)


def _network(chosen: Setting, arm: str, scale: Scale) -> NetworkOptions:
    """The setting's network in the form that the arm needs."""
    network: NetworkOptions = chosen.network
    kind = ARMS[arm].network
    if ARMS[arm].method.startswith("any"):
        network = replace(chosen.network, conditioning="evidence")
    if kind is not None:
        values: dict[str, Any] = {
            name: getattr(network, name) for name in ("width", "depth", "heads", "condition", "time")
        }
        network = NETWORKS[kind].Options(kind=kind, **values)
    fusion: dict[str, Any] = {} if ARMS[arm].fusion is None else {"fusion": ARMS[arm].fusion}
    sizes: dict[str, Any] = SIZES.get((chosen.name, arm), {}) if scale == "full" else {}
    return replace(network, **fusion, **sizes)


def is_trained(run: Run, place: Place) -> bool:
    """Whether the model of the last step is there."""
    return is_finished(place.run_folder(run), place.steps(run))


def is_finished(folder: Path, steps: int | None) -> bool:
    """Whether a folder has the model of these optimiser steps; one that was interrupted leaves a model, too."""
    if model_folder(folder) is None:
        return False
    record = read_json(folder / "model" / "config.json")
    return isinstance(record, dict) and record.get("about", {}).get("step") == steps


def train_runs(runs: Iterable[Run], place: Place) -> int:
    """Train what is missing, one after the other; what was interrupted is resumed."""
    count = 0
    for run in runs:
        if not is_trained(run, place):
            train_config(place.config(run))
            count += 1
    return count


def train_config(config: TrainConfig) -> None:
    """Train a run to its end, or resume it; a signal ends the process."""
    started = (Path(config.out or "") / "checkpoints").is_dir()
    result = train(config, started, Logged())
    if result is not None and result.stopped_by is not None:
        raise SystemExit(128 + result.stopped_by)
