"""The model's posteriors at one state: the three laws of a token, what truncation would cut of them, and its doubts.

denoiser     p(x_0^l | x_t)            leave-one-out   p(x_0^l | x_t without position l)
Gibbs conditional   p_t(x_t^l = y | x_t without position l), over all states
doubt of a position: the entropy of its denoiser, as a share of log K
"""

import math
from typing import Any

import torch
from torch import Tensor

from tokenloom.data.decoder import Decoder
from tokenloom.drawing.chunks import chunks
from tokenloom.drawing.truncation import Truncation, truncate
from tokenloom.posteriors import Denoiser, LeaveOneOut, conditional_log_probs
from tokenloom.samplers import Evaluator, LazyPrediction, LocalPrediction
from tokenloom.types import Flags
from tokenloom.web.library import Entry
from tokenloom.web.requests import Limits, Look, check_within, flags_at

TOP = 10
"""Bars per law."""
REVEALED = (
    "this token reveals x_0, so the denoiser that the network predicts is a point mass, and what the other positions "
    "say of it is lost"
)


def look(request: Look, entry: Entry, limits: Limits) -> dict[str, Any]:
    """Return the doubt of every position, and the laws of one."""
    if request.state is None:
        raise ValueError("there is no state to look at; draw something first")
    check_within("length", len(request.state.tokens), limits.length, "look at a shorter sequence")
    model, sampler = entry.model(request.process), request.sampling.sampler_value()
    if model.causal:
        raise ValueError("a causal model has no posterior given what follows a position")
    prepared = sampler.for_model(model).predictor.prepare(model)
    prediction = Evaluator(prepared, None, 1)(request.state.noisy(prepared))
    found: dict[str, Any] = {"doubt": _doubts(prediction)}
    if request.position is not None:
        flags = flags_at([request.position], len(request.state.tokens))
        found["laws"] = _laws(prediction, flags, sampler.truncation or Truncation(), entry.decoder)
    return found


def _doubts(prediction: LazyPrediction) -> list[float]:
    """Return the entropy of every position's denoiser over log K, a few positions at a time."""
    tokens, size = prediction.noisy.tokens, prediction.evaluator.process.vocab_size
    parts = []
    for some in chunks(tokens.shape[1], size, 1 << 22):  # at most so many logits in memory at a time
        where = torch.zeros_like(tokens, dtype=torch.bool)
        where[:, some] = True
        parts.append(torch.special.entr(prediction.at(where, Denoiser).posterior.logits.softmax(-1)).sum(-1).flatten())
    return [round(value, 4) for value in (torch.cat(parts) / math.log(max(size, 2))).clamp(0, 1).tolist()]


def _laws(prediction: LazyPrediction, where: Flags, truncation: Truncation, decoder: Decoder) -> dict[str, Any]:
    """Return the laws of one position; where one does not exist, the reason."""

    def shown(local: LocalPrediction) -> dict[str, Any]:
        logits = local.posterior.logits[0, 0]
        kept = None if truncation.changes_nothing else truncate(logits, truncation) > -torch.inf
        return _bars(torch.log_softmax(logits.double(), -1), decoder, kept)

    process, predicts = prediction.evaluator.process, prediction.evaluator.model.predicts
    laws = {"denoiser": shown(prediction.at(where, Denoiser))}
    if predicts is Denoiser and bool(process.evidence(prediction.noisy)[where].isposinf()):
        reason = "it is made from the leave-one-out posterior, which does not exist here"
        return laws | {"leave_one_out": {"reason": REVEALED}, "conditional": {"reason": reason}}
    local = prediction.at(where, LeaveOneOut)
    states = conditional_log_probs(LeaveOneOut(local.posterior.logits), local.noisy, process)[0, 0]
    return laws | {"leave_one_out": shown(local), "conditional": _bars(states.double(), decoder, None)}


def _bars(log_probs: Tensor, decoder: Decoder, kept: Tensor | None) -> dict[str, Any]:
    """Return the most probable tokens, the probability left beyond them, and which of them truncation keeps."""
    top = log_probs.topk(min(TOP, len(log_probs)))
    rows = [
        {"token": token, "piece": decoder.piece(token), "p": math.exp(value), "kept": kept is None or bool(kept[token])}
        for value, token in zip(top.values.tolist(), top.indices.tolist(), strict=True)
    ]
    shown = sum(row["p"] for row in rows)
    return {"bars": rows, "rest": max(0.0, 1 - shown), "kept": None if kept is None else int(kept.sum())}
