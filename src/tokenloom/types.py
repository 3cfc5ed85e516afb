"""Shape-checked names for the tensors that flow through the library.

`batch` counts sequences, `length` positions, `vocab` the real tokens 0..K-1 and `states` the ids a position
can take (K, or K + 1 where the mask is an id of its own).  The checks run in the tests (jaxtyping + beartype).
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Tokens = Int[Tensor, "batch length"]
Logits = Float[Tensor, "batch length vocab"]
StateLogProbs = Float[Tensor, "batch length states"]
PerRow = Float[Tensor, "batch"]
PerPosition = Float[Tensor, "batch length"]
Flags = Bool[Tensor, "batch length"]
Auxiliary = Int[Tensor, "batch length"] | Float[Tensor, "batch length"]
