"""One cell of a zero-shot table: the likelihood of held-out data under a model, with all that makes it comparable.

Tokens of different tokenizers are different units, so text also gets nats per character.  A causal language model of
Hugging Face goes through the same rows as a run would, in its own tokens, each row after the end of a document.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import torch
import tyro

from tokenloom.evaluation.causal_lm import CausalLM
from tokenloom.evaluation.held_out import HeldOut, TextOptions, held_out, text_rows
from tokenloom.evaluation.runs import Run
from tokenloom.models.tokenizer import Subwords
from tokenloom.objectives.likelihood import ALONE, Likelihood, Workers, likelihood_of, nelbo
from tokenloom.objectives.time_integral import Times
from tokenloom.support.checks import check_least
from tokenloom.types import Tokens

Progress = Callable[[float], object]
"""What receives the share of the work that is done."""
LONGEST = 1024
"""Tokens per row for a language model that reads more."""


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    rows: int = 512
    """Held-out sequences, evenly spread; 0 for all."""
    samples: int = 4
    """Times per sequence; more sequences help more than more times."""
    times: Times = "stratified"
    batch: int = 64
    """Rows per network call."""
    seed: int = 0
    reading: Annotated[TextOptions, tyro.conf.arg(name="")] = field(default_factory=TextOptions)
    length: int | None = None
    """Tokens per row for language models; by default that of the first run."""

    def __post_init__(self) -> None:
        check_least(self, rows=0, samples=1, batch=1)

    @property
    def count(self) -> int | None:
        """Rows to take, or None for all."""
        return self.rows or None


@dataclass(frozen=True)
class Cell:
    """A figure and what it is of."""

    data: HeldOut
    likelihood: Likelihood
    characters: int | None

    @property
    def per_character(self) -> float | None:
        """Nats per character of text."""
        return None if not self.characters else self.likelihood.per_token * self.likelihood.tokens / self.characters

    @property
    def per_character_error(self) -> float | None:
        """The standard error of `per_character`, for a known number of characters."""
        error = self.likelihood.per_token_error
        return None if not self.characters else error * self.likelihood.tokens / self.characters

    def record(self) -> dict[str, Any]:
        """Everything, as JSON."""
        figure = self.likelihood
        return {
            "data": {"name": self.data.name, "entropy": self.data.entropy} | asdict(self.data.fingerprint),
            "likelihood": figure.record(),
            "per_character": {"nats": self.per_character, "standard_error": self.per_character_error},
        }


def score_run(
    run: Run,
    source: str | None,
    settings: Settings,
    on_progress: Progress = lambda share: None,
    workers: Workers = ALONE,
) -> Cell:
    """A run on its own or other held-out data; several processes share the rows."""
    data = held_out(run, source, settings.reading)
    generator = torch.Generator().manual_seed(settings.seed)
    x_0, given = data.draw(settings.count, generator)
    how = (settings.samples, settings.times, generator, settings.batch, given)
    found = nelbo(run.model, x_0, *how, workers=workers, on_progress=on_progress)
    return Cell(data, found, data.characters(x_0))


def score_language_model(
    model: CausalLM, source: str, settings: Settings, on_progress: Progress = lambda share: None
) -> Cell:
    """A causal language model on text, in rows of its own tokens."""
    tokenizer = Subwords(model.tokenizer.backend_tokenizer.to_str())
    length = min(settings.length or LONGEST, model.context - 1)
    data = text_rows(source, tokenizer, length, settings.reading)
    x_0, _ = data.draw(settings.count, torch.Generator().manual_seed(settings.seed))
    return Cell(data, causal_likelihood(model, x_0, on_progress), data.characters(x_0))


def causal_likelihood(model: CausalLM, x_0: Tokens, on_progress: Progress = lambda share: None) -> Likelihood:
    """Every token of every row given the row before it; the first after the end of a document, where there is one."""
    start = [] if model.end is None else [model.end]
    values = model.token_nats([start + row for row in x_0.tolist()], on_progress)
    nats = torch.stack([row.sum() for row in values])
    count = torch.tensor([len(row) for row in values], dtype=torch.float64)
    return likelihood_of(nats, count, 1, "exact, causal language model", exact=True)
