"""The two files of a model folder, and the checksums by which each is known to be whole and of the other.

"sha256": {"model.safetensors": of the file's bytes, "config.json": of the rest as JSON with sorted keys}
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from tokenloom.support.reading import file_sum, read_json

CONFIG, WEIGHTS, SUMS = "config.json", "model.safetensors", "sha256"


def seal(config: dict[str, Any], weights: Path) -> dict[str, Any]:
    """Return the config with the checksums of itself and of the file of its weights."""
    sums = {WEIGHTS: file_sum(weights)}
    content = json.dumps(config | {SUMS: sums}, sort_keys=True, separators=(",", ":"))
    return config | {SUMS: sums | {CONFIG: hashlib.sha256(content.encode()).hexdigest()}}


def check_seal(config: dict[str, Any], weights: Path) -> None:
    """Raise unless both checksums are right."""
    sums, right = config[SUMS], seal(config, weights)[SUMS]
    if not isinstance(sums, dict) or sums.keys() != right.keys():
        raise ValueError(f"{SUMS} must hold the checksums of {WEIGHTS} and {CONFIG}, got {str(sums)[:80]}")
    if sums[WEIGHTS] != right[WEIGHTS]:
        raise ValueError(
            f"{WEIGHTS} does not match the checksum in {CONFIG}: the file is damaged or belongs to another model; "
            "copy or save the model again"
        )
    if sums[CONFIG] != right[CONFIG]:
        raise ValueError(f"{CONFIG} does not match its own checksum: it is damaged or was edited; save the model again")


def stored_config(folder: Path) -> dict[str, Any]:
    """Read the config.json of a folder, of ours or of another library; empty if it has none that can be read."""
    try:
        config = read_json(folder / CONFIG)
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


def weights_sum(folder: Path) -> str:
    """Return the checksum of a model's weights that its config states."""
    sums = stored_config(folder).get(SUMS)
    return str(sums.get(WEIGHTS)) if isinstance(sums, dict) else ""
