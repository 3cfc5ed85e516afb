"""The models of the playground: those it was started with, each loaded once and under every process it serves.

A name in a request is looked up here and never opened as a path.
"""

import os
import threading
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tokenloom.cells import PROCESSES
from tokenloom.data.decoder import Decoder
from tokenloom.data.view import decoder_of
from tokenloom.models.bundled import bundled_names
from tokenloom.models.model import DiffusionModel
from tokenloom.models.opening import Run, open_run
from tokenloom.models.store import model_folder, under
from tokenloom.support.words import nearest

FIRST = "sudoku"
"""The bundled model that the page opens with."""
_FILTERS = threading.Lock()
"""The filters of warnings belong to all threads."""


class Entry:
    """One model of the list, loaded when it is first asked for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._under: dict[str, Run] = {}

    def run(self, process: str | None = None) -> Run:
        """The model under a process of `processes`, or its own; every thread gets the same one."""
        with self._lock:
            own = self._own
            wanted = own.model.process.name if process is None else process
            if wanted not in self.processes:
                raise ValueError(
                    f"{self.name} is not used under the process {str(wanted)[:80]!r}; "
                    f"{nearest(str(wanted)[:80], self.processes)}"
                )
            return self._under[wanted]

    def loadable(self, process: str) -> str:
        """What `tokenloom.load` calls the model under a process."""
        return self.name if process == self._own.model.process.name else f"{self.name}@{process}"

    @cached_property
    def _own(self) -> Run:
        return open_run(self.name)

    @cached_property
    def decoder(self) -> Decoder:
        """How its sequences are written for people."""
        return decoder_of(self._own.model)

    @cached_property
    def processes(self) -> list[str]:
        """Its own process, and the others where its network serves them and has seen their noise."""
        model = self._own.model
        self._under[model.process.name] = self._own
        if model.reads_evidence and "@" not in self.name:
            for name in PROCESSES:
                found = _served(model, name)
                if found is not None and name not in self._under:
                    self._under[name] = replace(self._own, name=f"{self._own.name}@{name}", model=found)
        return list(self._under)


class Library:
    """All models that a visitor may choose, by name.

    Args:
        names: Bundled names, runs and model folders, as the person who starts the server names them.
    """

    def __init__(self, names: Sequence[str]) -> None:
        if len(set(names)) < len(names):
            raise ValueError(f"a model is named twice: {', '.join(names)}")
        self.entries = {name: Entry(name) for name in names or default_names()}
        for name in names:  # a wrong name is told to the one who wrote it, not to the first visitor
            self.entries[name].run()

    def __getitem__(self, name: str) -> Entry:
        if name not in self.entries:
            raise ValueError(f"there is no model {name[:80]!r} here; {nearest(name[:80], self.entries)}")
        return self.entries[name]

    @property
    def names(self) -> list[str]:
        """Their names, in the order of the page."""
        return list(self.entries)


def default_names() -> list[str]:
    """The bundled models, and the runs in the folder `runs` of the place where the command was started."""
    found = sorted(Path("runs").iterdir()) if os.path.isdir("runs") else []
    runs = [str(path) for path in found if path.is_dir() and model_folder(path) is not None]
    return [*sorted(bundled_names(), key=lambda name: (name != FIRST, name)), *runs]


def _served(model: DiffusionModel, process: str) -> DiffusionModel | None:
    """The model under a process, where it fits without a warning."""
    with _FILTERS, warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        try:
            found = under(model, process)
        except ValueError:
            return None
    return None if noted else found
