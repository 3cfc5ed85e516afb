"""`python -m evidence.pilot`: the learning rate of every arm, chosen on a seed that no comparison uses.

Every arm is trained with each rate of its setting, and the one with the lowest validation bound at the end is kept in
evidence/results/pilot.json, which `Place.config` reads.  What was killed resumes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from evidence.reporting import validations
from evidence.runs import LIKELIHOODS, Place, Run, is_finished, train_config
from tokenloom.cli.ranks import spread
from tokenloom.support.files import write_json
from tokenloom.support.reading import read_json
from tokenloom.training.config import TrainConfig

SEED = 101
STEPS = {"stories": 1000}
"""Steps of a pilot where they are fewer than those of a run."""

Trial = tuple[str, str, float]
"""A setting, an arm and a learning rate."""


def main(
    out: Path = Path("runs/evidence"),
    setting: tuple[Literal["chain", "stories"], ...] = ("chain", "stories"),
    stories: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
    workers: int = 1,
) -> None:
    """Train the pilots that are missing and keep the better learning rate of every arm.

    Args:
        out: Where networks go; what is killed resumes from here.
        setting: The settings whose arms are tried.
        stories: A folder with train.txt and valid.txt of TinyStories.
        workers: Processes to spread the runs over, one thread each.
    """
    if "stories" in setting and stories is None:
        raise ValueError("the pilots need the text of stories: name a folder with train.txt and valid.txt by --stories")
    place = Place(out, stories=stories)
    tried = [trial for name in setting for trial in trials(name, place)]
    if workers > 1:
        spread(partial(train_trials, place=place), tried, out / "jobs", workers, "local")
    else:
        train_trials(tried, place)
    for name in setting:
        print(f"{name}: {choose(name, place)}")


def trials(setting: str, place: Place, arms: Sequence[str] = LIKELIHOODS) -> list[Trial]:
    """Every arm with every learning rate."""
    return [(setting, arm, rate) for arm in arms for rate in place.setting(setting).rates]


def trial_config(trial: Trial, place: Place) -> TrainConfig:
    """All of a trial."""
    setting, arm, rate = trial
    steps = STEPS.get(setting) if place.scale == "full" else None
    config = place.config(Run(setting, arm, SEED), rate, steps)
    return replace(config, out=str(place.folder / "pilot" / place.scale / setting / f"{arm}-{rate:g}"))


def train_trials(tried: Iterable[Trial], place: Place) -> int:
    """Train what is missing, one after the other."""
    count = 0
    for trial in tried:
        config = trial_config(trial, place)
        if not is_finished(config.folder, config.max_steps):
            train_config(config)
            count += 1
    return count


def choose(setting: str, place: Place, arms: Sequence[str] = LIKELIHOODS) -> dict[str, float]:
    """Keep the bounds of all trials that were trained, and the rate with the lowest of each arm."""
    found: dict[str, Any] = {}
    for arm in arms:
        bounds = {}
        for trial in trials(setting, place, [arm]):
            config = trial_config(trial, place)
            bounds[f"{trial[2]:g}"] = validations(config.folder)[-1].per_token
        best = min(bounds, key=lambda rate: math.inf if math.isnan(bounds[rate]) else bounds[rate])
        found[arm] = {"seed": SEED, "steps": config.max_steps, "bounds": bounds, "chosen": float(best)}
    kept = read_json(place.pilot) if place.pilot.exists() else {}
    write_json(place.pilot, kept | {setting: kept.get(setting, {}) | found})
    return {arm: item["chosen"] for arm, item in found.items()}


if __name__ == "__main__":
    from evidence import pilot  # under its own name, by which other processes import it

    tyro.cli(pilot.main)
