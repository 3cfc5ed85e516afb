r"""Judges: how probable samples are under something other than the model that drew them.

    generative perplexity = exp( sum_i nats_i / sum_i count_i ),      sums over samples i

A judge that reads text decodes the samples and tokenises them again, as its first `context` tokens.  Its first token is
context only, and of the tokens that end a document only the first one counts, as the field does with GPT-2: a sample
cannot gain by ending again and again.  A judge that reads tokens (an autoregressive run on the same tokenizer, an exact
oracle) gives the likelihood of all of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.data.base import Decode
from tokenloom.data.markov import markov_chain
from tokenloom.data.tokenizer import Tokenizer
from tokenloom.evaluation.causal_lm import CausalLM, load_causal_lm
from tokenloom.evaluation.likelihood import device_of, evaluating
from tokenloom.evaluation.metrics import distinct, unigram_entropy
from tokenloom.evaluation.runs import model_folder, open_run
from tokenloom.grouped_ratio import grouped_ratio
from tokenloom.markov_oracle import MarkovOracle
from tokenloom.model import DiffusionModel, architecture
from tokenloom.objectives import NextToken
from tokenloom.objectives.head_loss import loss_at
from tokenloom.oracle import ExactModel
from tokenloom.processes import Uniform
from tokenloom.training.config import DataConfig
from tokenloom.types import Tokens

BATCH = 64


@dataclass(frozen=True)
class Scores:
    """What a judge says of every sample: nats, and how many of its tokens they are the sum of."""

    nats: Float[Tensor, "batch"]
    count: Int[Tensor, "batch"]


class Judge(Protocol):
    """Anything that scores samples."""

    @property
    def name(self) -> str:
        """What a record calls it."""

    def score(self, tokens: Tokens, decode: Decode) -> Scores:
        """Of samples and the map from their tokens to text."""


@dataclass(frozen=True)
class Rating:
    """Generative perplexity never travels alone: with it go diversity, the judge and the sample size."""

    perplexity: float
    nats_per_token: float
    nats_error: float
    """Standard error of `nats_per_token` over samples."""
    entropy: float
    """Mean unigram entropy of a sample, in nats of the samples' own tokens."""
    entropy_error: float
    distinct_2: float
    judge: str
    samples: int
    judged_tokens: int


def rate(judge: Judge, tokens: Tokens, decode: Decode) -> Rating:
    """Score samples with a judge and measure their diversity."""
    scores, entropy = judge.score(tokens, decode), unigram_entropy(tokens)
    if not int(scores.count.sum()):
        raise ValueError(f"the judge {judge.name} found no token to score in {len(tokens)} samples; they are empty")
    nats, error = grouped_ratio(scores.nats, scores.count.double(), 1)
    mean, spread = grouped_ratio(entropy.cpu(), torch.ones(len(tokens), dtype=torch.float64), 1)
    two = distinct(tokens, min(2, tokens.shape[1]))
    judged = int(scores.count.sum())
    return Rating(math.exp(nats), nats, error, mean, spread, two, judge.name, len(tokens), judged)


@dataclass(frozen=True)
class TextJudge:
    """A causal language model with a tokenizer of its own."""

    model: CausalLM

    @property
    def name(self) -> str:
        return self.model.name

    def score(self, tokens: Tokens, decode: Decode) -> Scores:
        return self.score_texts(_texts(tokens, decode, self.model.end_text))

    def score_texts(self, texts: Sequence[str]) -> Scores:
        """Of texts in which documents are separated as the judge separates them."""
        ids = [row[: self.model.context] for row in self.model.encode(texts)]
        counted = [counts(row, self.model.end) for row in ids]
        nats = [float(values[flags].sum()) for values, flags in zip(self.model.token_nats(ids), counted, strict=True)]
        totals = torch.tensor([int(flags.sum()) for flags in counted], dtype=torch.int64)
        return Scores(torch.tensor(nats, dtype=torch.float64), totals)


def counts(ids: Sequence[int], end: int | None) -> Tensor:
    """Flags of the second to last token: all that end no document, and the first that does."""
    ends = torch.tensor([token == end for token in ids], dtype=torch.bool)
    first = ends & (ends.cumsum(0) == 1)
    return (~ends | first)[1:]


def _tokenizer_of(decode: Decode) -> Tokenizer | None:
    tokenizer = getattr(decode, "tokenizer", None)
    return tokenizer if isinstance(tokenizer, Tokenizer) else None


def _texts(tokens: Tokens, decode: Decode, end: str) -> list[str]:
    """Samples as text, with the judge's own end of a document in the place of theirs."""
    tokenizer, texts = _tokenizer_of(decode), decode(tokens)
    if tokenizer is None or tokenizer.end_of_sequence is None:
        return texts
    theirs = tokenizer.decode([tokenizer.end_of_sequence])
    return [text.replace(theirs, end) for text in texts]


@dataclass(frozen=True)
class RunJudge:
    """An autoregressive model of our own; it retokenises samples of another tokenizer."""

    name: str
    model: DiffusionModel
    tokenizer: Tokenizer | None

    def score(self, tokens: Tokens, decode: Decode) -> Scores:
        own, judges = _tokenizer_of(decode), self.tokenizer
        if judges is None or (own is not None and own.identity == judges.identity):
            rows = tokens.tolist()
        else:
            end = "" if judges.end_of_sequence is None else judges.decode([judges.end_of_sequence])
            rows = [ids.tolist() for ids in judges.encode_batch(_texts(tokens, decode, end))]
        network = architecture(self.model.network)
        rows = rows if network is None else [row[: network.config.length] for row in rows]
        nats = [value for start in range(0, len(rows), BATCH) for value in self._nats(rows[start : start + BATCH])]
        count = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        return Scores(torch.tensor(nats, dtype=torch.float64), count)

    @torch.inference_mode()
    def _nats(self, rows: list[list[int]]) -> list[float]:
        """Padded at the end, where no earlier token looks."""
        device = device_of(self.model, torch.device("cpu"))
        width = max(max(len(row) for row in rows), 1)
        tokens = torch.tensor([row + [0] * (width - len(row)) for row in rows], dtype=torch.int64, device=device)
        t = torch.zeros(len(rows), dtype=torch.float64, device=device)
        inside = torch.tensor([[column < len(row) for column in range(width)] for row in rows], device=device)
        with evaluating(self.model):
            noisy = NextToken().corrupt(self.model.process, tokens, t)
            losses = loss_at(self.model, NextToken(), tokens, noisy, inside.double()).per_token
        totals: list[float] = (losses * inside).sum(-1).tolist()
        return totals


@dataclass(frozen=True)
class OracleJudge:
    """The exact likelihood, where the law of the data is known."""

    oracle: ExactModel
    name: str = "exact likelihood"

    def score(self, tokens: Tokens, decode: Decode) -> Scores:
        nats = -self.oracle.log_likelihood(tokens).double().cpu()
        return Scores(nats, torch.full((len(tokens),), tokens.shape[1], dtype=torch.int64))


def load_judge(name: str, data: DataConfig | None = None) -> Judge:
    """A judge by name: `oracle` for markov data, an autoregressive run of ours, or any causal language model."""
    if name == "oracle":
        if data is None or data.kind != "markov":
            raise ValueError("the judge oracle knows the law of markov data only; name a language model or a run")
        chain = markov_chain(data.vocab_size, data.seed)
        return OracleJudge(MarkovOracle(*chain, data.length, Uniform(data.vocab_size)))
    if model_folder(name) is None:
        return TextJudge(load_causal_lm(name))
    run = open_run(name)
    if not run.model.causal:
        raise ValueError(f"a judge gives a likelihood to every token; {name} is no autoregressive run (--method ar)")
    return RunJudge(f"{run.name} (autoregressive run)", run.model, run.tokenizer)
