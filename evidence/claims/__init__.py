"""The claims, one per file, in the order of their names."""

import pkgutil
from importlib import import_module

from evidence.claim import Claim

CLAIMS: dict[str, Claim] = {
    claim.name: claim
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__))
    for claim in [import_module(f"{__name__}.{module}").CLAIM]
}
"""All claims by name."""
