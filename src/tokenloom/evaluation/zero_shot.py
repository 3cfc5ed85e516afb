"""One cell of a zero-shot table: the likelihood of held-out data under a model, with all that makes it comparable.

Tokens of different tokenizers are different units, so text also gets nats per character.  A causal language model of
Hugging Face goes through the same rows as a run would, in its own tokens, each row after the end of a document.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import torch
import tyro

from tokenloom.drawing.randomness import starting_at
from tokenloom.evaluation.causal_lm import CausalLM
from tokenloom.evaluation.held_out import HeldOut, TextOptions, held_out, text_rows
from tokenloom.models.opening import Run
from tokenloom.models.threads import fit_threads
from tokenloom.models.tokenizer import Subwords
from tokenloom.objectives.likelihood import Likelihood, Workers, likelihood_of, nelbo
from tokenloom.objectives.nelbo import check_truncation
from tokenloom.objectives.time_integral import Times
from tokenloom.support.checks import check_least

Progress = Callable[[float], object]  # is called with the share of the work that is done


@dataclass(frozen=True)
class Settings:
    """Settings of a measurement: how many sequences and times, and how text is read."""

    sequences: int = 512
    """Held-out sequences, evenly spread; 0 for all."""
    samples: int = 4
    """Times per sequence; more sequences help more than more times."""
    times: Times = "stratified"
    """The times, spread evenly over [0, 1]: each shifted at random on its own, or (antithetic) all alike."""
    batch: int = 64
    """Rows per network call."""
    seed: int = 0
    """Seed of the times and of the noise."""
    truncated_at: float | None = None
    """Also measure the integral from this time on alone, as papers do (0.001); it is not a bound."""
    reading: Annotated[TextOptions, tyro.conf.arg(name="")] = field(default_factory=TextOptions)
    length: int | None = None
    """Tokens per row for language models; by default that of the first run."""

    def __post_init__(self) -> None:
        check_least(self, sequences=0, samples=1, batch=1)
        if self.truncated_at is not None:
            check_truncation(self.truncated_at)


@dataclass(frozen=True)
class Cell:
    """A likelihood, the data it is of, and the number of characters that were scored (None for other than text)."""

    held: HeldOut
    likelihood: Likelihood
    characters: int | None
    truncated: Likelihood | None = None
    """The integral from `truncated_at` on alone, where it was asked for."""

    @property
    def per_character(self) -> tuple[float, float] | None:
        """Nats per character of text and their standard error, for a known number of characters."""
        if not self.characters:
            return None
        figure, tokens_each = self.likelihood, self.likelihood.tokens / self.characters
        return figure.per_token * tokens_each, figure.per_token_error * tokens_each

    def record(self) -> dict[str, Any]:
        """Return everything as JSON."""
        nats, error = self.per_character or (None, None)
        return {
            "data": {"name": self.held.data.name, "entropy": self.held.data.entropy} | asdict(self.held.fingerprint),
            "likelihood": self.likelihood.record(),
            "truncated": None if self.truncated is None else self.truncated.record(),
            "per_character": {"nats": nats, "standard_error": error},
        }


def score_run(run: Run, workers: Workers, source: str | None, settings: Settings, on_progress: Progress) -> Cell:
    """Score a run on its own or other held-out data; several processes share the rows."""
    data = held_out(run, source, settings.reading)
    x_0, given = data.draw(settings.sequences or None, starting_at(settings.seed))

    def measured(truncated_at: float | None = None) -> Likelihood:
        how = (settings.samples, settings.times, starting_at(settings.seed), settings.batch, given)
        return nelbo(run.model, x_0, *how, workers=workers, on_progress=on_progress, truncated_at=truncated_at)

    threads = torch.get_num_threads()
    fit_threads(run.model, min(len(x_0), settings.batch), x_0.shape[1])
    found = measured()
    cut = None if settings.truncated_at is None or found.exact else measured(settings.truncated_at)
    torch.set_num_threads(threads)  # the next run may be of another size
    return Cell(data, found, data.data.characters(x_0), cut)


def score_language_model(model: CausalLM, source: str | None, settings: Settings, on_progress: Progress) -> Cell:
    """Score a causal language model on text in rows of its own tokens, each token given the row before it."""
    if source is None:
        raise ValueError(f"{model.name} is a language model without data of its own; name the text with --data")
    tokenizer = Subwords(model.tokenizer.backend_tokenizer.to_str())
    length = min(settings.length or 1024, model.context - 1)
    data = text_rows(source, tokenizer, length, settings.reading)
    x_0, _ = data.draw(settings.sequences or None, starting_at(settings.seed))
    start = [] if model.end is None else [model.end]
    values = model.token_nats([start + row for row in x_0.tolist()], on_progress)
    nats = torch.stack([row.sum() for row in values])
    count = torch.tensor([len(row) for row in values], dtype=torch.float64)
    found = likelihood_of(nats, count, 1, "exact, causal language model", exact=True)
    return Cell(data, found, data.data.characters(x_0))
