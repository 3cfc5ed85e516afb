r"""Counts of n-grams as reference lines: the held-out nats per token of the orders 1 to 3.

Each order adds to the counts after a history h as many observations as it saw different tokens there, d(h), at least
one, spread as the order below says (Witten and Bell), down to the uniform law of K tokens:

    p_n(x | h) = ( c(h x) + d(h) p_{n-1}(x | h') ) / ( c(h) + d(h) ),      p_0 = 1/K,

with h' the history without its first token.  With a single observation added, the third order would be worse than the
second on text as short as ours.
A row is scored as networks score it, without what came before: its first tokens have shorter histories.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from evidence.groups import group_means
from evidence.measures.base import Measure
from evidence.runs import Place, Run
from tokenloom.types import PerRow, Tokens

ORDERS = (1, 2, 3)
History = tuple[int, ...]


class Counts:
    """How often every n-gram up to an order was seen and every history before a token, and what followed it."""

    def __init__(self, rows: Tokens, vocab_size: int, order: int) -> None:
        self.vocab_size, self.order = vocab_size, order
        self.grams, self.histories, self.followers = Counter[History](), Counter[History](), Counter[History]()
        for row in rows.tolist():
            for size in range(1, order + 1):
                for end in range(size, len(row) + 1):
                    gram = tuple(row[end - size : end])
                    self.followers[gram[:-1]] += gram not in self.grams
                    self.grams[gram] += 1
                    self.histories[gram[:-1]] += 1

    def probability(self, gram: History) -> float:
        """The probability of the last token after the others."""
        if not gram:
            return 1 / self.vocab_size
        below, added = self.probability(gram[1:]), max(1, self.followers[gram[:-1]])
        return (self.grams[gram] + added * below) / (self.histories[gram[:-1]] + added)

    def nats(self, rows: Tokens) -> PerRow:
        """The mean nats per token of every row."""
        found = [
            sum(-math.log(self.probability(tuple(row[max(0, at + 1 - self.order) : at + 1]))) for at in range(len(row)))
            for row in rows.tolist()
        ]
        return torch.tensor(found, dtype=torch.float64) / rows.shape[1]


@dataclass(frozen=True)
class NGrams(Measure):
    """Nats per token of the held-out rows, by order."""

    name: str = "n-grams"

    def settings(self, run: Run, place: Place) -> dict[str, Any]:
        return {"rows": place.setting(run.setting).scored, "orders": list(ORDERS)}

    def of(self, run: Run, place: Place) -> dict[str, Any]:
        chosen = place.setting(run.setting)
        data = chosen.source.load()
        found = {
            order: Counts(data.train, data.vocab_size, order).nats(data.valid[: chosen.scored]) for order in ORDERS
        }
        return {
            str(order): {"per_token": float(nats.mean()), "per_token_groups": group_means(nats)}
            for order, nats in found.items()
        }
