"""Groups of rows: where all seeds share them, their means say how far a figure depends on the choice of rows."""

from torch import Tensor

GROUPS = 100
"""Groups of rows whose means are kept beside a figure, if there are rows enough."""


def group_means(values: Tensor, dependent: int = 1) -> list[float]:
    """The means of consecutive groups of values, of which so many neighbours depend on each other."""
    groups = max(1, min(GROUPS, len(values) // dependent))
    return [float(part.double().mean()) for part in values.tensor_split(groups)]
