"""A folder of this machine, kept the same at an address: what changed is uploaded, the checksums last.

    new files -> the file with their checksums -> each file to its own name -> what the folder has dropped is removed

A file that would replace another waits as `.<sha256>.<name>` until the checksums that name it are there.  So whoever
fetches the address finds the old model or checkpoint or the new one, whole, even where an upload was killed.
"""

from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from tokenloom.support.addresses import SEALS, WAITING, Listing, hidden, listing, opened, reaching, sums
from tokenloom.support.files import write_json
from tokenloom.support.reading import file_sum, read_json


def upload(folder: Path, address: str) -> None:
    """Upload the files of a folder that are not at the address as they are, and remove those it has dropped."""
    from tokenloom.support.display import current

    fs, root = opened(address)
    here, before, there = _stamps(folder), _uploaded(folder), listing(address)
    same = {
        path for path in here if before.get(path) == here[path] and there.get(path, {}).get("size") == here[path][0]
    }
    changed = [PurePosixPath(path) for path in here if path not in same]
    size = sum(here[str(path)][0] for path in changed)
    with current().status(f"uploading {address} ({size / 1e6:,.1f} MB)"), reaching(address, "written"):
        for parent in sorted({path.parent for path in changed}):
            names = [path.name for path in changed if path.parent == parent]
            others = {
                PurePosixPath(path).name: info for path, info in there.items() if PurePosixPath(path).parent == parent
            }
            _put_folder(fs, f"{root}/{parent}".removesuffix("/."), folder / parent, names, others)
        dropped = [there[path]["name"] for path in (before.keys() - here.keys()) & there.keys()]
        for name in dropped:
            fs.rm_file(name)
        for place in {name.rpartition("/")[0] for name in dropped}:
            with suppress(OSError, NotImplementedError):  # most have no empty folders
                fs.rmdir(place)
    mark_uploaded(folder)


def mark_uploaded(folder: Path) -> None:
    """Record that the files of a folder are at their address as they are here."""
    write_json(_record(folder), _stamps(folder))


def _put_folder(fs: Any, place: str, folder: Path, names: list[str], there: Listing) -> None:
    """Upload files of one folder; `there` are those at the place."""
    own, waiting = sums(folder), dict[str, str]()
    for name in sorted(names, key=lambda name: name in SEALS):
        if name not in there:
            _put(fs, folder / name, f"{place}/{name}")
        elif (digest := file_sum(folder / name)) in own:
            waiting[name] = f"{place}/.{digest}.{name}"
            _put(fs, folder / name, waiting[name])
        else:
            _put(fs, folder / name, f"{place}/.new.{name}")
            _move(fs, f"{place}/.new.{name}", f"{place}/{name}")
    for name, beside in waiting.items():
        _move(fs, beside, f"{place}/{name}")
    for name in filter(WAITING.fullmatch, there):  # an upload that was killed has left it
        with suppress(FileNotFoundError):
            fs.rm_file(f"{place}/{name}")


def _put(fs: Any, source: Path, target: str) -> None:
    try:
        fs.put_file(str(source), target)
    except FileNotFoundError:  # where folders have to be made
        fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        fs.put_file(str(source), target)


def _move(fs: Any, source: str, target: str) -> None:
    try:
        fs.mv(source, target)
    except FileExistsError:  # where a move does not replace
        fs.rm_file(target)
        fs.mv(source, target)


def _stamps(folder: Path) -> dict[str, list[int]]:
    """Return size and time of every file that is not hidden."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    stats = {name: path.stat() for name, path in paths.items() if not hidden(name)}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}


def _record(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.uploaded.json")


def _uploaded(folder: Path) -> dict[str, Any]:
    try:
        found = read_json(_record(folder))
    except ValueError:  # absent or damaged: everything is uploaded again
        return {}
    return found if isinstance(found, dict) else {}
