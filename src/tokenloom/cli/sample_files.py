"""--out of `tokenloom sample`: the record as JSON, square sequences as a picture, or many samples in a folder.

    samples/samples.json           what every row was drawn with
    samples/samples-00042.jsonl    rows 42 S to 43 S - 1 as one JSON line each, complete or absent

No more than a shard is held in memory.  Process r of n (torchrun) draws the shards r, r + n, ...; a row has a seed of
its own, so a shard is the same whichever process draws it.  One that is there is not drawn again: a run that was killed
resumes with what is missing, and a larger --num adds to what is there.
"""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from tokenloom.cli.ranks import ranks
from tokenloom.data.decoder import Decoder
from tokenloom.support.display import Display
from tokenloom.support.extras import optional
from tokenloom.support.files import check_ours, check_target, check_writable, replacing, write_json
from tokenloom.support.reading import read_json
from tokenloom.support.words import counted
from tokenloom.training.config import differences

Drawn = list[tuple[list[int], int]]
"""Tokens and network evaluations of some rows."""
Draw = Callable[..., Drawn]


def check_out(path: Path, decoder: Decoder, length: int | None) -> None:
    """Raise, before the work, if samples could not be written, or not in the format that the name asks for."""
    check_target(path)
    if path.suffix == ".png":
        optional("matplotlib.image", "evaluate")
        if (side := decoder.side) is None:
            kind = "sequences of symbols" if decoder.tokenizer is None else "text"
            raise ValueError(f"{path.name} would be a picture, but the model writes {kind}; write .json instead")
        if length != side**2:
            raise ValueError(f"a picture needs sequences of length {side**2}, got {length}; write .json instead")
    check_writable(path.parent)


def write_samples(path: Path, record: dict[str, Any], vocab_size: int) -> None:
    """Write the record, or for .png the square sequences as grey images, eight per row."""
    if path.suffix != ".png":
        write_json(path, record)
        return
    tokens = torch.tensor(record["tokens"])
    side = math.isqrt(tokens.shape[1])
    images = tokens.view(-1, side, side).double() / (vocab_size - 1)
    columns = min(8, len(images))
    blank = torch.zeros((-len(images)) % columns, side, side, dtype=images.dtype)
    tiles = torch.nn.functional.pad(torch.cat([images, blank]), (1, 1, 1, 1), value=0.5)
    rows = tiles.view(-1, columns, side + 2, side + 2).transpose(1, 2).reshape(-1, columns * (side + 2))
    large = rows.repeat_interleave(8, 0).repeat_interleave(8, 1).numpy()
    with replacing(path) as partial:
        optional("matplotlib.image", "evaluate").imsave(partial, large, cmap="gray", vmin=0, vmax=1)


def write_shards(folder: Path, about: dict[str, Any], num: int, batch: int, draw: Draw, decoder: Decoder) -> None:
    """Write the missing shards of this process, drawn `batch` rows at a time, and `about`, which decides their rows."""
    mine, size, display = ranks(), about["shard"], Display()
    check_folder(folder, about)
    if mine.first:
        write_json(folder / "samples.json", about)
    missing = []
    for number in range(mine.rank, -(-num // size), mine.count):
        rows, path = range(num)[number * size : (number + 1) * size], folder / f"samples-{number:05}.jsonl"
        if not path.is_file() or path.read_bytes().count(b"\n") < len(rows):  # a smaller --num made it shorter
            missing.append((path, rows))
    with display.status("sampling"):
        for done, (path, rows) in enumerate(missing):
            display.update(f"process {mine.rank + 1} of {mine.count}: {path.name}", done / len(missing))
            with replacing(path) as partial, partial.open("w", encoding="utf-8") as stream:
                for first in range(0, len(rows), batch):
                    part = rows[first : first + batch]
                    stream.writelines(_lines(part, draw(part), decoder))
    written = counted(len(missing), "shard")
    display.console.print(f"process {mine.rank + 1} of {mine.count} wrote {written} to {folder}", highlight=False)


def _lines(rows: range, drawn: Drawn, decoder: Decoder) -> Iterator[str]:
    for row, (ids, cost) in zip(rows, drawn, strict=True):
        yield json.dumps({"row": row, "sample": decoder.shown(ids), "tokens": ids, "evaluations": cost}) + "\n"


def check_folder(folder: Path, about: dict[str, Any]) -> None:
    """Raise if the folder holds other files, or rows that were drawn with other settings."""
    check_writable(folder)
    path = folder / "samples.json"
    if not path.is_file():
        check_ours(folder, (".*", "samples*"), "samples", "name a new folder with --out")
        return
    free = ("provenance.options.num ", "provenance.options.batch ")  # they change no row
    found = [item for item in differences(read_json(path), about) if not item.startswith(free)]
    if found:
        raise ValueError(f"{folder} holds samples with other settings ({', '.join(found)}); choose another --out")
