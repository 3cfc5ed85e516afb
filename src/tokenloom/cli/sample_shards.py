"""Many samples, streamed to the disk: `tokenloom sample RUN --num 100000 --out samples/`.

    samples/samples.json           what every row was drawn with
    samples/samples-00042.jsonl    rows 42 S to 43 S - 1 as one JSON line each, complete or absent

No more than a shard is held in memory.  Process r of n (torchrun) draws the shards r, r + n, ...; a row has a seed of
its own, so a shard is the same whichever process draws it.  One that is there is not drawn again: a run that was killed
resumes with what is missing, and a larger --num adds to what is there.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tokenloom.cli.ranks import ranks
from tokenloom.data.decoder import Decoder
from tokenloom.samplers import Samples
from tokenloom.support.display import Display
from tokenloom.support.files import check_writable, replacing, write_json
from tokenloom.support.reading import read_json
from tokenloom.support.words import counted

MAY_CHANGE = ("num", "batch")
"""Options that change no row."""
Draw = Callable[[range], Samples]


def is_folder(path: Path | None) -> bool:
    """Return whether --out names a folder: it is one, or has no ending."""
    return path is not None and (path.is_dir() or not path.suffix)


def write_shards(
    folder: Path, about: dict[str, Any], num: int, batch: int, draw: Draw, decode: Decoder, display: Display
) -> None:
    """Write the missing shards of this process, drawn `batch` rows at a time, and `about`, which decides their rows."""
    mine, size = ranks(), about["shard"]
    check_folder(folder, about)
    if mine.first:
        write_json(folder / "samples.json", about)
    missing = []
    for number in range(mine.rank, -(-num // size), mine.count):
        rows, path = range(number * size, min((number + 1) * size, num)), folder / f"samples-{number:05}.jsonl"
        if not path.is_file() or path.read_bytes().count(b"\n") < len(rows):  # a smaller --num made it shorter
            missing.append((path, rows))
    with display.status("sampling"):
        for done, (path, rows) in enumerate(missing):
            display.update(f"process {mine.rank + 1} of {mine.count}: {path.name}", done / len(missing))
            with replacing(path) as partial, partial.open("w", encoding="utf-8") as stream:
                for first in range(rows.start, rows.stop, batch):
                    part = range(first, min(first + batch, rows.stop))
                    stream.writelines(_lines(part, draw(part), decode))
    written = counted(len(missing), "shard")
    display.console.print(f"process {mine.rank + 1} of {mine.count} wrote {written} to {folder}", highlight=False)


def _lines(rows: range, samples: Samples, decode: Decoder) -> Iterator[str]:
    columns = (decode(samples.tokens), samples.tokens.tolist(), samples.evaluations.tolist())
    for row, text, ids, cost in zip(rows, *columns, strict=True):
        yield json.dumps({"row": row, "sample": text, "tokens": ids, "evaluations": cost}) + "\n"


def check_folder(folder: Path, about: dict[str, Any]) -> None:
    """Raise if the folder holds other files, or rows that were drawn with other settings."""
    check_writable(folder)
    path = folder / "samples.json"
    if path.is_file():
        differences = _differences(read_json(path), about)
        if differences:
            raise ValueError(
                f"{folder} holds samples with other settings ({', '.join(differences)}); choose another --out"
            )
        return
    others = [file.name for file in folder.iterdir() if not file.name.startswith((".", "samples"))]
    if others:
        raise ValueError(f"{folder} holds other files, such as {others[0]}; name a new folder with --out for samples")


def _differences(before: Any, after: dict[str, Any], where: str = "") -> list[str]:
    if not isinstance(before, dict):
        return [f"{where or 'samples.json'} is not an object"]
    found: list[str] = []
    for key in sorted(before.keys() | after.keys()):
        first, second = before.get(key), after.get(key)
        if key in MAY_CHANGE or first == second:
            continue
        if isinstance(first, dict) and isinstance(second, dict):
            found += _differences(first, second, f"{key}.")
        else:
            found.append(f"{where}{key}: {first}, now {second}")
    return found
