"""Damaged files: a command or `tl.load` meets one, and answers with a sentence or with what the intact one gives."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.attack.damage import damage
from tests.attack.outcome import WrongError
from tests.attack.worker import Case
from tests.attack.workspace import Workspace, command, frontier_options, predicted, sampled, text_options, weights

Use = Callable[[Workspace, Path], None]
"""Use a copy of the workspace's folder in which one file is damaged."""


@dataclass(frozen=True)
class Target:
    """Files of one kind, the folder that must be copied to damage one, and what reads them."""

    folder: str
    pattern: str
    uses: tuple[Use, ...]
    other: str = ""
    """A folder with files of the same names, to swap with."""


def same(name: str, found: object, expected: object) -> None:
    """Raise unless a damaged file gave what the intact one gives."""
    if found != expected:
        raise WrongError(f"{name} gave something else than with the intact file, without a word")


def load(space: Workspace, place: Path) -> None:
    same("tl.load", predicted(place / "model"), space.predictions[place.name])


def sample(space: Workspace, place: Path) -> None:
    same("sample", sampled(place), space.samples[place.name])


def evaluate(space: Workspace, place: Path) -> None:
    command("evaluate", str(place), "--rows", "4", "--samples", "1", "--out", "out")


def evaluate_raw(space: Workspace, place: Path) -> None:
    command("evaluate", str(place), "--rows", "4", "--samples", "1", "--weights", "raw", "--out", "out")


def probe(space: Workspace, place: Path) -> None:
    command("probe", str(place), "--sequences", "2", "--positions", "1", "--times", "0.5", "--out", "out")


def resume(space: Workspace, place: Path) -> None:
    command("train", "--resume", str(place), "--max-steps", "6")
    same("train --resume", weights(place), space.end)


def again(space: Workspace, place: Path) -> None:
    """The same config again, in a new folder."""
    command("train", "--config", str(place / "config.json"), "--out", "new", "--max-steps", "2")


def sweep_again(space: Workspace, place: Path) -> None:
    command("frontier", str(space.folder / "text"), *frontier_options(space.folder / "causal", place))


def judged_by_run(space: Workspace, place: Path) -> None:
    command("frontier", str(space.folder / "text"), *frontier_options(place, Path("out")))


def evaluate_lm(space: Workspace, place: Path) -> None:
    command("evaluate", str(place), "--data", str(space.folder / "data" / "input.txt"), "--rows", "2", "--length", "16")


def train_text(space: Workspace, place: Path) -> None:
    command("train", *text_options(place / "input.txt"), "--out", "new", "--max-steps", "1")


def train_cached(space: Workspace, place: Path) -> None:
    """With the tokens that an earlier run left in the cache."""
    os.environ["XDG_CACHE_HOME"] = str(place)
    command("train", *text_options(space.folder / "data" / "input.txt"), "--out", "new", "--max-steps", "2")
    same("train", weights(Path("new")), weights(space.folder / "text"))


def judged_by_file(space: Workspace, place: Path) -> None:
    command("frontier", str(space.folder / "text"), *frontier_options(place / "model.gguf", Path("out")))


def evaluate_text(space: Workspace, place: Path) -> None:
    command("evaluate", str(space.folder / "text"), "--data", str(place / "input.txt"), "--rows", "2", "--out", "out")


def solve(space: Workspace, place: Path) -> None:
    for file in place.glob("puzzles.*"):
        command("solve", str(file), "--steps", "2", "--tries", "1", "--json")


READERS = (load, load, load, sample, evaluate, probe)
TARGETS = (
    Target("run", "model/*", READERS, "other"),
    Target("text", "model/*", READERS, "causal"),
    Target("run", "checkpoints/step_000000004/*", (resume, resume, resume, evaluate_raw), "other"),
    Target("run", "checkpoints/*/*", (resume,), "other"),
    Target("run", "config.json", (resume, resume, resume, again), "other"),
    Target("run", "metrics.jsonl", (resume,), "other"),
    Target("causal", "model/*", (judged_by_run,), "text"),
    Target("data", "input.txt", (train_text, evaluate_text)),
    Target("data", "puzzles.*", (solve,)),
    Target("data", "*.gguf", (judged_by_file,)),
    Target("cache", "tokenloom/*", (train_cached,)),
    Target("frontier", "points/*", (sweep_again,)),
    Target("lm", "*", (evaluate_lm, judged_by_run)),
)
SHARES = (8, 5, 5, 2, 4, 1, 1, 1, 1, 0.3, 1, 1, 1)
"""How often each target is damaged, against the others; the last two are only in a complete workspace."""


def case(seed: int, index: int, space: Workspace) -> Case:
    """The try of this number."""
    random = Random(f"files {seed} {index}")
    count = len(TARGETS) if space.complete else len(TARGETS) - 2
    target = random.choices(TARGETS[:count], SHARES[:count])[0]
    origin = space.folder / target.folder
    path = random.choice(_in_order(origin, target.pattern, str(space.folder).encode())).relative_to(origin)
    use = random.choice(target.uses)
    swapped = space.folder / target.other / path if target.other else Path("nowhere")

    def prepare(here: Path) -> str:
        place = here / target.folder
        shutil.copytree(origin, place)
        return f"{use.__name__} with {target.folder}/{path}: {damage(random, place / path, swapped)}"

    return Case("files", index, prepare, lambda here: use(space, here / target.folder))


def _in_order(origin: Path, pattern: str, own: bytes) -> list[Path]:
    """The files of a pattern, in the same order in every workspace: names may be digests of where it lies."""
    return sorted(origin.glob(pattern), key=lambda path: (path.suffix, path.read_bytes().replace(own, b"")))
