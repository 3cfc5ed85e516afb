"""What can happen to a file: flipped bits, lost ends, strange files in its place, and JSON that somebody edited."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

Damage = Callable[[Random, bytearray, Path], str]
"""Damage the content of a file (or swap it with that of one like it from elsewhere), and say how."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 10**6, 10**18, -(10**18), 10**400, 0.5, 1e308, float("nan"), float("inf"), "", "x",
    "../../../etc/hostname", "/dev/zero", "x" * 100_000, [], [[]], [0] * 10_000, {}, {"name": "x"}, {"kind": "x"},
)  # fmt: skip


def flip_a_bit(random: Random, content: bytearray, other: Path) -> str:
    at = random.randrange(max(1, len(content)))
    if content:
        content[at] ^= 1 << random.randrange(8)
    return f"a bit of byte {at} flipped"


def overwrite(random: Random, content: bytearray, other: Path) -> str:
    at, count = random.randrange(len(content) or 1), random.choice((1, 8, 200))
    fill = random.choice((b"\0", b"\xff", b"9", bytes([random.randrange(256)])))
    content[at : at + count] = fill * len(content[at : at + count])
    return f"{count} bytes from {at} overwritten with {fill!r}"


def truncate(random: Random, content: bytearray, other: Path) -> str:
    size = random.choice((0, 1, 7, 8, len(content) - 1, random.randrange(len(content) or 1)))
    del content[max(0, size) :]
    return f"cut to {size} bytes"


def extend(random: Random, content: bytearray, other: Path) -> str:
    added = random.choice((b"\0", b"}", b"\n{}\n", b"\xff\xfe", b"x" * 100_000))
    content += added
    return f"{added[:8]!r} appended {len(added)} bytes"


def swap(random: Random, content: bytearray, other: Path) -> str:
    if not other.is_file():
        return truncate(random, content, other)
    content[:] = other.read_bytes()
    return "swapped with that of another run"


def edit_json(random: Random, content: bytearray, other: Path) -> str:
    """One value changed, one key lost or added, or a manifest that names what it must not."""
    try:
        record = json.loads(content.decode())
    except ValueError:
        return overwrite(random, content, other)
    holder, key = random.choice(list(_places(record)) or [({}, "x")])
    before, how = json.dumps(holder[key] if holder else None)[:40], random.choice(("set", "set", "set", "drop", "add"))
    if how == "drop" and isinstance(holder, dict):
        holder.pop(key, None)
        said = f"{key} dropped"
    elif how == "add" and isinstance(holder, dict):
        name = random.choice(("unknown", "", "../config.json", "/dev/zero", "x" * 10_000))
        holder[name] = random.choice(VALUES)
        said = f"{name[:20]!r} added beside {key}"
    else:
        holder[key] = random.choice(VALUES)
        said = f"{key} set from {before} to {repr(holder[key])[:40]}"
    content[:] = json.dumps(record).encode()
    return said


def edit_raw_json(random: Random, content: bytearray, other: Path) -> str:
    """JSON that parsers disagree on, or that is deeper than a stack."""
    text = content.decode(errors="replace")
    said, new = random.choice((
        ("100,000 brackets", "[" * 100_000), ("100,000 objects", '{"a":' * 100_000), ("a number", "1"),
        ("a text", '"x"'), ("null", "null"), ("an empty object", "{}"), ("an empty list", "[]"), ("NaN", "NaN"),
        ("every key twice", text.rstrip().removesuffix("}") + "," + text.lstrip().removeprefix("{")),
        ("a byte order mark", "\ufeff" + text), ("a number of 10,000 digits", "9" * 10_000),
        ("UTF-16", text.encode("utf-16").decode("latin-1")), ("no line breaks", text.replace("\n", " ")),
    ))  # fmt: skip
    content[:] = new.encode()
    return f"content replaced by {said}"


def _places(value: Any) -> Any:
    """Every (holder, key) of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items)[:50]:
        yield value, key
        yield from _places(item)


def strange(random: Random, path: Path) -> str:
    """Something else under the name of the file."""
    path.unlink()
    how = random.choice(("nothing", "a folder", "a FIFO", "/dev/zero", "/dev/null", "nowhere", "itself"))
    if how == "a folder":
        path.mkdir()
    elif how == "a FIFO":
        os.mkfifo(path)
    elif how != "nothing":
        path.symlink_to(path if how == "itself" else how)
    return f"replaced by {how}"


def damage(random: Random, path: Path, other: Path) -> str:
    """Damage a file in some way that suits its kind, and say how."""
    ways: list[Damage | None] = [flip_a_bit, flip_a_bit, overwrite, truncate, extend, swap, None]
    ways += [*[edit_json] * 7, edit_raw_json] if path.suffix == ".json" else []
    way = random.choice(ways)
    if way is None:
        return strange(random, path)
    content = bytearray(path.read_bytes())
    said = way(random, content, other)
    path.write_bytes(content)
    return said
