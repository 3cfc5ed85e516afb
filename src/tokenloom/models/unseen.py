"""What the training of a network did not show it: the answer is defined, and may be poor or mean nothing."""

import math
import warnings
from dataclasses import replace

import torch

from tokenloom.cells import EVERY, processes_of
from tokenloom.process import Process
from tokenloom.support.about import About


def warn_unseen(process: Process, about: About, length: int | None) -> None:
    """Warn of a process, or of evidence, that a network for any noise was not trained with, as far as that is known."""
    training = about.training or {}
    method, floor = str(training.get("method")), float(training.get("floor", 0.0))
    if method.partition(":")[0] != "any":
        return
    seen = processes_of(method.partition("noises=")[2] or EVERY, process.vocab_size, process.schedule)
    if any(alike(process, other) for other in seen):
        most = max(largest_evidence(other, floor, length) for other in seen)
        reached = largest_evidence(process, floor, length)
        if reached <= most + 1e-6:
            return
        what = f"evidence up to {most:.1f}, and this reaches {reached:.1f}"
    else:
        what = ", ".join(other.name for other in seen)
    warnings.warn(
        f"the network was trained with {what}; under {process.title} its predictions are defined, but untested: "
        f"measure them with tokenloom evaluate --process {process.name}",
        stacklevel=3,
    )


def warn_untrained(about: About) -> None:
    """Warn of a model that was imported to be trained as a denoiser and has not been."""
    if "untrained" in (about.origin or {}):
        warnings.warn(
            f"{(about.origin or {})['untrained']}; until then its samples and bounds mean nothing", stacklevel=3
        )


def largest_evidence(process: Process, floor: float, length: int | None) -> float:
    """Return the largest finite evidence if a share `floor` of the tokens is lost; 0 if it is never in between."""
    if process.all_or_nothing:
        return 0.0
    if floor <= 0:
        return math.inf
    state = process.prior(1, length or 1, torch.Generator().manual_seed(0))
    alpha = torch.full_like(state.alpha_t, 1 - floor)
    at_floor = replace(state, t=process.time_at(alpha).clamp(0, 1), alpha_t=alpha)
    log_pi = process.law(at_floor).log_probs(state.tokens.device)[..., : process.vocab_size]
    possible = log_pi[log_pi.isfinite()]
    rarest = float(possible.min()) if len(possible) else 0.0
    return math.log1p((1 - floor) / floor * math.exp(-rarest))


def alike(process: Process, seen: Process) -> bool:
    """Return whether both show a network the same kind of evidence: masked and transition times, uniform, coupled."""
    # Under uniform noise `seen` may have another coupling, as long as `process` itself has no auxiliary variable.
    in_between = process.uniform_noise and seen.uniform_noise and not process.lifted
    return process.name == seen.name or (process.all_or_nothing and seen.all_or_nothing) or in_between
