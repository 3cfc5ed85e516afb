"""Files at an address, which is what has :// in it: s3://, gs://, az://, sftp:// and all that fsspec knows.

What is there is read from a copy in the user's cache, and written from a folder of this machine:

    <cache>/addresses/<address>/<listing>/<name>   a copy, complete if it is there; another listing is another copy
    <cache>/runs/<address>/<name>                  the folder in which a run at an address is trained

A copy is made between two equal listings.  A file called `.<sha256>.<name>` is taken for <name> if the checksums beside
it name it, and left out if not (`support/uploads`): so a copy is whole whenever it is made.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard

from tokenloom.support.files import default_cache, discard, replacing
from tokenloom.support.reading import read_text

SEALS = ("manifest.json", "config.json")
"""Files that hold the checksums of those beside them."""
WAITING = re.compile(r"\.([0-9a-f]{64})\.([^.].*)")
READ_TIMES = ("time", "atime")
"""Names that some file systems give to the time of the last reading, which changes nothing."""
TRIES = 3
Listing = dict[str, dict[str, Any]]
"""What fsspec knows of each file, by its path below the address."""


class ChangedError(Exception):
    """Raised if the content of an address changed while it was read."""


def is_address(name: object) -> TypeGuard[str]:
    """Return whether this is an address, and not a path or a name."""
    return isinstance(name, str) and "://" in name


def local(name: str | Path, depth: int | None = None) -> Path:
    """Return a path unchanged, and for an address its copy, of so many levels."""
    return fetched(name, depth) if is_address(name) else Path(name)


def workplace(name: str) -> Path:
    """Return a path unchanged, and for an address the folder in which a run is trained."""
    plain = name.rstrip("/")
    return default_cache() / "runs" / _key(plain) / _last(plain) if is_address(name) else Path(name)


def opened(address: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path in it."""
    from fsspec.core import url_to_fs
    from fsspec.registry import known_implementations

    try:
        fs, root = url_to_fs(address)
    except ImportError as error:
        package = known_implementations.get(address.partition(":")[0], {}).get("class", "fsspec.").partition(".")[0]
        remedy = str(error) if package == "fsspec" else f"run pip install {package}"
        raise ValueError(f"{address} needs a package that is not installed; {remedy}") from error
    except Exception as error:
        raise ValueError(f"{address} cannot be opened: {error}") from error
    return fs, root.rstrip("/")


@contextmanager
def reaching(address: str, what: str) -> Iterator[None]:
    """Turn the errors of a file system, of whatever kind, into a sentence."""
    try:
        yield
    except (ValueError, ChangedError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise ValueError(f"{address} cannot be {what} ({reason})") from error


def listing(address: str, depth: int | None = None) -> Listing:
    """List the files at an address, without hidden ones; none if there is nothing."""
    fs, root = opened(address)
    with reaching(address, "read"):
        fs.invalidate_cache()
        try:
            about = fs.info(root)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        if about["type"] != "directory":
            return {_last(root): about | {"name": root}}
        found = fs.find(root, maxdepth=depth, detail=True).items()
    inside = ((_below(root, name, address), info | {"name": name}) for name, info in found)
    return {path: info for path, info in inside if not hidden(path) or WAITING.fullmatch(PurePosixPath(path).name)}


def version(files: Listing) -> str:
    """Return a key that changes when files at an address do."""
    known = {path: {key: str(info[key]) for key in info if key not in READ_TIMES} for path, info in files.items()}
    return _key(json.dumps(known, sort_keys=True))


def fetched(address: str, depth: int | None = None) -> Path:
    """Return a copy, in the user's cache, of the folder or file that is at an address now."""
    fs, root = opened(address)
    for _ in range(TRIES):
        files = listing(address, depth)
        if not files:
            raise ValueError(f"there is nothing at {address}; check how it is spelled")
        alone = [info["name"] for info in files.values()] == [root]
        place = default_cache() / "addresses" / _key(address, depth) / version(files)
        with exclusive(place.parent), suppress(ChangedError):
            if not place.is_dir():
                with replacing(place, "set XDG_CACHE_HOME to a folder with more room") as partial:
                    _download(fs, address, files, partial if alone else partial / _last(root))
                    if version(listing(address, depth)) != place.name:
                        raise ChangedError
                for other in place.parent.glob("[!.]*"):
                    if other != place:
                        discard(other)
            return place / _last(root)
    raise ValueError(f"{address} changed each time it was fetched; try again when nothing is written to it")


def _download(fs: Any, address: str, files: Listing, folder: Path) -> None:
    """Fetch files, and give those that wait for their checksums their names."""
    from tokenloom.support.display import current

    display, done, total = current(), 0, sum(info.get("size") or 0 for info in files.values())
    text = f"fetching {address} ({total / 1e6:,.1f} MB)"
    with display.status(text), reaching(address, "fetched"):
        for path, info in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                fs.get_file(info["name"], str(target))
            except FileNotFoundError as error:
                raise ChangedError from error
            if info.get("size") not in (None, size := target.stat().st_size):
                raise ChangedError
            done += size
            display.update(text, done / max(1, total, done))
    for file in map(folder.joinpath, files):
        if waiting := WAITING.fullmatch(file.name):
            os.replace(file, file.with_name(waiting[2])) if waiting[1] in sums(file.parent) else file.unlink()


def sums(folder: Path) -> str:
    """Return the text of the files in a folder that hold checksums."""
    return "".join(read_text(folder / name) for name in SEALS if (folder / name).is_file())


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Wait until no other process is in this block for a folder; where a disk has no locks, do not wait."""
    from filelock import FileLock

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", fallback_to_soft=False)  # a soft lock would outlive a killed process
    with suppress(OSError, NotImplementedError):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def hidden(path: str) -> bool:
    """Return whether a file or a folder on the way to it is hidden."""
    return any(part.startswith(".") for part in PurePosixPath(path).parts)


def _below(root: str, name: str, address: str) -> str:
    """Return the path of a listed file below the root, or raise if it would leave the folder of the copy."""
    path = Path(name[len(root) + 1 :])
    if not name.startswith(f"{root}/") or not path.parts or path.anchor or ".." in path.parts:
        raise ValueError(f"{address} lists {name!r}, which is not a file below it; nothing is fetched")
    return path.as_posix()


def _last(address: str) -> str:
    """Return the last part of an address as a name that a file can have."""
    return re.sub(r"[^\w.-]", "-", address.rpartition("/")[2].partition("?")[0]).lstrip(".") or "root"


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
