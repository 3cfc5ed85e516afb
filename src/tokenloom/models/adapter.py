"""An adapter on disk: a model folder that holds low-rank additions (`nn/lora.py`) to the weights of another model.

Its config.json is that of a model, with one key more:

    "adapter": {"base": where the other model is, "sha256": of the other's weights, "rank": r}

The base is the name of a bundled model, an address, or a path, a relative one from the folder of the adapter (or, if it
is not there, from the current one).  It may be an adapter itself.  The file of the weights repeats the checksum of the
base, so that it is part of its own, and no chain of bases can be a circle.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open

from tokenloom.models.bundled import without_process
from tokenloom.models.seals import weights_sum
from tokenloom.support.addresses import is_address

BASE = "base"


@dataclass(frozen=True)
class Adapter:
    """What the folder of an adapter says beside what every model says."""

    base: str
    sha256: str
    rank: int

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"the rank of an adapter must be at least 1, got {self.rank}")


def base_name(source: str, folder: str | Path) -> str:
    """Return the name by which an adapter in `folder` finds its base, which the user called `source`."""
    plain = without_process(source)[0]
    if is_address(plain) or os.path.isabs(plain) or not os.path.exists(plain):
        return plain
    return os.path.abspath(plain) if is_address(folder) else os.path.relpath(plain, folder)


def find_base(adapter: Adapter, folder: Path, find: Callable[[str | Path], Path | None]) -> Path:
    """Return the folder of the base, with the weights that the adapter was trained on, or say what is wrong.

    `find` returns the folder of the model of a name, if there is one.
    """
    name = adapter.base
    places: list[str | Path] = [name] if is_address(name) else [folder / name, name]
    found = [place for place in map(find, places) if place is not None]
    for place in found:
        if weights_sum(place) == adapter.sha256:
            return place
    if found:
        raise ValueError(
            f"it is an adapter to {name}, but the weights of {found[0]} are not those it was trained on (sha256 "
            f"{adapter.sha256[:12]}); put that model back in its place"
        )
    where = name if is_address(name) else os.path.normpath(folder / name)
    raise ValueError(f"it is an adapter to {name}, and there is no such model; put it back at {where}")


def check_base(weights: Path, adapter: Adapter) -> None:
    """Raise unless the file of the weights names the same base as the config."""
    with safe_open(weights, "pt") as file:
        stored = (file.metadata() or {}).get(BASE)
    if stored != adapter.sha256:
        raise ValueError(f"{weights.name} is of an adapter to weights {str(stored)[:12]}, not {adapter.sha256[:12]}")
