"""The checksums in a model's config.json: of the weights, and of all else that the config says.

    "sha256": {"model.safetensors": of the file's bytes, "config.json": of the rest as JSON with sorted keys}

A flipped bit in either file, or a file of another model, is found before anything is built from it.  A config that is
changed by hand is refused too: load the model, change it with `describe`, and save it again.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from tokenloom.support.reading import file_sum

CONFIG, WEIGHTS = "config.json", "model.safetensors"
KEY = "sha256"


def seal(config: dict[str, Any], weights: Path) -> dict[str, Any]:
    """Return the config with the checksums of itself and of the file of its weights."""
    sums = {WEIGHTS: file_sum(weights)}
    return config | {KEY: sums | {CONFIG: _own_sum(config | {KEY: sums})}}


def check_seal(config: dict[str, Any], weights: Path) -> None:
    """Raise unless both checksums are right."""
    sums = config[KEY]
    if not isinstance(sums, dict) or sums.keys() != {CONFIG, WEIGHTS}:
        raise ValueError(f"{KEY} must hold the checksums of {WEIGHTS} and {CONFIG}, got {str(sums)[:80]}")
    if _own_sum(config | {KEY: {WEIGHTS: sums[WEIGHTS]}}) != sums[CONFIG]:
        raise ValueError(f"{CONFIG} does not match its own checksum: it is damaged or was edited; save the model again")
    if file_sum(weights) != sums[WEIGHTS]:
        raise ValueError(
            f"{WEIGHTS} does not match the checksum in {CONFIG}: the file is damaged or belongs to another model; "
            "copy or save the model again"
        )


def _own_sum(config: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
