"""Measurements as files, one per run, kept in the repository: evidence/results/<setting>/<arm>-<seed>.json.

A file holds what the run was (config, weights, data and versions) and every measure with its settings.  A measure that
is there with the same settings is not repeated, so a killed job resumes with what is missing, and a clone that has the
results but not the networks renders the page without training.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence.claim import Claim, Records
from evidence.measures import MEASURES
from evidence.measures.base import opened
from evidence.runs import Place, Run, is_trained, train_runs
from evidence.settings import MOST
from tokenloom.models.seals import WEIGHTS
from tokenloom.support.files import write_json
from tokenloom.support.reading import file_sum, read_json

Task = tuple[Run, str]
"""A run, and a measure of it by name."""


def result_file(run: Run, folder: Path) -> Path:
    """Where the measurements of a run lie."""
    return folder / run.setting / f"{run.arm.replace(' ', '-')}-{run.seed}.json"


def read_result(run: Run, folder: Path) -> dict[str, Any]:
    """What is kept of a run; empty where nothing is."""
    path = result_file(run, folder)
    if not path.exists():
        return {"run": {}, "measures": {}}
    record = read_json(path)
    if not isinstance(record, dict) or not isinstance(record.get("measures"), dict):
        raise ValueError(f"{path} does not hold measurements; delete it, and they are made again")
    return record


def is_measured(task: Task, place: Place, folder: Path) -> bool:
    """Whether a measure is kept with the settings of now, of the weights that are here if they are."""
    run, name = task
    kept = read_result(run, folder)
    if kept["measures"].get(name, {}).get("settings") != MEASURES[name].settings(run, place):
        return False
    if not trains(run) or not is_trained(run, place):
        return True
    return bool(kept["run"].get("weights_sha256") == file_sum(place.run_folder(run) / "model" / WEIGHTS))


def trains(run: Run) -> bool:
    """Whether there is a network behind a run."""
    return run.setting != "softmax" and run.arm != "counts"


def measure_tasks(tasks: Iterable[Task], place: Place, folder: Path) -> int:
    """Measure what is missing, one after the other; every result is written at once."""
    count = 0
    for run, name in tasks:
        if is_measured((run, name), place, folder):
            continue
        found = {"settings": MEASURES[name].settings(run, place), "figures": MEASURES[name].of(run, place)}
        about, kept = describe(run, place), read_result(run, folder)
        same = kept["run"].get("weights_sha256") == about.get("weights_sha256")
        measures = (kept["measures"] if same else {}) | {name: found}
        write_json(result_file(run, folder), {"run": about, "measures": dict(sorted(measures.items()))})
        count += 1
    return count


def finish(runs: Iterable[tuple[Run, Sequence[str]]], place: Place, folder: Path) -> int:
    """Train each network that is missing and take its measures at once: what is killed keeps what it finished."""
    count = 0
    for run, names in runs:
        if trains(run):
            train_runs([run], place)
        count += measure_tasks([(run, name) for name in names], place, folder)
    return count


def describe(run: Run, place: Place) -> dict[str, Any]:
    """What a reader must know of a run: its training in full, its size, and what tells its weights and data apart."""
    identity = {"setting": run.setting, "arm": run.arm, "seed": run.seed, "scale": place.scale}
    if not trains(run):
        return identity
    trained = opened(run, place)
    about, config = trained.model.about, dict(trained.model.about.training or {})
    data = dict(config.get("data", {}))
    if data.get("path"):
        data["path"] = Path(data["path"]).name  # a folder of one machine says nothing on another
    config |= {"out": None, "data": data}
    parameters = sum(weights.numel() for weights in trained.model.parameters())
    return identity | trained.provenance() | {
        "model": run.name,
        "parameters": parameters,
        "data_fingerprint": about.fingerprint,
        "training": config,
    }  # fmt: skip


def collect(claims: Iterable[Claim], folder: Path) -> Records:
    """The figures that claims ask for, as far as they are kept."""
    records: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    runs = {Run(setting, arm, seed) for claim in claims for seed in MOST for setting, arm, _ in claim.needs(seed)}
    for run in sorted(runs):
        measures = read_result(run, folder)["measures"]
        records[run.setting, run.arm, run.seed] = {name: found["figures"] for name, found in measures.items()}
    return records
