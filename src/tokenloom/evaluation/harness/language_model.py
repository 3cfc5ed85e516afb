"""The harness's model interface, registered as `tokenloom`.  This module needs lm_eval, the package does not.

    loglikelihood          the bound of log p(continuation | context), a sum in nats (`bounds.py`)
    loglikelihood_rolling  the same of a whole text, cut into disjoint windows of the model's length
    generate_until         any sampler: the context is given, `max_gen_toks` positions are open

Context and continuation are tokenised together and parted after the tokens of the context.  An empty context is no
context: no token stands in for it.  A context that is too long loses its beginning, as is usual there.

Both ends of a sequence are visible to a model that is not causal: log p and text are for exactly this length.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import postprocess_generated_text
from torch import nn
from tqdm import tqdm  # type: ignore[import-untyped]

from tokenloom.drawing.randomness import RowGenerators, derive_seed
from tokenloom.evaluation.harness import HarnessOptions
from tokenloom.evaluation.harness.bounds import Estimate, Row, Scorer
from tokenloom.models.opening import load
from tokenloom.models.protocol import Model
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.types import Tokens


@register_model("tokenloom")
class TokenloomLM(TemplateLM):
    """A model that `tl.load` knows (`pretrained=folder`), or a model object, an oracle for instance."""

    def __init__(
        self,
        pretrained: str | Path | Model | None = None,
        tokenizer: Tokenizer | None = None,
        device: str | torch.device | None = None,
        max_batch_size: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if pretrained is None:
            raise ValueError("name a model, as in --model_args pretrained=FOLDER")
        self.options = HarnessOptions.of(options)
        self.model: Model = load(pretrained) if isinstance(pretrained, str | Path) else pretrained
        if device is not None and isinstance(self.model, nn.Module):
            self.model.to(device if torch.cuda.is_available() or "cuda" not in str(device) else "cpu")
        self._device = self.model.device or torch.device("cpu")
        found = tokenizer or self.model.tokenizer
        if found is None:
            raise ValueError("the harness asks in text, and this model carries no tokenizer; pass tokenizer=")
        self.tokenizer = found
        self.sampler = self.options.sampler_value()
        self.scorer = Scorer(self.model, self.options.samples, self.options.batch_size, self.options.seed)
        self.errors: list[float] = []  # that noise leaves on each log-likelihood, in nats
        self.shortened = 0  # requests whose context lost its beginning

    @property
    def eot_token_id(self) -> int | None:
        """The token that ends a text, if the tokenizer has one."""
        return self.tokenizer.end_of_sequence

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        return self.tokenizer.encode(string)

    def get_model_info(self) -> dict[str, Any]:
        """Return what the harness writes into its results."""
        return {"estimator": self.scorer.estimator, "samples": self.options.samples, "seed": self.options.seed}

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        pairs = [request.args for request in requests]
        parts = [self._encode_pair(*pair) if pair[0] else ([], self.tok_encode(pair[1])) for pair in pairs]
        encoded = [(pair, *part) for pair, part in zip(pairs, parts, strict=True)]
        return self._loglikelihood_tokens(encoded, disable_tqdm=disable_tqdm)

    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], disable_tqdm: bool = False, **kwargs: Any
    ) -> list[tuple[float, bool]]:
        rows = [self._row(*request) for request in requests]
        scores = self._scores(rows, disable_tqdm)
        answers = [(-score.nats, self.scorer.is_greedy(row)) for row, score in zip(rows, scores, strict=True)]
        for (pair, _, _), answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("loglikelihood", pair, answer)
        return answers

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        windows = [self._windows(*request.args) for request in requests]
        scores = iter(self._scores([row for rows in windows for row in rows], disable_tqdm))
        totals = [-sum(next(scores).nats for _ in rows) for rows in windows]
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def _scores(self, rows: list[Row], quiet: bool) -> list[Estimate]:
        scores = list(tqdm(self.scorer.scores(rows), total=len(rows), desc="Scoring", disable=quiet))
        self.errors += [score.standard_error for score in scores]
        return scores

    def _row(self, pair: tuple[str, str], context: list[int], continuation: list[int]) -> Row:
        """Return the tokens that are read, of a context that is too long its end."""
        if not continuation:
            raise ValueError(f"the continuation {pair[1]!r} adds no token to its context {pair[0][-40:]!r}")
        what, remedy = f"the continuation {pair[1][:40]!r}", "choose a task with shorter answers, or a longer model"
        kept = self._kept(context, len(continuation), what, remedy)
        return Row((*kept, *continuation), len(kept), pair[0])

    def _kept(self, context: list[int], room: int, what: str, remedy: str) -> list[int]:
        """Return as much of the end of the context as fits before the `room` tokens of `what`."""
        limit = self.model.length
        if limit is None or len(context) + room <= limit:
            return context
        if room > limit:
            raise ValueError(f"{what} has {room} tokens, but the model reads {limit}; {remedy}")
        self.shortened += 1
        return context[len(context) + room - limit :]

    def _windows(self, text: str) -> list[Row]:
        """Cut a text into disjoint windows, each without what lies before it."""
        tokens = self.tok_encode(text)
        size = self.model.length or max(1, len(tokens))
        starts = range(0, len(tokens), size)
        return [Row(tuple(tokens[start : start + size]), 0, f"{text}\0{start}") for start in starts]

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Draw with the sampler of the options; of a task's own settings, `until` and `max_gen_toks` count."""
        asked = [self._opening(*request.args) for request in requests]
        texts = [""] * len(requests)
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, (context, room) in enumerate(asked):
            groups[len(context), room].append(index)
        size = self.options.batch_size
        parts = [group[start : start + size] for group in groups.values() for start in range(0, len(group), size)]
        for part in tqdm(parts, desc="Generating", disable=disable_tqdm):
            drawn = self._generate([asked[index][0] for index in part], asked[part[0]][1], part)
            for index, ids in zip(part, drawn.tolist(), strict=True):
                texts[index] = self._cut(ids, requests[index].args[1])
                self.cache_hook.add_partial("generate_until", requests[index].args, texts[index])
        return texts

    def _opening(self, text: str, settings: dict[str, Any]) -> tuple[list[int], int]:
        """Return the context that is read and the number of tokens to write."""
        room = int(settings.get("max_gen_toks", self.options.max_gen_toks))
        remedy = f"set --gen_kwargs max_gen_toks={max(1, (self.model.length or room) // 2)} or less"
        return self._kept(self.tok_encode(text), room, "text of max_gen_toks", remedy), room

    def _generate(self, contexts: list[list[int]], room: int, numbers: list[int]) -> Tokens:
        """Continue contexts of one length by `room` tokens; the seed of each is that of its request's number."""
        known = len(contexts[0])
        tokens = torch.tensor([[*context, *([0] * room)] for context in contexts], device=self.device)
        flags = (torch.arange(known + room, device=self.device) < known).expand_as(tokens)
        generator = RowGenerators([derive_seed(self.options.seed, "generate", each) for each in numbers], self.device)
        given = (tokens, flags) if known else None
        drawn = self.sampler.run(self.model, len(tokens), length=known + room, given=given, generator=generator)
        return drawn.tokens[:, known:]

    def _cut(self, ids: list[int], settings: dict[str, Any]) -> str:
        """Return the text before its end token and before the first of the strings that stop it."""
        end = self.eot_token_id
        text = self.tokenizer.decode(ids[: ids.index(end)] if end in ids else ids)
        return str(postprocess_generated_text(text, settings.get("until"), None))
