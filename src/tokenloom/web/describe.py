"""Descriptions of models for the page, with forms that are generated from the registries of kernels.

A kernel that somebody registers appears automatically, with a field for every option that can be written as text.
"""

import inspect
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from docstring_parser import parse_from_object

from tokenloom.process import Process
from tokenloom.samplers import CORRECTORS, PREDICTORS, Kernel
from tokenloom.support.registry import Registry, kinds_of, options_of
from tokenloom.web.library import Entry
from tokenloom.web.requests import Limits

SMALL = 512
"""The largest vocabulary that is sent whole."""
KINDS = {int: "whole", float: "number", bool: "flag", str: "text"}


def describe(entry: Entry, process: str | None, limits: Limits) -> dict[str, Any]:
    """Describe one model under one process."""
    model = entry.model(process)
    size, law = model.process.vocab_size, model.process
    longest = limits.longest(model.length)
    masks = list(range(size, law.num_states)) + ([] if law.mask_in_vocabulary is None else [law.mask_in_vocabulary])
    return {
        "name": entry.name,
        "process": law.name,
        "processes": list(entry.models),
        "view": entry.layout,
        "vocab": size,
        "masks": masks,
        "length": longest,
        "fixed": entry.decoder.tokenizer is None,
        "predicts": model.predicts.__name__,
        "causal": model.causal,
        "data": model.about.data,
        "parameters": sum(part.numel() for part in model.parameters()),
        "pieces": {str(token): entry.decoder.piece(token) for token in range(size)} if size <= SMALL else {},
        "samplers": kernels(PREDICTORS, law),
        "correctors": [] if model.causal else kernels(CORRECTORS, law),
        "limits": {"steps": limits.steps, "length": longest, "tries": limits.tries},
    }


def kernels(registry: Registry[Any], process: Process) -> list[dict[str, Any]]:
    """Describe the kernels that support a process, each with its form; ancestral sampling comes first."""
    able = [registry[name] for name in registry if registry[name].supports(process)]
    return [_kernel(kind) for kind in sorted(able, key=lambda kind: (kind.name != "ancestral", kind.name))]


def _kernel(kind: type[Kernel]) -> dict[str, Any]:
    return {
        "name": kind.name,
        "about": " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split()),
        "exact": kind().exact,
        "options": [option for item in fields(kind) if item.init and (option := _option(kind, item)) is not None],
    }


def _option(kind: type[Kernel], item: Field[Any]) -> dict[str, Any] | None:
    """Describe a field of the form; None for what cannot be written as text, such as a kernel inside another."""
    hint = next(part for part in kinds_of(options_of(kind)[item.name]) if part is not NoneType)
    default = None if item.default is MISSING else item.default
    shared = {"name": item.name, "help": field_help(kind).get(item.name, ""), "default": default}
    if get_origin(hint) is Literal:
        return shared | {"kind": "choice", "choices": list(get_args(hint))}
    return shared | {"kind": KINDS[hint]} if hint in KINDS else None


@cache
def field_help(part: type) -> dict[str, str]:
    """Return the docstring of every field of a dataclass, those of its parents included."""
    return {
        param.arg_name: " ".join((param.description or "").split())
        for kind in reversed(part.__mro__)
        if is_dataclass(kind)
        for param in parse_from_object(kind).params
    }
