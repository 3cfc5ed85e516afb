"""Where a run starts: from the prior at t = 1, or from a state on the way down.

A run that is split at a step and continued from there is the same run: with a sampler that remembers nothing between
steps, and random numbers that go on where they were, it draws the same tokens.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.randomness import Randomness
from tokenloom.models.protocol import Model
from tokenloom.state import Noisy


def first_state(
    model: Model, batch: int, length: int, begin: Noisy | None, generator: Randomness | None, device: torch.device
) -> Noisy:
    """The state that a run starts from, checked where it is given."""
    process = model.process
    if begin is None:
        return process.prior(batch, length, generator, device)
    if model.causal:
        raise ValueError("a causal model writes from left to right and has no state to begin at; pass a prompt")
    process.check_state(begin)
    if list(begin.tokens.shape) != [batch, length]:
        raise ValueError(
            f"the state to begin at has shape {list(begin.tokens.shape)}, but {[batch, length]} are to be sampled"
        )
    if process.lifted != (begin.aux is not None):
        needs = "needs the auxiliary variable of its states" if process.lifted else "has no auxiliary variable"
        raise ValueError(f"{process.title} {needs}; begin at a state that a step of the same process gave")
    if bool((begin.t != begin.t[:1]).any()):
        raise ValueError(
            f"the rows to begin at must share one time, got {begin.t.min().item():g} to {begin.t.max().item():g}"
        )
    return begin.to(device)


def steps_done(times: Float[Tensor, "times"], begin: Noisy | None) -> int:
    """How many steps of a grid lie behind the state that a run begins at."""
    return 0 if begin is None or not len(begin.t) else int((times >= begin.t[0].to(times.device)).sum()) - 1


def device_of(model: Model, generator: Randomness | None) -> torch.device:
    """Where a run takes place: with the weights, which is where its random numbers must be."""
    device = model.device
    if device is None:
        device = torch.device("cpu") if generator is None else generator.device
    if generator is not None and generator.device.type != device.type:
        raise ValueError(f"the generator is on {generator.device} but the model is on {device}; make one there")
    return device
