r"""The distance of a prediction from a leave-one-out posterior (`app:loo-sensitivity`).

The leave-one-out posterior of position l does not depend on the token at l.  So keep x_t everywhere else, put each of C
states y in the place of x_t^l, convert the prediction at l to the leave-one-out representation, nu_y, and compare with
the mean nu = (1/C) sum_y nu_y over the substitutes:

    total variation   (1/C) sum_y (1/2) sum_k |nu_y(k) - nu(k)|
    divergence        (1/C) sum_y KL(nu_y || nu), in nats: what a uniform y tells about the prediction, at most log C.

The states x_t are held-out data, noised (`probe`), or those that a sampler passes through (`probe_along`), which differ
wherever the samples do not have the law of the data.

Both are 0 for a hollow network and for exact posteriors.  Any other value is a network that has not reached its
optimum.  A sequence is the independent unit of the standard errors; its positions are averaged first.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from tokenloom.drawing.chunks import chunks
from tokenloom.drawing.randomness import RowGenerators, uniform
from tokenloom.models.evaluating import evaluating
from tokenloom.models.protocol import Model
from tokenloom.objectives.grouped_ratio import grouped_ratio
from tokenloom.posteriors import Denoiser, LeaveOneOut, convert_at
from tokenloom.samplers.sampler import Sampler
from tokenloom.state import Noisy
from tokenloom.support.checks import check_least
from tokenloom.types import Flags, Tokens


@dataclass(frozen=True)
class Sensitivity:
    """The two measures at one time, each with its standard error."""

    t: float
    total_variation: float
    total_variation_error: float
    divergence: float
    divergence_error: float


@dataclass(frozen=True)
class Effort:
    """Amount of work."""

    positions: int = 4
    """Positions per sequence."""
    substitutes: int = 16
    """Tokens that are put there in place of its own."""
    batch: int = 256
    """Rows per network call."""

    def __post_init__(self) -> None:
        check_least(self, positions=1, substitutes=2, batch=1)


@torch.inference_mode()
def probe(
    model: Model,
    x_0: Tokens,
    times: Sequence[float],
    effort: Effort = Effort(),  # noqa: B008
    generator: Generator | None = None,
    given: Flags | None = None,
    on_progress: Callable[[float], object] = lambda share: None,
) -> tuple[Sensitivity, ...]:
    """Measure the dependence of each position's leave-one-out prediction on its own token, at each of some times."""
    check_probed(model)
    check_times(times)
    if given is not None and bool(given.all(-1).any()):
        raise ValueError("a sequence with every position given has none to probe; leave some positions free")
    if not len(x_0):
        raise ValueError("x_0 holds no sequence; there is nothing to probe")
    results = []
    with evaluating(model):
        for t in times:
            time = torch.full((len(x_0),), t, dtype=torch.float64, device=x_0.device)
            noisy = model.process.corrupt(x_0, time, generator, given)
            results.append(_sensitivity(model, noisy, effort, generator))
            on_progress(len(results) / len(times))
    return tuple(results)


class Along(NamedTuple):
    """The measures at some states of sampling runs, those states, and the samples."""

    results: tuple[Sensitivity, ...]
    states: tuple[Tokens, ...]
    tokens: Tokens


@torch.inference_mode()
def probe_along(
    model: Model,
    sampler: Sampler,
    randomness: RowGenerators,
    times: Sequence[float],
    effort: Effort = Effort(),  # noqa: B008
    generator: Generator | None = None,
    on_progress: Callable[[float], object] = lambda share: None,
) -> Along:
    """Draw one sample per generator of `randomness` and probe the states nearest to the times; the samples do not know.

    The `generator` chooses positions and substitutes, and those alone.
    """
    check_probed(model)
    check_times(times)
    steps = sampler.steps(model, len(randomness.rows), generator=randomness)
    grid = steps.times[:-1]  # a step starts at each of them
    wanted = {int((grid - t).abs().argmin()) + 1 for t in times}
    results, states = [], []
    with evaluating(model):
        for step in steps:
            if step.index in wanted:
                noisy = step.before.to(torch.device("cpu"))
                results.append(_sensitivity(model, noisy, effort, generator))
                states.append(noisy.tokens)
            on_progress(step.index / step.count)
    return Along(tuple(results), tuple(states), steps.samples.tokens.cpu())


def _sensitivity(model: Model, noisy: Noisy, effort: Effort, generator: Generator | None) -> Sensitivity:
    found = _sensitivities(model, noisy, effort, generator).cpu()
    ones = torch.ones(len(found), dtype=torch.float64)
    variation, divergence = (grouped_ratio(column, ones, 1) for column in found.unbind(-1))
    return Sensitivity(float(noisy.t[0]), *variation, *divergence)


def check_times(times: Sequence[float]) -> None:
    """Raise unless there are times, all of them in (0, 1]."""
    if not times or not all(math.isfinite(t) and 0 < t <= 1 for t in times):
        raise ValueError(f"times must be in (0, 1], as a token at t = 0 reveals itself, got {list(times)}")


def _sensitivities(model: Model, noisy: Noisy, effort: Effort, generator: Generator | None) -> Float[Tensor, "batch 2"]:
    """Return total variation and divergence of every sequence, averaged over its positions."""
    (count, length), device = noisy.tokens.shape, noisy.tokens.device
    order, free = uniform((count, length), generator, device), length
    if noisy.given is not None:
        order = order.masked_fill(noisy.given, 2.0)  # above every uniform number: given positions come last
        free = int((~noisy.given).sum(-1).min())
    positions = order.argsort(-1)[:, : min(effort.positions, free)]
    states = min(effort.substitutes, model.process.num_states)
    rows, at = torch.arange(count, device=device).repeat_interleave(positions.shape[1]), positions.flatten()
    found = []
    for part in chunks(len(rows), states, effort.batch):
        choice = uniform((len(rows[part]), model.process.num_states), generator, device).argsort(-1)[:, :states]
        varied = substitute(noisy, rows[part], at[part], choice)
        state = varied.to(device if model.device is None else model.device)
        laws = leave_one_out_at(model, state, at[part].repeat_interleave(states).to(state.tokens.device))
        found.append(spread_of(laws.view(-1, states, laws.shape[-1])))
    return torch.cat(found).view(count, -1, 2).mean(1)


def substitute(
    noisy: Noisy, rows: Int[Tensor, "pairs"], at: Int[Tensor, "pairs"], states: Int[Tensor, "pairs choices"]
) -> Noisy:
    """Repeat, for every pair of a row and a position, the row once per choice, with the choice at the position."""
    repeated = noisy.sequences(rows.repeat_interleave(states.shape[1]))
    places = at.repeat_interleave(states.shape[1])[:, None]
    return replace(repeated, tokens=repeated.tokens.scatter(-1, places, states.reshape(-1, 1)))


def leave_one_out_at(model: Model, noisy: Noisy, at: Int[Tensor, "batch"]) -> Float[Tensor, "batch vocab"]:
    """Return the leave-one-out probabilities of one position per row, in float64; the head is applied there alone."""
    here = noisy.positions(torch.zeros_like(noisy.tokens, dtype=torch.bool).scatter(-1, at[:, None], True))
    features = model.body(noisy)
    logits = model.head(features[torch.arange(len(at), device=at.device), at]).unsqueeze(1)
    posterior = convert_at(model.interpret(logits, here), LeaveOneOut, here, model.process)
    return posterior.log_probs.double().exp().squeeze(1)


def spread_of(laws: Float[Tensor, "pairs choices vocab"]) -> Float[Tensor, "pairs 2"]:
    """Return mean total variation and mean divergence to the mean law; exactly 0 where laws are equal bit for bit."""
    first = laws[:, :1]
    mean = first + (laws - first).mean(1, keepdim=True)  # a plain mean of equal laws would round
    variation = 0.5 * (laws - mean).abs().sum(-1)
    divergence = torch.where(laws > 0, torch.xlogy(laws, laws / mean), 0).sum(-1)
    return torch.stack([variation.mean(1), divergence.mean(1).clamp(min=0)], -1)


@torch.inference_mode()
def posterior_maps(
    model: Model, image: Int[Tensor, "pixels"], times: Sequence[float], generator: Generator | None = None
) -> Float[Tensor, "4 times side side"]:
    """Corrupt a square image of grey levels to each time and read both posteriors, by conversion of one prediction.

    The columns are x_t, the mean grey level of the leave-one-out posterior and of the denoiser, and what a pixel's own
    noisy token adds: H(leave-one-out) - H(denoiser), in nats, large where neighbours leave a pixel open
    (`fig:mnist_loo_vs_denoiser`).
    """
    side, levels = round(image.numel() ** 0.5), model.process.vocab_size
    if side * side != image.numel():
        raise ValueError(f"heat maps are for square images, got {image.numel()} pixels")
    x_0 = image[None].expand(len(times), -1).contiguous()
    noisy = model.process.corrupt(x_0, torch.tensor(times, dtype=torch.float64), generator)
    noisy = noisy if model.device is None else noisy.to(model.device)
    with evaluating(model):
        prediction = model.predict(noisy)
    posteriors = [convert_at(prediction, kind, noisy, model.process) for kind in (LeaveOneOut, Denoiser)]
    laws = [posterior.log_probs.double().exp().cpu() for posterior in posteriors]
    grey = torch.linspace(0, 1, levels, dtype=torch.float64)
    entropies = [torch.special.entr(law).sum(-1) for law in laws]
    grids = [noisy.tokens.double().cpu() / (levels - 1), *(law @ grey for law in laws), entropies[0] - entropies[1]]
    return torch.stack(grids).view(len(grids), -1, side, side)


def check_probed(model: Model) -> None:
    """Raise unless the model has a leave-one-out posterior at every position."""
    if model.causal:
        raise ValueError("a causal network does not see its own position, so there is no leave-one-out to probe")
    if model.process.reveals and model.predicts is not LeaveOneOut:
        raise ValueError(
            f"under {model.process.title} a token that is not noise tells x_0 for certain, so the "
            f"{model.predicts.__name__.lower()} of this model has no leave-one-out posterior there to probe; name runs "
            "with uniform noise (--method udm)"
        )
