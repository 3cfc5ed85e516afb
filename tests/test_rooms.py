"""The rooms of the package: an import only ever points up the list, and `import tokenloom` opens few of them."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "tokenloom"
Walks = dict[str, dict[str, int]]
ROOMS = (
    ("support", "types", "schedules", "state", "posteriors"),
    ("drawing",),
    ("noise",),
    ("couplings",),
    ("process", "cells"),
    ("oracles",),
    ("nn",),
    ("models",),
    ("objectives",),
    ("samplers",),
    ("testing",),
    ("data",),
    ("training",),
    ("evaluation",),
    ("web", "cli", "diffusers"),
    ("sudoku",),  # below everything: a vertical is found through entry points alone
)
LEVELS = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
OUTSIDE = ("__init__", "__main__", "public")
"""The package itself, which shows what is in its rooms, and the command."""
TYPES_ALONE = {("couplings", "process")}
"""Rooms that name another in annotations alone: a process is made of its coupling, which is asked about the process."""


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """The lines and rooms of all imports from the package, wherever in a file they stand."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    unread = [node for block in blocks if ast.unparse(block.test) == "TYPE_CHECKING" for node in block.body]
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports by a relative name"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, room, *_ = [*name.split("."), ""]
            if package == "tokenloom" and not (node in unread and (room_of(path), room) in TYPES_ALONE):
                yield getattr(node, "lineno", 0), room


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if room_of(path) not in OUTSIDE)


def test_every_module_is_in_a_room_of_the_list() -> None:
    assert {room_of(path) for path in modules()} == set(LEVELS)


@pytest.mark.parametrize("room", list(LEVELS))
def test_imports_point_up_the_list(room: str) -> None:
    """So nothing imports the vertical, the last of them."""
    wrong = []
    for path in (path for path in modules() if room_of(path) == room):
        for line, other in imported(path):
            if other in LEVELS and LEVELS[other] > LEVELS[room]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {other}")
            elif other not in LEVELS and other != "__version__":
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {other or 'the package itself'}")
    assert wrong == []


@pytest.mark.parametrize(
    ("room", "known"), [("support", {"support", "types"}), ("evaluation", set(LEVELS) - {"training"})]
)
def test_some_rooms_know_fewer_still(room: str, known: set[str]) -> None:
    found = {other for path in modules() if room_of(path) == room for _, other in imported(path)}
    assert found - {"__version__"} <= known


@pytest.mark.parametrize("room", ["data", "training"])
def test_the_laboratory_does_not_know_its_verticals(room: str) -> None:
    """A vertical registers its data, network and recipes: another one needs no line here."""
    words = re.compile(r"puzzle|sudoku(?!\d)", re.IGNORECASE)  # recipes such as sudoku4 are examples in a help text
    found = [path for path in modules() if room_of(path) == room and words.search(path.read_text(encoding="utf-8"))]
    assert found == []


def test_using_the_package_loads_no_training_no_evaluation_no_command_and_no_data() -> None:
    code = "import json, sys, tokenloom; tokenloom.sample; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "tokenloom.samplers.sampler" in loaded
    for name in ("training", "evaluation", "cli", "web", "data", "sudoku", "diffusers"):
        assert not {module for module in loaded if module.startswith(f"tokenloom.{name}")}
    heavy = {"rich", "tyro", "starlette", "uvicorn", "matplotlib", "lightning_fabric", "lm_eval", "diffusers"}
    assert not loaded & (heavy | {"transformers", "tokenizers", "datasets"})


@pytest.fixture(scope="module")
def walks() -> Walks:
    script = ROOT.parents[1] / "scripts" / "walk.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    found: Walks = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("what", "calls", "changes"), [("ancestral step", 180, 40), ("training_loss", 180, 25)])
def test_a_step_and_a_batch_are_a_short_walk(what: str, calls: int, changes: int, walks: Walks) -> None:
    assert walks[what]["calls"] <= calls
    assert walks[what]["changes"] <= changes
