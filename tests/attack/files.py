"""Damaged files: a command or `tl.load` meets one, and answers with a sentence or with what the intact one gives.

Some are configs of models that were edited and sealed again (`sealed.py`): those answer with a result of its kind.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.attack import sealed
from tests.attack.damage import damage, edit_json
from tests.attack.outcome import WrongError
from tests.attack.worker import Case
from tests.attack.workspace import FRONTIER, TEXTS, Workspace, command, predicted, sampled, weights

INPUT = "{space}/data/input.txt"
LINES = {
    "evaluate": "evaluate {place} --sequences 4 --samples 1 --out out",
    "evaluate_raw": "evaluate {place} --sequences 4 --samples 1 --weights raw --out out",
    "probe": "probe {place} --sequences 2 --positions 1 --times 0.5 --out out",
    "resume": "train --resume {place} --max-steps 6",
    "again": "train --config {file} --out new --max-steps 2",
    "sweep_again": f"{FRONTIER} --judge {{space}}/causal --out {{place}}",
    "judged_by_run": f"{FRONTIER} --judge {{place}} --out out",
    "judged_by_file": f"{FRONTIER} --judge {{file}} --out out",
    "evaluate_lm": f"evaluate {{place}} --data {INPUT} --sequences 2 --length 16",
    "evaluate_text": "evaluate {space}/text --data {file} --sequences 2 --out out",
    "train_text": f"train {TEXTS} --data.path {{file}} --out new --max-steps 1",
    "train_cached": f"train {TEXTS} --data.path {INPUT} --out new --max-steps 2",
    "solve": "solve {file} --steps 2 --tries 1 --json",
}
"""What uses a copy of a folder of the workspace, in which one file is damaged."""


def use(name: str, space: Workspace, place: Path, file: Path) -> None:
    """Use the file, or the folder it lies in; raise unless it gives what the intact ones give."""
    if name == "load":
        same("tl.load", predicted(place / "model"), space.predictions[place.name])
    elif name == "sample":
        same("sample", sampled(place), space.samples[place.name])
    else:
        if name == "train_cached":  # with the tokens that an earlier run left in the cache
            os.environ["XDG_CACHE_HOME"] = str(place)
        command(*LINES[name].format(space=space.folder, place=place, file=file).split())
        if name == "resume":
            same("train --resume", weights(place), space.end)
        elif name == "train_cached":
            same("train", weights(Path("new")), weights(space.folder / "text"))


def same(name: str, found: object, expected: object) -> None:
    """Raise unless a damaged file gave what the intact one gives."""
    if found != expected:
        raise WrongError(f"{name} gave something else than with the intact file, without a word")


@dataclass(frozen=True)
class Target:
    """Files of one kind, the folder that must be copied to damage one, and what uses them."""

    share: float
    """How often they are damaged, against the others."""
    folder: str
    pattern: str
    uses: tuple[str, ...]
    other: str = ""
    """A folder with files of the same names, to swap with."""


READERS = ("load", "load", "load", "sample", "evaluate", "probe")
TARGETS = (
    Target(8, "run", "model/*", READERS, "other"),
    Target(5, "text", "model/*", READERS, "causal"),
    Target(5, "run", "checkpoints/step_000000004/*", ("resume", "resume", "resume", "evaluate_raw"), "other"),
    Target(2, "run", "checkpoints/*/*", ("resume",), "other"),
    Target(4, "run", "config.json", ("resume", "resume", "resume", "again"), "other"),
    Target(1, "run", "metrics.jsonl", ("resume",), "other"),
    Target(1, "causal", "model/*", ("judged_by_run",), "text"),
    Target(1, "data", "input.txt", ("train_text", "evaluate_text")),
    Target(1, "data", "puzzles.*", ("solve",)),
    Target(0.3, "data", "*.gguf", ("judged_by_file",)),
    Target(1, "cache", "tokenloom/*", ("train_cached",)),
    Target(1, "frontier", "points/*", ("sweep_again",)),
    Target(1, "lm", "*", ("evaluate_lm", "judged_by_run")),
)
"""The last two are only in a complete workspace."""


def case(seed: int, index: int, space: Workspace) -> Case:
    """The try of this number."""
    random = Random(f"files {seed} {index}")
    if random.random() < 0.4:
        return _resealed(random, index, space)
    targets = TARGETS if space.complete else TARGETS[:-2]
    target = random.choices(targets, [target.share for target in targets])[0]
    origin, own = space.folder / target.folder, str(space.folder).encode()
    files = origin.glob(target.pattern)  # names may be digests of where the workspace lies: ordered by their content
    ordered = sorted(files, key=lambda path: (path.suffix, path.read_bytes().replace(own, b"")))
    path = random.choice(ordered).relative_to(origin)
    name = random.choice(target.uses)
    swapped = space.folder / target.other / path if target.other else Path("nowhere")

    def prepare(here: Path) -> str:
        place = here / target.folder
        shutil.copytree(origin, place)
        return f"{name} with {target.folder}/{path}: {damage(random, place / path, swapped)}"

    return Case(
        "files", index, prepare, lambda here: use(name, space, here / target.folder, here / target.folder / path)
    )


def _resealed(random: Random, index: int, space: Workspace) -> Case:
    run, name, edits = random.choice(("run", "text", "causal")), random.choice(sealed.USES), random.choice((1, 1, 2))

    def prepare(here: Path) -> str:
        model = here / run / "model"
        shutil.copytree(space.folder / run, here / run)
        config = json.loads((model / "config.json").read_text())
        about = {"about": config.pop("about")} if random.random() < 0.7 else {}  # long, and little depends on it
        content = bytearray(json.dumps(config).encode())
        said = ", ".join(edit_json(random, content, Path("nowhere")) for _ in range(edits))
        sealed.reseal(model, json.loads(content) | about)
        return f"{name} with {run}/model/config.json sealed again: {said}"

    return Case("files", index, prepare, lambda here: sealed.use(name, here / run))
