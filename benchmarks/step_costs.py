"""What a step costs where the network costs nothing: every sampler of `schedulers.py`, handed the same random logits.

The unit is `torch.logsumexp` of these logits, timed before every run.  A round takes every sampler through a run, of
which three figures are kept: a step in the middle of the grid, where half of the tokens are noise and ours predicts few
positions; the last, which draws every position from its prediction; and the mean of all steps.  The others do the same
work at every step, so theirs is timed in the middle and at the end alone.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.account import Spread
from benchmarks.bench_correctors import seeded
from benchmarks.schedulers import DISCRETE_DDIM, KINDS, SAMPLERS, Build, Setting, ours
from tokenloom.samplers.driven import Answers

CASES = ((50257, 128), (262144, 256))
"""Vocabularies and lengths."""
SHAPES = ("peaked", "flat")
RAISED = 5
"""Tokens of a position that carry nearly all of a peaked law."""
GRID = 32
"""Steps of a run."""
REFERENCES = 3
"""Times that logsumexp is computed before a run; the shortest counts."""
TOP_P = 0.9
CUT = {1.0: "", TOP_P: f", top-p {TOP_P}"}
GOALS = {1.0: 2.0, TOP_P: 3.0}
"""The most that a step of ours may cost by its top-p, in units of logsumexp."""


@dataclass(frozen=True)
class Timed:
    """A sampler whose steps are timed."""

    package: str
    name: str
    build: Build
    predicts: str = "denoiser"
    top_p: float = 1.0

    @property
    def ours(self) -> bool:
        """Whether it is of this library."""
        return self.package == "tokenloom"

    def setting(self, logits: Tensor) -> Setting:
        """Return what it is made for."""
        return Setting(logits.shape[-1], logits.shape[1], GRID, self.predicts, self.top_p)


def timed() -> list[Timed]:
    """Return what is timed: theirs, and ours for both kinds of network."""
    found = []
    for package, name, top_p in (
        ("diffusers", DISCRETE_DDIM, 1.0),
        ("diffusers", DISCRETE_DDIM, TOP_P),
        ("diffusers", "BlockRefinementScheduler", TOP_P),
        ("diffusers", "EntropyBoundScheduler", 1.0),
        ("transformers", "EntropyBoundSampler", 1.0),
    ):
        found.append(Timed(package, name + CUT[top_p], SAMPLERS[package][name], top_p=top_p))
    own = SAMPLERS["tokenloom"]
    for kind in KINDS:
        for top_p in (1.0, TOP_P):
            found.append(Timed("tokenloom", f"ancestral, {kind}{CUT[top_p]}", own["ancestral"], kind, top_p))
    name, build = f"ancestral, denoiser{CUT[TOP_P]} on leave-one-out", ours("ancestral", truncates="leave-one-out")
    found.append(Timed("tokenloom", name, build, "denoiser", TOP_P))
    for kind in KINDS:
        found.append(Timed("tokenloom", f"entropy-bound, {kind}", own["entropy-bound"], kind))
    return found


def random_logits(shape: str, length: int, vocab: int) -> Tensor:
    """Return logits of laws that are peaked on a few tokens, or flat."""
    generator = seeded(0)
    logits = torch.randn(1, length, vocab, generator=generator)
    if shape == "flat":
        return logits.mul_(0.5)
    raised = torch.randint(vocab, (1, length, RAISED), generator=generator)
    return logits.mul_(2).scatter_add_(-1, raised, torch.full(raised.shape, 18.0))


def kept(logits: Tensor, top_p: float = TOP_P) -> int:
    """Return the median number of tokens that top-p keeps, of the first positions."""
    mass = logits[0, :16].softmax(-1).sort(-1, descending=True).values.cumsum(-1)
    return int(((mass < top_p).sum(-1) + 1).median())


@dataclass(frozen=True)
class Round:
    """One run, in one round: seconds, and the share of the positions whose logits are read."""

    logsumexp: float
    seconds: Mapping[str, float]
    predicted: Mapping[str, float]


def run(each: Timed, logits: Tensor, start: Tensor, seed: int) -> Round:
    """Time the steps of a run, of theirs the one in the middle and the last, right after logsumexp."""
    driven, tokens, generator = each.build(each.setting(logits)), start, seeded(seed)
    references, steps, head = [], list(range(GRID)) if each.ours else [GRID // 2, GRID - 1], Answers.head
    for _ in range(REFERENCES):
        since = time.perf_counter()
        torch.logsumexp(logits, -1)
        references.append(time.perf_counter() - since)
    seconds, shares = dict.fromkeys(steps, 0.0), dict.fromkeys(steps, 0.0 if each.ours else 1.0)

    def counted(self: Answers, features: Tensor) -> Tensor:
        shares[index] += len(features) / logits.shape[1]
        return head(self, features)

    with patch.object(Answers, "head", counted):
        for index in steps:
            since = time.perf_counter()
            tokens = driven.step(logits, index, tokens, generator)
            seconds[index] = time.perf_counter() - since
    return Round(min(references), parts(seconds), parts(shares))


def parts(steps: Mapping[int, float]) -> dict[str, float]:
    """Return what is kept of a run."""
    return {"middle": steps[GRID // 2], "last": steps[GRID - 1], "mean": sum(steps.values()) / len(steps)}


def cost(vocab: int, length: int, shape: str, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield the record of a case after each round, so that an interrupted measurement leaves something."""
    logits, start = random_logits(shape, length, vocab), torch.randint(vocab, (1, length), generator=seeded(1))
    head = {"vocab": vocab, "length": length, "law": shape, "kept": kept(logits)}
    every = timed()
    found: list[list[Round]] = [[] for _ in every]
    for each in every:
        each.build(each.setting(logits)).step(logits, GRID // 2, start, seeded(0))  # warm-up
    for turn in range(rounds):
        for each, rounds_of in zip(every, found, strict=True):
            rounds_of.append(run(each, logits, start, turn))
        yield {
            **head,
            "rounds": turn + 1,
            "logsumexp": asdict(Spread.of([seen.logsumexp for rounds_of in found for seen in rounds_of])),
            "rows": [row(*of) for of in zip(every, found, strict=True)],
        }


def row(each: Timed, rounds: list[Round]) -> dict[str, Any]:
    """Return the figures of one sampler: the best seconds, and the cost in units of logsumexp."""
    figures = {
        part: {
            "predicted": sum(seen.predicted[part] for seen in rounds) / len(rounds),
            "best": min(seen.seconds[part] for seen in rounds),
            "ratio": asdict(Spread.of([seen.seconds[part] / seen.logsumexp for seen in rounds])),
        }
        for part in rounds[0].seconds
    }
    goal = GOALS[each.top_p] if each.ours else None
    return {"package": each.package, "name": each.name, "top_p": each.top_p, "goal": goal, **figures}
