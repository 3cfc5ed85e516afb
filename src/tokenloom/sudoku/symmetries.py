r"""The symmetries of Sudoku: moves of cells and digits that keep the rules.

    g = relabel the digits o permute bands and stacks o permute rows within bands, columns within stacks (o transpose),

with the transposition only where boxes are square: 9! 2 6^8 of them for side 9, 6! 3456 for side 6, 4! 128 for side 4.

An invariant tells most grids apart that are not images of each other: for rows a and b, the permutation that takes the
digit of a to the digit of b in the same column keeps its cycle type when digits are relabelled and columns permuted,
and inverts when a and b change places.  The cycle types of all pairs of rows and of all pairs of columns agree for
equivalent grids.
"""

import torch
from jaxtyping import Int
from torch import Generator, Tensor

from tokenloom.drawing.randomness import uniform
from tokenloom.sudoku.solver import box_shape
from tokenloom.types import Flags, Tokens

CHUNK = 8192
"""Grids whose invariants are computed at once."""


def augment(x_0: Tokens, puzzle: Flags | None, generator: Generator, side: int) -> tuple[Tokens, Flags | None]:
    """Move each grid by a symmetry of its own, uniform on the group, and its puzzle by the same."""
    moves = draw_cell_moves(len(x_0), side, generator, x_0.device)
    labels = draw_permutations((len(x_0), side), generator, x_0.device).to(x_0.dtype)
    return labels.gather(1, x_0.gather(1, moves).long()), None if puzzle is None else puzzle.gather(1, moves)


def draw_cell_moves(batch: int, side: int, generator: Generator, device: torch.device) -> Int[Tensor, "batch cells"]:
    """Draw where each cell of a moved grid comes from: bands, stacks, rows and columns permuted, maybe transposed."""
    (height, width), lines = box_shape(side), []
    for thickness in (height, width):
        bands = draw_permutations((batch, side // thickness), generator, device)
        within = draw_permutations((batch, side // thickness, thickness), generator, device)
        lines.append((bands.unsqueeze(-1) * thickness + within).flatten(1))
    source = lines[0][:, :, None] * side + lines[1][:, None, :]
    if height == width:
        transposed = uniform((batch, 1, 1), generator, device) < 0.5
        source = torch.where(transposed, source.transpose(1, 2), source)
    return source.flatten(1)


def draw_permutations(shape: tuple[int, ...], generator: Generator, device: torch.device) -> Tensor:
    """Draw permutations of the last dimension: the order of uniform numbers."""
    return uniform(shape, generator, device).argsort(-1)


def class_keys(grids: Tokens, side: int) -> list[bytes]:
    """Return an invariant of each grid under the symmetries: equivalent grids have equal keys."""
    height, width = box_shape(side)
    keys: list[bytes] = []
    for chunk in torch.split(grids, CHUNK):
        square = chunk.reshape(-1, side, side).long()
        lines = _cycle_types(square, height), _cycle_types(square.transpose(1, 2), width)
        for key in zip(*(types.numpy() for types in lines), strict=True):
            parts = [part.tobytes() for part in key]
            keys.append(b"".join(sorted(parts) if height == width else parts))
    return keys


def _cycle_types(lines: Int[Tensor, "batch side side"], thickness: int) -> Int[Tensor, "batch pairs"]:
    """Return the cycle types of all pairs of lines, with whether the two share a band, in ascending order.

    A cycle type is coded by how many digits the first, second, ... power of the permutation leaves in place.
    """
    side = lines.shape[1]
    first, second = torch.triu_indices(side, side, 1).unbind()
    place_of_digit = lines.argsort(-1)
    takes = lines[:, second].gather(-1, place_of_digit[:, first])
    power, code = takes, (first // thickness == second // thickness).long().expand(len(lines), -1)
    for _ in range(side):
        code = code * (side + 1) + (power == torch.arange(side)).sum(-1)
        power = takes.gather(-1, power)
    return code.sort(-1).values
