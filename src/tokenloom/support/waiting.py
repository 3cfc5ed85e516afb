"""When the host may ask a tensor for its values.

On a CPU the answer is there.  On an accelerator the host must wait until all that was queued is done, and the device
stands idle until the host has queued more.  So inside a run the host does not ask: the values of arguments are checked
by the outermost call, branches that only save work are not taken, and what must be known of the network's output is
gathered on the device and asked for once, at the end.
"""

from torch import Tensor

from tokenloom.support.typed import inside_a_call

FREE = {"cpu"}
"""Kinds of device whose values may be asked for at any time."""


def may_ask(tensor: Tensor) -> bool:
    """Whether the host may ask for values here and now."""
    return tensor.device.type in FREE or not inside_a_call()


def surely_none(flags: Tensor) -> bool:
    """Whether no flag is set; False as well where the host would have to wait for the answer."""
    return may_ask(flags) and not bool(flags.any())
