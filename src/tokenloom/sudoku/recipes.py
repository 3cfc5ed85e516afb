"""Recipes of Sudoku: sides 4, 6 and 9, and the paper's."""

from tokenloom.nn.transformer import TransformerOptions
from tokenloom.sudoku.data import SudokuSource
from tokenloom.training.config import OptimiserConfig, RunConfig, TrainConfig


def sudoku4() -> TrainConfig:
    """All grids of side 4."""
    return _grid(SudokuSource(side=4, givens=(4, 12), rows=288), 64, 3, 4)


def sudoku6() -> TrainConfig:
    """Grids of side 6."""
    return _grid(SudokuSource(side=6, givens=(10, 26), rows=20_000), 96, 4, 6)


def sudoku9() -> TrainConfig:
    """Grids of side 9."""
    return _grid(SudokuSource(side=9, givens=(24, 50), rows=50_000), 96, 5, 6)


def sudoku_paper() -> TrainConfig:
    """The paper's setup: 50,000 puzzles to train on, a DiT of 6M parameters and its sweep of learning rates."""
    return TrainConfig(
        data=SudokuSource(side=9, puzzles="unique", rows=52_632),  # of which 5% are held out
        network=TransformerOptions(width=256, depth=6, heads=4, dropout=0.1),
        optimiser=OptimiserConfig(lr=1e-3, warmup=0, batch=512, ema=0.0),
        max_steps=20_000,
        sweep=("optimiser.lr=1e-4,3e-4,5e-4,7e-4,1e-3",),
        run=RunConfig(valid_rows=1000, precision="bf16-mixed"),
    )


def _grid(data: SudokuSource, width: int, depth: int, heads: int) -> TrainConfig:
    return TrainConfig(
        data=data,
        network=TransformerOptions(width=width, depth=depth, heads=heads, condition=64, relations=True),
        optimiser=OptimiserConfig(lr=1e-3, warmup=100, decay="linear", ema=0.999),
        max_minutes=20,
        run=RunConfig(valid_rows=256),
    )
