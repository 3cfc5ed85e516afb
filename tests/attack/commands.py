"""Random command lines: the options of every command, found from the types of its parameters, with any values."""

import inspect
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tests.attack.outcome import FoundError, WrongError
from tests.attack.worker import Case
from tests.attack.workspace import MARKOV, Workspace, command
from tokenloom.cli.registry import COMMANDS, made
from tokenloom.data.base import SOURCES
from tokenloom.evaluation.judges import JUDGES
from tokenloom.nn.base import NETWORKS
from tokenloom.objectives import OBJECTIVES
from tokenloom.samplers import CORRECTORS, PREDICTORS, STOPS
from tokenloom.schedules import SCHEDULES
from tokenloom.training.methods import methods

PLAIN = ("1", "2", "3", "4", "8") * 3
WHOLE = (*PLAIN, "0", "-1", "10000000", "1000000000000000000", "9" * 400, "1.5", "1e3", "nan", "x", "", "None")
NUMBERS = (*PLAIN, "0.1", "0.5", "0.9", "1", "0", "-0.1", "inf", "nan", "1e-46", "1e308", "1e999", "x", "", "None")
TEXTS = (
    "", " ", "x", "list", "none", "None", "..", ".", "device", "fifo", "a b", "\u2603", "[red]", "%s", "x" * 5000,
    "../x", "psi:kappa=2", "psi:kappa=x", "psi:", "psi:kapa=1", ":", "a:b=c,d", "informed:steps=0", "linear:eps=2",
    "informed:steps=2,parallel=3", "informed:steps=1000000000000", "polynomial:power=-1", "smollm2", "oracle", "-",
    "the c__t", "1,2,3", "sudoku4-udm-loo", "12343412214343..", "5" * 81, "." * 16, "." * 36, "out.png", "out.json",
    "markov", "text",
)  # fmt: skip
NAMES: dict[str, Iterable[str]] = {
    "--sampler": PREDICTORS, "--samplers": PREDICTORS, "--corrector": CORRECTORS, "--correctors": CORRECTORS,
    "--until": STOPS,
    "--method": (*methods(), "audm:noise=unigram", "udm:noise=x"),
    "--objective": OBJECTIVES, "--schedule": SCHEDULES, "--data.kind": SOURCES,
    "--network.kind": NETWORKS, "--judge": JUDGES,
}  # fmt: skip
"""Options whose values are the names of a registry."""
SHARES = {"train": 6, "sample": 5, "evaluate": 5, "frontier": 4, "probe": 3, "solve": 3, "play": 0, "evidence": 0}
"""How often a command is tried, against the others; never a server, which serves until it is stopped, nor what trains
for hours."""
NEVER = ("--help", "--compile", "--run.compile")
"""Options that are not tried: a compiler writes where the attack forbids it, and takes minutes."""
ENDLESS = ("--max-steps", "--max-minutes", "--minutes", "--tries", "--run.wandb", "--workers")
"""Options whose large values are legitimate, and take forever (or a network)."""
BASES = {
    "train": f"train {MARKOV} --max-steps 1 --out new",
    "sample": "sample {space}/{run} --num 2 --steps 2",
    "evaluate": "evaluate {space}/{run} --sequences 2 --samples 1 --out out",
    "probe": "probe {space}/{run} --sequences 2 --positions 1 --times 0.5 --out out",
    "frontier": "frontier {space}/{judged} --judge {judge} --steps 2 --top-p 1 --num 2 --out out",
    "solve": "solve 12343412214343.. --steps 2 --tries 1",
    "quickstart": "quickstart --minutes 0.001 --puzzles 1 --out out",
}
"""A command line of each command that works, and takes a second."""


def case(seed: int, index: int, space: Workspace) -> Case:
    """The try of this number."""
    random = Random(f"commands {seed} {index}")
    name = random.choice([name for name in COMMANDS for _ in range(SHARES.get(name, 1))])
    arguments = _base(name, random, space)
    function = made(name, arguments)
    options = [*_of_function(function)] if inspect.isfunction(function) else []
    options = [option for option in options if option[0] not in NEVER]
    for _ in range(random.choice((1, 1, 2, 3))):
        if options:
            arguments += _given(random, *random.choice(options), space)
    if random.random() < 0.1:
        arguments.insert(random.randrange(len(arguments) + 1), random.choice(("--unknown", "--out", *TEXTS)))
    real = random.random() < 0.01
    words = [repr(argument) if " " in argument or not argument else argument[:80] for argument in arguments]
    line = ("(as a process) " if real else "") + " ".join(words).replace(str(space.folder), "...")

    def prepare(here: Path) -> str:
        (here / "device").symlink_to("/dev/zero")  # names that lead to what is not a file
        os.mkfifo(here / "fifo")
        return f"tokenloom {line}"

    return Case("commands", index, prepare, lambda here: _run(arguments, real), 60 if real else 10)


def _run(arguments: list[str], real: bool) -> None:
    if real:
        whole = [sys.executable, "-m", "tokenloom", *arguments]
        ended = subprocess.run(whole, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if ended.returncode not in (0, 1, 2) or "Traceback" in ended.stderr:
            raise FoundError(("traceback", f"status {ended.returncode}: {ended.stderr[-200:]}", "a process"))
    else:
        command(*arguments)
    for name, right in (("device", Path.is_symlink), ("fifo", Path.is_fifo)):
        if not right(Path(name)):
            raise WrongError(f"the {name} that --out named was replaced by a file")


def _base(name: str, random: Random, space: Workspace) -> list[str]:
    """The words of a line of `BASES` with some model."""
    run = random.choice(("run", "run", "text", "causal", "whole/model"))
    judged, judge = random.choice((("run", "oracle"), ("text", f"{space.folder}/causal")))
    line = BASES.get(name, name).format(space=space.folder, run=run, judged=judged, judge=judge)
    return line.split()


def _given(random: Random, option: str, kind: Any, space: Workspace) -> list[str]:
    """An option with a value of its type, or of any other."""
    union = get_origin(kind) in (Union, types.UnionType)
    kind = random.choice([part for part in get_args(kind) if part is not type(None)] if union else [kind])
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if kind is bool:
        return [option.replace("--", random.choice(("--", "--no-")), 1)]
    if get_origin(kind) is tuple:
        values = [random.choice(_values(get_args(kind)[0], option, space)) for _ in range(random.randrange(3))]
        return [option, *values]
    return [option, random.choice(_values(kind, option, space))]


def _values(kind: Any, option: str, space: Workspace) -> tuple[str, ...]:
    if get_origin(kind) is Literal:
        return (*map(str, get_args(kind)), *map(str, get_args(kind)), "", "x", "1")
    if option in ENDLESS:
        return ("0", "-1", "x", "", "nan", "None", *(() if "minutes" in option else ("1", "1.5")))
    if kind in (int, float):
        return WHOLE if kind is int else NUMBERS
    if option in NAMES:
        return (*sorted(NAMES[option]) * 5, *TEXTS)
    places = tuple(str(space.folder / name) for name in ("run", "text", "run/model", "run/config.json", "data", "lm"))
    return (*TEXTS, *places * 3)


def _of_function(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """The options of a command and their types."""
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        yield from _of_type(parameter.name, hints[parameter.name], parameter.default, "--")


def _of_type(name: str, kind: Any, default: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """An option, or those of a dataclass: nested under its name, or beside the others where it is named ""."""
    extras = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    plain = get_args(kind)[0] if extras else kind
    if not is_dataclass(plain) and not is_dataclass(default):
        if not any("Positional" in str(extra) for extra in extras):
            yield prefix + name.replace("_", "-"), plain
        return
    named = next((extra.name for extra in extras if getattr(extra, "name", None) is not None), name)
    inner = prefix if named == "" else f"{prefix}{named}."
    owner: Any = type(default) if is_dataclass(default) else plain
    hints = get_type_hints(owner, include_extras=True)
    for item in fields(owner):
        yield from _of_type(item.name, hints[item.name], getattr(default, item.name, None), inner)
