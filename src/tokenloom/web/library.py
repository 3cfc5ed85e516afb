"""The models of the playground: those it was started with, each loaded once and under every process it supports.

A name in a request is looked up here and never opened as a path.
"""

import os
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenloom.cells import PROCESSES
from tokenloom.cli.given import read_given
from tokenloom.data.base import decoder_of
from tokenloom.data.decoder import Decoder
from tokenloom.models.bundled import bundled_names
from tokenloom.models.model import DiffusionModel
from tokenloom.models.opening import open_run
from tokenloom.models.store import model_folder, under
from tokenloom.support.words import nearest
from tokenloom.web.requests import Encode, Limits
from tokenloom.web.views import VIEWS, View

_FILTERS = threading.Lock()  # warning filters are global, so one thread at a time may change them


class Entry:
    """One model of the list, loaded when it is first asked for."""

    def __init__(self, name: str) -> None:
        self.name, self._lock = name, threading.Lock()

    def model(self, process: str | None = None) -> DiffusionModel:
        """Return the model under a process of `models`, or its own; every thread gets the same one."""
        with self._lock:  # the first thread loads the model, the others wait for it
            models = self.models
        wanted = next(iter(models)) if process is None else process
        if wanted not in models:
            shown = wanted[:80]
            raise ValueError(f"{self.name} is not used under the process {shown!r}; {nearest(shown, models)}")
        return models[wanted]

    @cached_property
    def models(self) -> dict[str, DiffusionModel]:
        """The model under its own process, then under others that its network supports and has seen the noise of."""
        own = open_run(self.name).model
        models = {own.process.name: own}
        if own.reads_evidence and "@" not in self.name:
            with _FILTERS, warnings.catch_warnings():
                warnings.simplefilter("error")
                for name in [name for name in PROCESSES if name not in models]:
                    with suppress(ValueError, Warning):
                        models[name] = under(own, name)
        return models

    @cached_property
    def decoder(self) -> Decoder:
        """Writes its sequences as text."""
        return decoder_of(self.model())

    @property
    def view(self) -> View:
        """The view that is registered for its data, or one without rules."""
        kind = str((self.model().about.source or {}).get("kind"))
        return VIEWS[kind]() if kind in VIEWS else View()

    @property
    def layout(self) -> dict[str, Any]:
        """The layout of its sequences on the page: that of its view, a picture, text or numbers."""
        found = self.view.layout(self.model().length)
        if found is None and self.decoder.side is not None:
            return {"kind": "pixels", "side": self.decoder.side}
        return found or {"kind": "numbers" if self.decoder.tokenizer is None else "text"}

    def encode(self, asked: Encode, limits: Limits) -> dict[str, Any]:
        """Return the tokens of a text, null for a blank, up to the last one that is not blank."""
        model = self.model(asked.process)
        if len(asked.text) > 16 * limits.length:
            raise ValueError(f"the text has {len(asked.text):,} characters; {16 * limits.length:,} are the limit here")
        ((cells, _),) = read_given(model, (), [asked.text], limits.longest(model.length))
        while cells and cells[-1] is None:
            cells.pop()
        return {"tokens": cells, "pieces": {str(cell): self.decoder.piece(cell) for cell in cells if cell is not None}}


class Library(dict[str, Entry]):
    """All models that a visitor may choose, by name and in the order of the page."""

    def __init__(self, names: Sequence[str]) -> None:
        if len(set(names)) < len(names):
            raise ValueError(f"a model is named twice: {', '.join(names)}")
        super().__init__({name: Entry(name) for name in names or default_names()})
        for name in names:  # a wrong name is reported to the person who wrote it, not to the first visitor
            self[name].model()

    def __missing__(self, name: str) -> Entry:
        raise ValueError(f"there is no model {name[:80]!r} here; {nearest(name[:80], self)}")


def default_names() -> list[str]:
    """Return the bundled models, and the runs in the folder `runs` of the working directory."""
    found = sorted(Path("runs").iterdir()) if os.path.isdir("runs") else []
    runs = [str(path) for path in found if path.is_dir() and model_folder(path) is not None]
    return [*sorted(bundled_names(), key=lambda name: (name != "sudoku", name)), *runs]  # the page opens with the first
