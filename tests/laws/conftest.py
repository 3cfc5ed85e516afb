"""A fixture that runs a law over every cell of noise x coupling, at every step of `grid.TIMES`."""

from functools import cache

import pytest

from tests.laws.grid import CELLS, TIMES, Cell

cell_of = cache(Cell)


@pytest.fixture(params=[(*cell, *step) for cell in CELLS for step in TIMES], ids=lambda case: "-".join(map(str, case)))
def cell(request: pytest.FixtureRequest) -> Cell:
    return cell_of(*request.param)
