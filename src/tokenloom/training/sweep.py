"""A sweep: one run for every combination of the values that some options take, each in a folder of its own.

A sweep is texts such as `optimiser.lr=1e-4,3e-4` and `run.seed=1,2`; their product is trained.  A run is named after
its values, so the same command again resumes what was killed, leaves what is finished and adds what is new.
"""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from tokenloom.support.addresses import is_address
from tokenloom.training.build import resolve
from tokenloom.training.config import TrainConfig, from_record


def members(config: TrainConfig) -> dict[str, TrainConfig]:
    """Return the runs of a sweep by their names, each complete and in a folder below that of the sweep."""
    axes = [_axis(text) for text in config.sweep]
    if len({name for name, _ in axes}) < len(axes):
        raise ValueError(f"--sweep names an option twice: {' '.join(config.sweep)}")
    folder, found = Path(resolve(config).out or ""), dict[str, TrainConfig]()
    if is_address(config.out):
        raise ValueError(f"--sweep trains in folders of this machine, got --out {config.out}; name a folder")
    for values in product(*(values for _, values in axes)):
        record = replace(config, sweep=()).record()
        chosen = dict(zip((option for option, _ in axes), values, strict=True))
        for option, value in chosen.items():
            *parts, name = option.split(".")
            place: Any = record
            for part in parts:
                place = place.get(part) if isinstance(place, dict) else None
            if not isinstance(place, dict) or name not in place:
                raise ValueError(f"--sweep: there is no option {option!r}; name one as in optimiser.lr=1e-4,3e-4")
            place[name] = _value(value)
        named = ",".join(f"{option.rpartition('.')[2]}={value}" for option, value in chosen.items())
        found[named] = resolve(replace(from_record(record), out=str(folder / named)))
    return found


def _axis(text: str) -> tuple[str, list[str]]:
    option, _, values = text.partition("=")
    if not option or not all(values.split(",")):
        raise ValueError(f"--sweep takes an option and its values, as in optimiser.lr=1e-4,3e-4, got {text!r}")
    return option.replace("-", "_"), values.split(",")


def _value(text: str) -> Any:
    """Return a number, true, false or null as JSON reads it, and any other text unchanged."""
    try:
        return json.loads(text)
    except ValueError:
        return text
