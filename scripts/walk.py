"""How far a step walks: calls of package functions, and how often a call leaves the room it was made from.

    python scripts/walk.py

A room is a folder of `src/tokenloom`; the vocabulary (schedules, posteriors, state, types) is one, and so are the two
axes of a process with their product (noise, couplings, process, cells).  `changes_of_folders` counts every folder and
every module beside them as a room of its own.  One ancestral step is the difference between runs of five and of four
steps.  One training batch is drawing it, its loss and its gradient: through `tl.training_loss`, which checks, and as
the loop takes it.  Comprehensions are not counted, and a network's own forward pass is one call: it belongs to whoever
wrote the network.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import tokenloom as tl
from tokenloom.data.markov import MarkovSource
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.objectives.head_loss import loss_at
from tokenloom.training.batches import training_batch
from tokenloom.training.methods import method_of

ROOT = Path(tl.__file__).parent
VOCABULARY = dict.fromkeys(("schedules", "posteriors", "state", "types"), "vocabulary")
PROCESS = dict.fromkeys(("noise", "couplings", "process", "cells", "processes"), "process")


@dataclass(frozen=True)
class Walk:
    """Calls of functions, and those of them that lead into another room."""

    calls: int
    functions: int
    changes: int
    changes_of_folders: int

    def __sub__(self, other: "Walk") -> "Walk":
        changes, folders = self.changes - other.changes, self.changes_of_folders - other.changes_of_folders
        return Walk(self.calls - other.calls, self.functions, changes, folders)


def folder_of(frame: FrameType | None) -> str | None:
    """The folder, or the module beside the folders, of the code that a frame runs; None outside the package."""
    path = Path(frame.f_code.co_filename) if frame is not None else Path()
    if ROOT not in path.parents:
        return None
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def room_of(folder: str) -> str:
    """The room of a folder, which is the folder itself for most."""
    return (VOCABULARY | PROCESS).get(folder, folder)


def walk_of(work: Callable[[], object]) -> Walk:
    """The walk of a function; networks (`nn`) are entered, and not followed."""
    calls, changes, folders, functions = 0, 0, 0, set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls, changes, folders
        folder, code = folder_of(frame), frame.f_code
        if event != "call" or folder is None or code.co_name in ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"):
            return
        caller = frame.f_back
        while caller is not None and folder_of(caller) is None:
            caller = caller.f_back
        before = folder_of(caller)
        if before == folder == "nn":
            return
        calls += 1
        changes += before is not None and room_of(before) != room_of(folder)
        folders += before is not None and before != folder
        functions.add(code)

    work()  # what is imported, cached or compiled at first is not counted
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return Walk(calls, len(functions), changes, folders)


def main() -> None:
    """Measure both walks and print them as JSON."""
    data, objective = MarkovSource(rows=100).load(), tl.objectives.CrossEntropy()
    config = tl.nn.TransformerConfig(data.vocab_size, data.vocab_size, data.length, width=32, depth=2, heads=2)
    method = method_of("udm", data.vocab_size, tl.LinearSchedule())
    model = tl.DiffusionModel(tl.nn.DiT(config), method.process)
    generator = torch.Generator().manual_seed(0)

    def steps(count: int) -> Callable[[], object]:
        return lambda: tl.sample(model, 2, steps=count, generator=generator.manual_seed(0))

    def public() -> None:
        rows = training_batch(data, 2, 0, 1, 1e-3)
        loss = tl.training_loss(model, objective, rows.x_0, rows.t, RowGenerators(rows.seeds), rows.given, rows.weights)
        loss.mean.backward()  # type: ignore[no-untyped-call]

    def batch() -> None:
        rows = training_batch(data, 2, 0, 1, 1e-3)
        noisy = method.corrupted(rows.x_0, objective.times(rows.t), RowGenerators(rows.seeds), rows.given)
        loss_at(model, objective, rows.x_0, noisy, rows.weights).mean.backward()  # type: ignore[no-untyped-call]

    found = {
        "ancestral step": walk_of(steps(5)) - walk_of(steps(4)),
        "training_loss": walk_of(public),
        "loop": walk_of(batch),
    }
    print(json.dumps({name: asdict(walk) for name, walk in found.items()}, indent=2))


if __name__ == "__main__":
    main()
