"""The claims, one per file, in the order of their numbers."""

import pkgutil
from importlib import import_module

from evidence.claim import Claim

_ALL: list[Claim] = [import_module(f"{__name__}.{found.name}").CLAIM for found in pkgutil.iter_modules(__path__)]
CLAIMS: dict[str, Claim] = {claim.name: claim for claim in sorted(_ALL, key=lambda claim: int(claim.name[1:]))}
"""All claims by name."""
