"""Discrete diffusion with uniform and masked noise, built on exact posteriors."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenloom.public import *  # noqa: F403

__version__ = "0.2.0"

# Threads of OpenMP spin while they wait for each other.  Where another program wants the cores too, a thread that spins
# keeps out the one that it waits for, and everything takes ten times as long.  It is read when PyTorch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def __getattr__(name: str) -> Any:
    """Return a public name, which loads PyTorch: until one is used, as for `tokenloom --help`, nothing is loaded."""
    if name.startswith("__") and name != "__all__":  # asked by tools that look at any module
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    public = import_module("tokenloom.public")
    if name == "__all__":  # without what jaxtyping's import hook adds to every module
        return sorted(each for each in vars(public) if each[0] != "_" and each != "jaxtyping")
    return getattr(public, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
