r"""A ratio of sums over independent groups of rows, and its standard error.

With A_j the values of group j (nats) and W_j its units (sequences, or free tokens), over G groups,

    m = sum_j A_j / sum_j W_j,      error^2 = G/(G - 1) sum_j (A_j - m W_j)^2 / (sum_j W_j)^2.
"""

import math

import torch

from tokenloom.types import PerRow


def grouped_ratio(values: PerRow, units: PerRow, group: int) -> tuple[float, float]:
    """sum(values) / sum(units) and its standard error, from consecutive groups of rows that are independent."""
    index = torch.arange(len(values), device=values.device) // group
    groups = int(index[-1]) + 1
    above, below = (torch.zeros(groups, dtype=torch.float64).index_add(0, index, part) for part in (values, units))
    if float(below.sum()) == 0:
        raise ValueError("every position is given, so there is no token to score; leave some positions free")
    ratio = float(above.sum() / below.sum())
    if groups == 1:
        return ratio, math.nan
    spread = float(((above - ratio * below) ** 2).sum()) * groups / (groups - 1)
    return ratio, math.sqrt(spread) / float(below.sum())
