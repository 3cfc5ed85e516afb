"""The positions whose clean token x_t leaves open, each as a sequence of its own, with what a step takes there."""

from tokenloom.posteriors import OverTokens, Posterior, Score, as_posterior, convert_at
from tokenloom.processes.base import Process
from tokenloom.state import Noisy
from tokenloom.types import Flags


def open_positions(prediction: Posterior, noisy: Noisy, process: Process) -> tuple[Noisy, OverTokens, Flags]:
    """States, posteriors in the representation of a step, and the flags of the positions they belong to."""
    where = process.evidence(noisy).isfinite()
    values = prediction.log_ratios if isinstance(prediction, Score) else prediction.logits  # type: ignore[attr-defined]
    local = noisy.positions(where)
    posterior = as_posterior(values[where].unsqueeze(1), type(prediction))
    return local, convert_at(posterior, process.step_representation(type(prediction)), local, process), where
