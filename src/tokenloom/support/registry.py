"""Parts by name: one registry for every kind of part, be it a process, a sampler, a network, data or a command.

A part is a class whose dataclass fields are its options, or a function of them that builds one.  Registering it in a
module of the registry's own folder makes it known.  Another package names its parts in an entry point of the registry's
group, and is imported when one is used:

    [project.entry-points."tokenloom.samplers"]
    mine = "my_package.my_module:Mine"

`name:option=value,...` builds a part from text, and {"name": ..., option: ...} from JSON.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from types import NoneType, UnionType
from typing import Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tokenloom.support.typed import JSON_WORDS, check_type, fits, in_words
from tokenloom.support.words import nearest

Entry = TypeVar("Entry")
Part = TypeVar("Part")
Class = TypeVar("Class", bound=Callable[..., Any])

TEXT_WORDS = JSON_WORDS | {NoneType: "none"}


class Directory(Mapping[str, Entry], Generic[Entry]):
    """The classes or functions of one kind, by name.

    Messages call one of them `kind`; other packages add theirs through the entry-point group `group`.  The modules of
    the package (or module) `folder` register the built-in ones, and are imported when the directory is first asked.
    """

    def __init__(self, kind: str, group: str, folder: str) -> None:
        self.kind, self.group, self.folder = kind, group, folder
        self._parts: dict[str, Any] = {}  # an entry point, until it is asked for
        self._complete = False

    def register(self, name: str) -> Callable[[Class], Class]:
        """Make a class or function known by name; it learns it as its `name`."""

        def add(part: Class) -> Class:
            path, known = _path(part), self._parts.get(name, part)
            if not isinstance(known, EntryPoint) and _path(known) != path:
                raise ValueError(f"the {self.kind} {name!r} is {_path(known)} already; choose another name")
            part.name = name  # type: ignore[attr-defined]
            self._parts[name] = part
            return part

        return add

    @property
    def registered(self) -> list[str]:
        """The names known so far; unlike asking for all of them, this imports nothing."""
        return sorted(self._parts)

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Forget the parts that are registered inside the block: for trying one out."""
        before = dict(self._all())
        try:
            yield
        finally:
            self._parts = before

    def __getitem__(self, name: str) -> Entry:
        """Return the part of this name; an unknown name is answered with the nearest known one."""
        if name not in self:
            raise ValueError(f"there is no {self.kind} {name!r}; {nearest(name, self)}")
        point = self._parts[name]
        if isinstance(point, EntryPoint):
            try:
                self.register(name)(point.load())
            except Exception as error:
                what = f"the {self.kind} {name!r} of another package could not be imported from {point.value}"
                why = f"{type(error).__name__}: {error}"
                raise ValueError(f"{what} ({why}); mend or uninstall that package") from error
        return cast(Entry, self._parts[name])

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, Any]:
        """Import the built-in parts, and find (without importing them) those of other packages."""
        if not self._complete:
            self._complete = True  # first, because the modules imported here may ask for a part themselves
            package = importlib.import_module(self.folder)
            for module in pkgutil.iter_modules(getattr(package, "__path__", [])):
                importlib.import_module(f"{self.folder}.{module.name}")
            for point in entry_points(group=self.group):
                self._parts.setdefault(point.name, point)
        return self._parts


class Registry(Directory[type[Part]], Generic[Part]):
    """The classes (or builders) of one kind of part, by name; each is built from text or JSON."""

    def parse(self, text: str, **fixed: Any) -> Part:
        """Build a part from its name and options, as in `psi:kappa=0.9` or `scan:metropolised` for a flag.

        The text may not set `fixed` fields.
        """
        name, _, options = text.partition(":")
        part = self[name]
        known = options_of(part, fixed)
        values: dict[str, Any] = {}
        for option in filter(None, options.split(",")):
            key, given, value = option.partition("=")
            key = key.replace("-", "_")
            if key not in known:
                raise ValueError(f"{name} has no option {key!r}; {nearest(key, known)}")
            if not given and bool in kinds_of(known[key]):
                value = "true"
            values[key] = _parse(f"{name}:{key}", value, known[key])
        for key in required_of(part):
            if key not in values and key not in fixed:
                raise ValueError(f"{name} needs its option {key}, as in {name}:{key}=...")
        return part(**values, **fixed)

    def record(self, part: Part, skip: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the part as JSON: its name and its fields, without those in `skip`."""
        kept = [item.name for item in fields(part) if item.init and item.name not in skip]  # type: ignore[arg-type]
        return {"name": part.name} | {name: getattr(part, name) for name in kept}  # type: ignore[attr-defined]

    def name_of(self, part: Any) -> str | None:
        """Return the name of exactly this class, registered here or by an entry point, or None if it has none."""
        for name in self:
            with suppress(ValueError):  # an entry point of another package that cannot be loaded
                if self[name] is type(part):
                    return name
        return None

    def options(self, part: Part, skip: tuple[str, ...] = ()) -> list[str]:
        """Return the options of a part that are not at their defaults, as `parse` reads them."""
        defaults = {item.name: item.default for item in fields(part)}  # type: ignore[arg-type]
        chosen = {name: getattr(part, name) for name in defaults if name not in skip}
        return [f"{key}={value}" for key, value in chosen.items() if value is not None and value != defaults[key]]

    def restore(self, record: Any, **fixed: Any) -> Part:
        """Build the part that `record` stored; what is unknown is answered with the nearest known name."""
        if not isinstance(record, dict) or not isinstance(record.get("name"), str):
            raise ValueError(f"a {self.kind} is stored as an object with a name, got {str(record)[:80]}")
        values = {key: value for key, value in record.items() if key != "name"}
        return build(self[record["name"]], values, f"the {self.kind} {record['name']}", **fixed)


def _path(part: Any) -> str:
    return f"{part.__module__}.{part.__qualname__}"


def build(part: Callable[..., Part], values: Mapping[str, Any], what: str, **fixed: Any) -> Part:
    """Build a part from JSON values, with lists for tuples and objects for dataclasses; `what` names it in errors."""
    known, options = options_of(part, fixed), dict(values)
    for key, value in values.items():
        if key not in known:
            raise ValueError(f"{what} has no option {key!r}; {nearest(key, known)}")
        kinds: list[Any] = [kind for kind in kinds_of(known[key]) if is_dataclass(kind)]
        if kinds and isinstance(value, dict):
            value = build(kinds[0], value, f"{key} of {what}")
        check_type(f"the option {key} of {what}", value, known[key], JSON_WORDS)
        options[key] = _converted(value, known[key])
    try:
        return part(**options, **fixed)
    except ValueError:
        raise
    except Exception as error:  # of a constructor that does not expect values from a file
        raise ValueError(f"{what} cannot be built from its record: {error or type(error).__name__}") from error


def options_of(part: Callable[..., Any], fixed: Collection[str] = ()) -> dict[str, Any]:
    """Return the options of a part and their types, without the `fixed` ones."""
    hints = get_type_hints(part)
    return {name: hints[name] for name in inspect.signature(part).parameters if name not in fixed}


def required_of(part: Callable[..., Any]) -> list[str]:
    """Return the options of a part that have no default."""
    found = inspect.signature(part).parameters.values()
    return [item.name for item in found if item.default is inspect.Parameter.empty]


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the only one."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _converted(value: Any, hint: Any) -> Any:
    """Return a JSON value as an option stores it: a list as a tuple, and a whole number as a float if it should be."""
    if isinstance(value, list):
        return tuple(value)
    kinds = kinds_of(hint)
    return float(value) if type(value) is int and float in kinds and int not in kinds else value


def _parse(name: str, text: str, hint: Any) -> Any:
    """Return the value that a text means for one of the types that can be written as text."""
    words = {"none": None, "true": True, "false": False}
    for read in (words.__getitem__, int, float, str):
        with suppress(KeyError, ValueError):
            if fits(value := read(text), hint):
                return _converted(value, hint)
    if any(kind in (bool, int, float, str) or get_origin(kind) is Literal for kind in kinds_of(hint)):
        raise ValueError(f"{name} must be {in_words(hint, TEXT_WORDS)}, got {text!r}")
    raise ValueError(f"{name} cannot be given as text; pass an object in Python")
