"""The check that a network, a process and what the network predicts fit each other."""

from tokenloom.models.network import NetworkCall
from tokenloom.posteriors import LeaveOneOut, Posterior, Score
from tokenloom.process import Process


def num_outputs(process: Process, predicts: type[Posterior]) -> int:
    """Count the logits per position: one per state for the score, else one per token."""
    return process.num_states if predicts is Score else process.vocab_size


def check_network(call: NetworkCall, process: Process, predicts: type[Posterior]) -> None:
    """Raise if an attribute of the network contradicts the process."""
    kind, outputs = process.title, num_outputs(process, predicts)
    if call.attribute("causal", process.sequential) != process.sequential:
        raise ValueError(
            f"a causal network sees only what lies before a position and goes with LeftToRight, got {kind}"
            if call.attribute("causal", False)
            else f"{kind} needs a causal network, and this one sees every position; use CausalTransformer"
        )
    if call.attribute("num_outputs", outputs) != outputs:
        raise ValueError(
            f"predicting {predicts.__name__} under {kind} takes {outputs} logits per position, "
            f"but the network has {call.inner.num_outputs}"
        )
    if call.attribute("reads_evidence", False):
        if predicts is not LeaveOneOut:
            raise ValueError(
                f"a network that reads the evidence predicts LeaveOneOut, which no process changes, "
                f"not {predicts.__name__}; convert its prediction instead"
            )
        return
    if call.attribute("num_states", process.input_states) < process.input_states:
        raise ValueError(
            f"{kind} shows ids 0..{process.input_states - 1}, but the network embeds {call.inner.num_states} ids; "
            f"build it with num_states={process.input_states}"
        )
    if call.attribute("hollow", False) and not process.all_or_nothing and predicts is not LeaveOneOut:
        raise ValueError(
            f"a hollow network does not see a position's own token, so under {kind} it predicts "
            f"LeaveOneOut, not {predicts.__name__}; convert its prediction instead"
        )
    if call.attribute("reads_absorbing", process.shows_auxiliary) != process.shows_auxiliary:
        raise ValueError(
            f"a network with absorbing={call.inner.reads_absorbing} does not fit {kind}: the absorbing sequence U is "
            "shown under the absorbing coupling, and there always"
        )
