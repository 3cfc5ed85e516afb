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

from tokenloom.cli.ranks import Ranks
from tokenloom.evaluation.runs import Run
from tokenloom.samplers import Samples
from tokenloom.support.files import check_writable, replacing, write_json
from tokenloom.support.reading import read_json

MAY_CHANGE = ("num", "batch")
"""Options that change no row."""
Draw = Callable[[range], Samples]


def is_folder(path: Path | None) -> bool:
    """Whether --out names a folder: it is one, or has no ending."""
    return path is not None and (path.is_dir() or not path.suffix)


def shard_file(folder: Path, number: int) -> Path:
    """The file of a shard."""
    return folder / f"samples-{number:05}.jsonl"


def begin(folder: Path, about: dict[str, Any], ranks: Ranks) -> None:
    """Write what the rows are drawn with, or raise if there are rows of other settings already."""
    check_writable(folder)
    path = folder / "samples.json"
    others = [file.name for file in folder.iterdir() if not file.name.startswith((".", "samples"))]
    if others and not path.is_file():
        raise ValueError(f"{folder} holds other files, such as {others[0]}; name a new folder with --out for samples")
    if path.is_file():
        differences = _differences(read_json(path), about)
        if differences:
            raise ValueError(
                f"{folder} holds samples with other settings ({', '.join(differences)}); choose another --out"
            )
    if ranks.first:
        write_json(path, about)


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


def missing(folder: Path, num: int, size: int, ranks: Ranks) -> list[tuple[Path, range]]:
    """The shards of this process that are not there, each with its rows; one that was shorter is drawn again."""
    found = []
    for number in range(ranks.rank, -(-num // size), ranks.count):
        rows, path = range(number * size, min((number + 1) * size, num)), shard_file(folder, number)
        if _lines_in(path) < len(rows):
            found.append((path, rows))
    return found


def _lines_in(path: Path) -> int:
    if not path.is_file():
        return 0
    with path.open("rb") as stream:
        return sum(1 for _ in stream)


def write_shard(path: Path, rows: range, batch: int, draw: Draw, run: Run) -> None:
    """Draw the rows of a shard, `batch` at a time, and give them their name when all are there."""
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as stream:
        for first in range(rows.start, rows.stop, batch):
            part = range(first, min(first + batch, rows.stop))
            stream.writelines(_lines(part, draw(part), run))


def _lines(rows: range, samples: Samples, run: Run) -> Iterator[str]:
    texts, tokens = run.decoder(samples.tokens), samples.tokens.tolist()
    for row, text, ids, cost in zip(rows, texts, tokens, samples.evaluations.tolist(), strict=True):
        yield json.dumps({"row": row, "sample": text, "tokens": ids, "evaluations": cost}) + "\n"
