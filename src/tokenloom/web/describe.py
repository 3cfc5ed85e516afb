"""What the page needs to know: models, and forms that are generated from the registries of kernels.

A kernel that somebody registers appears automatically, with a field for every option that can be written as text.
"""

from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from tokenloom.models.opening import Run
from tokenloom.process import Process
from tokenloom.samplers import CORRECTORS, PREDICTORS, Kernel
from tokenloom.sudoku.solver import box_shape
from tokenloom.sudoku.text import SIDES
from tokenloom.support.registry import Registry, options_of
from tokenloom.web.library import Entry
from tokenloom.web.limits import Limits
from tokenloom.web.option_help import field_help, first_sentence

SMALL = 512
"""Vocabularies up to this size are sent whole."""
KINDS = {int: "whole", float: "number", bool: "flag", str: "text"}


def describe(entry: Entry, process: str | None, limits: Limits) -> dict[str, Any]:
    """One model under one process."""
    run = entry.run(process)
    model, about = run.model, run.model.about
    size, law = model.process.vocab_size, model.process
    longest = min(limits.length, model.length or limits.length)
    masks = list(range(size, law.num_states)) + ([] if law.mask_in_vocabulary is None else [law.mask_in_vocabulary])
    return {
        "name": entry.name,
        "process": law.name,
        "processes": entry.processes,
        "view": _view(run, entry),
        "vocab": size,
        "masks": masks,
        "length": longest,
        "fixed": entry.decoder.tokenizer is None,
        "predicts": model.predicts.__name__,
        "causal": model.causal,
        "data": about.data,
        "trained": about.step,
        "parameters": sum(part.numel() for part in model.parameters()),
        "pieces": {str(token): entry.decoder.piece(token) for token in range(size)} if size <= SMALL else {},
        "samplers": kernels(PREDICTORS, law),
        "correctors": [] if model.causal else kernels(CORRECTORS, law),
        "limits": {"steps": limits.steps, "length": longest, "tries": limits.tries},
    }


def _view(run: Run, entry: Entry) -> dict[str, Any]:
    """How its sequences are drawn: a Sudoku, a picture, text or numbers."""
    source, length = run.model.about.source or {}, run.model.length
    if source.get("kind") == "sudoku" and length in SIDES:
        height, width = box_shape(SIDES[length])
        return {"kind": "sudoku", "side": SIDES[length], "height": height, "width": width}
    if entry.decoder.side is not None:
        return {"kind": "pixels", "side": entry.decoder.side}
    return {"kind": "text" if entry.decoder.is_text else "numbers"}


def kernels(registry: Registry[Any], process: Process) -> list[dict[str, Any]]:
    """The kernels that serve a process, each with its form."""
    able = [registry[name] for name in registry if registry[name].supports(process)]
    first = "ancestral"
    return [_kernel(kind) for kind in sorted(able, key=lambda kind: (kind.name != first, kind.name))]


def _kernel(kind: type[Kernel]) -> dict[str, Any]:
    return {
        "name": kind.name,
        "about": first_sentence(kind),
        "needs": kind.needs,
        "exact": kind().exact,
        "options": [option for item in fields(kind) if item.init and (option := _option(kind, item.name)) is not None],
    }


def _option(kind: type[Kernel], name: str) -> dict[str, Any] | None:
    """The field of a form; None for what cannot be written as text, such as a kernel inside another."""
    hint, optional = options_of(kind)[name], False
    if get_origin(hint) in (Union, UnionType):
        kinds = [part for part in get_args(hint) if part is not NoneType]
        optional, hint = len(kinds) < len(get_args(hint)), kinds[0]
    default = next(item.default for item in fields(kind) if item.name == name)
    shared = {"name": name, "help": field_help(kind).get(name, ""), "optional": optional}
    shared["default"] = None if default is MISSING else default
    if get_origin(hint) is Literal:
        return shared | {"kind": "choice", "choices": list(get_args(hint))}
    return shared | {"kind": KINDS[hint]} if hint in KINDS else None
