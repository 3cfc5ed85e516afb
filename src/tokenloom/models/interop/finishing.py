"""The last step of every import: a network and the meaning of its output become a model with its origin."""

import hashlib
from dataclasses import dataclass
from typing import Any

from tokenloom.models.interop.families import Plan
from tokenloom.models.interop.source import Located
from tokenloom.models.model import DiffusionModel
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.nn.base import Network
from tokenloom.support.about import About
from tokenloom.support.reading import file_sum


@dataclass(frozen=True)
class Imported:
    """A model, and what was found and done, as rows of a table."""

    model: DiffusionModel
    report: dict[str, str]


def finish(
    located: Located,
    plan: Plan,
    network: Network,
    tokenizer: Tokenizer | None,
    report: dict[str, str],
    weights: str = "as stored",
    hub_tokenizer: str = "",
) -> Imported:
    """Build the model; `report` holds the rows that depend on the kind of network."""
    sums = [file_sum(path) for path in located.weights]
    origin: dict[str, Any] = {
        "family": plan.family,
        "source": located.name,
        "revision": located.revision,
        "file": located.weights[0].name,
        "sha256": sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest(),
        "weights": weights,
        "notes": list(plan.notes),
    }
    rows = {"kind": "text", "length": network.length, "tokenizer": hub_tokenizer, "packing": plan.packing}
    about = About(origin=origin, source=None if tokenizer is None else rows)
    common = {
        "family": plan.family,
        "weights": f"{origin['file']}, {weights}",
        "process": f"{plan.process.title}, {plan.process.schedule}",
        "predicts": f"{plan.predicts.__name__}: {plan.why}",
        "tokenizer": "none" if tokenizer is None else f"{tokenizer.vocab_size:,} ids, rows cut as {plan.packing!r}",
    }
    beware = {f"beware {number}": note for number, note in enumerate(plan.notes, 1)}
    model = DiffusionModel(network.eval(), plan.process, None, plan.predicts, tokenizer, about)
    return Imported(model, common | report | beware)
