"""Shape-checked names for the tensors that flow through the library.

`batch` counts sequences, `length` positions, `vocab` the real tokens 0..K-1 and `states` the ids a position
can take (K, or K + 1 where the mask is an id of its own).  The checks run in the tests (jaxtyping + beartype).
"""

from typing import TypeVar

from jaxtyping import Bool, Float, Int
from torch import Tensor

Tokens = Int[Tensor, "batch length"]
Logits = Float[Tensor, "batch length vocab"]
StateLogProbs = Float[Tensor, "batch length states"]
PerRow = Float[Tensor, "batch"]
PerPosition = Float[Tensor, "batch length"]
Flags = Bool[Tensor, "batch length"]
Auxiliary = Int[Tensor, "batch length"] | Float[Tensor, "batch length"]

Class = TypeVar("Class", bound=type)


def sealed(cls: Class) -> Class:
    """Refuse subclasses of a class: what it computes is what its name says, and closed forms rely on that."""

    def refuse(subclass: type) -> None:
        parents = ", ".join(base.__name__ for base in cls.__bases__ if base is not object) or "its base class"
        raise TypeError(
            f"{cls.__name__} cannot be subclassed, because closed forms rely on what it is; subclass {parents}"
        )

    cls.__init_subclass__ = classmethod(refuse)  # type: ignore[assignment,method-assign]
    return cls
