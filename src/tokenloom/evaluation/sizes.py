"""Memory that samples take, known before they are drawn."""

from tokenloom.models.protocol import Model
from tokenloom.samplers.run import length_of
from tokenloom.support.memory import check_memory

TOKEN = 64
"""Bytes of a token that was drawn: as a number, in a list and as a piece of text."""
STEP = 8
"""Bytes of a step of the grid."""
LOGITS = 3
"""Tensors of float32 logits at once."""


def check_sampling(model: Model, num: int, batch: int, steps: int, length: int | None = None) -> None:
    """Raise unless `num` sequences, `batch` at a time in `steps` steps, fit into the memory of this machine."""
    width, rows = length_of(model, length), min(num, batch)
    check_memory(TOKEN * num * width, f"drawing {num:,} sequences of {width:,} tokens", "draw fewer")
    check_memory(STEP * steps, f"a grid of {steps:,} steps", "take fewer")
    logits = LOGITS * 4 * rows * width * model.process.vocab_size
    check_memory(logits, f"a batch of {rows:,} sequences of {width:,} tokens", "lower the batch or the length")
