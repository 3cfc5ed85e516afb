r"""Judges: how probable samples are under something other than the model that drew them.

    generative perplexity = exp( sum_i nats_i / sum_i count_i ),      sums over samples i

A judge that reads text decodes the samples and tokenises them again, as its first `context` tokens.  Its first token is
context only, and of the tokens that end a document only the first one counts, as the field does with GPT-2: a sample
cannot gain by ending again and again.  A judge that reads tokens (an autoregressive run on the same tokenizer, an exact
oracle) gives the likelihood of all of them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.data.base import Source
from tokenloom.data.decoder import Decoder
from tokenloom.evaluation.causal_lm import CausalLM, load_causal_lm
from tokenloom.evaluation.harness.bounds import Row, Scorer
from tokenloom.evaluation.metrics import distinct, unigram_entropy
from tokenloom.models.model import DiffusionModel
from tokenloom.models.opening import open_run
from tokenloom.models.store import model_folder
from tokenloom.objectives.grouped_ratio import grouped_ratio
from tokenloom.oracles.exact import ExactModel
from tokenloom.support.registry import Registry
from tokenloom.types import Tokens


@dataclass(frozen=True)
class Scores:
    """Negative log-likelihood of every sample under a judge, and the number of its tokens that were scored."""

    nats: Float[Tensor, "batch"]
    count: Int[Tensor, "batch"]


class Judge(ABC):
    """Anything that scores samples; `title` is its name in records."""

    title: str
    reads_text: ClassVar[bool] = False
    """True if samples must be text."""

    @classmethod
    @abstractmethod
    def load(cls, name: str, source: Source | None) -> "Judge":
        """Load the judge of a name, for samples of a model that was trained on a source."""

    @abstractmethod
    def score(self, tokens: Tokens, decode: Decoder) -> Scores:
        """Return the nats of samples, which `decode` turns into text."""


JUDGES: Registry[Judge] = Registry("judge", "tokenloom.judges", "tokenloom.evaluation")
"""Judges that are known by a name of their own; any other name is a run or a language model."""


@dataclass(frozen=True)
class Rating:
    """Generative perplexity never travels alone: with it go diversity, the judge, sample size and standard errors."""

    perplexity: float
    nats_per_token: float
    """The judge's nats over the tokens that it scored; the perplexity is their exponential."""
    nats_error: float
    entropy: float
    """Mean unigram entropy of a sample, in nats of the samples' own tokens."""
    entropy_error: float
    distinct_2: float
    """Share of different pairs among all pairs of neighbouring tokens."""
    judge: str
    samples: int
    judged_tokens: int


def rate(judge: Judge, tokens: Tokens, decode: Decoder) -> Rating:
    """Score samples with a judge and measure their diversity."""
    scores, entropy = judge.score(tokens, decode), unigram_entropy(tokens)
    judged = int(scores.count.sum())
    if not judged:
        raise ValueError(f"the judge {judge.title} found no token to score in {len(tokens)} samples; they are empty")
    nats, error = grouped_ratio(scores.nats, scores.count.double(), 1)
    if math.isnan(nats):
        raise ValueError(f"the scores of the judge {judge.title} are NaN, so its weights are damaged; get them again")
    mean, spread = grouped_ratio(entropy.cpu(), torch.ones(len(tokens), dtype=torch.float64), 1)
    two = distinct(tokens, min(2, tokens.shape[1]))
    perplexity = math.exp(nats) if nats < 700 else math.inf  # beyond which exp overflows
    return Rating(perplexity, nats, error, mean, spread, two, judge.title, len(tokens), judged)


@dataclass(frozen=True)
class TextJudge(Judge):
    """A causal language model with a tokenizer of its own."""

    title: str
    model: CausalLM
    reads_text = True

    @classmethod
    def load(cls, name: str, source: Source | None) -> "TextJudge":
        model = load_causal_lm(name)
        return cls(model.name, model)

    def score(self, tokens: Tokens, decode: Decoder) -> Scores:
        _check_text(self.title, decode)
        end = "" if self.model.end is None else self.model.tokenizer.convert_ids_to_tokens(self.model.end)
        return self.score_texts(_texts(tokens, decode, end))

    def score_texts(self, texts: Sequence[str]) -> Scores:
        """Score texts in which documents are separated as the judge separates them."""
        ids = [row[: self.model.context] for row in self.model.encode(texts)]
        counted = [counts(row, self.model.end) for row in ids]
        nats = [float(values[flags].sum()) for values, flags in zip(self.model.token_nats(ids), counted, strict=True)]
        totals = torch.tensor([int(flags.sum()) for flags in counted], dtype=torch.int64)
        return Scores(torch.tensor(nats, dtype=torch.float64), totals)


def counts(ids: Sequence[int], end: int | None) -> Tensor:
    """Flag the tokens that count, from the second on: those that end no document, and the first that does."""
    ends = torch.tensor([token == end for token in ids], dtype=torch.bool)
    first = ends & (ends.cumsum(0) == 1)
    return (~ends | first)[1:]


def _texts(tokens: Tokens, decode: Decoder, end: str) -> list[str]:
    """Return samples as text, with the judge's own end of a document in the place of theirs."""
    tokenizer, texts = decode.tokenizer, decode(tokens)
    if tokenizer is None or tokenizer.end_of_sequence is None:
        return texts
    theirs = tokenizer.decode([tokenizer.end_of_sequence])
    return [text.replace(theirs, end) for text in texts]


@dataclass(frozen=True)
class RunJudge(Judge):
    """An autoregressive run; samples of another tokenizer are decoded and tokenised again."""

    title: str
    model: DiffusionModel

    @classmethod
    def load(cls, name: str, source: Source | None) -> "RunJudge":
        run = open_run(name)
        if not run.model.causal:
            raise ValueError(
                f"a judge gives a likelihood to every token; {name} is not an autoregressive run (--method ar)"
            )
        return cls(f"{run.name} (autoregressive run)", run.model)

    def score(self, tokens: Tokens, decode: Decoder) -> Scores:
        own, judges = decode.tokenizer, self.model.tokenizer
        if judges is None or (own is not None and own.identity == judges.identity):
            ids = tokens.tolist()
        else:
            _check_text(self.title, decode)
            end = "" if judges.end_of_sequence is None else judges.decode([judges.end_of_sequence])
            ids = [row.tolist() for row in judges.encode_batch(_texts(tokens, decode, end))]
        rows = [Row(tuple(row[: self.model.length]), 0, "") for row in ids]
        return Scores(Scorer(self.model).exact_nats(rows), torch.tensor([row.free for row in rows], dtype=torch.int64))


@JUDGES.register("oracle")
@dataclass(frozen=True)
class OracleJudge(Judge):
    """The exact likelihood, where the law of the data is known."""

    oracle: ExactModel
    title: str = "exact likelihood"

    @classmethod
    def load(cls, name: str, source: Source | None) -> "OracleJudge":
        if source is not None and (oracle := source.oracle()) is not None:
            return cls(oracle)
        raise ValueError("the judge oracle needs data whose law is known, as markov; name a language model or a run")

    def score(self, tokens: Tokens, decode: Decoder) -> Scores:
        nats = -self.oracle.log_likelihood(tokens).double().cpu()
        return Scores(nats, torch.full((len(tokens),), tokens.shape[1], dtype=torch.int64))


def load_judge(name: str, source: Source | None = None) -> Judge:
    """Load a judge by name: a registered one, an autoregressive run of ours, or any causal language model."""
    return _kind(name).load(name, source)


def check_judge(name: str, decode: Decoder) -> None:
    """Raise, before it is loaded, if a language model is asked about samples that `decode` does not turn into text."""
    if _kind(name).reads_text:
        _check_text(name, decode)


def _kind(name: str) -> type[Judge]:
    if name in JUDGES:
        return JUDGES[name]
    return TextJudge if model_folder(name) is None else RunJudge


def _check_text(judge: str, decode: Decoder) -> None:
    if decode.tokenizer is None:
        raise ValueError(
            f"{judge} is a language model and judges text, which these samples are not; name as --judge an "
            "autoregressive run (--method ar) on the same data, or oracle where the law of the data is known"
        )
