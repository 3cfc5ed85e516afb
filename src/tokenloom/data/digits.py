"""Handwritten digits as grids of tokens: 8x8 with 17 grey levels from scikit-learn, or MNIST from its idx files."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tokenloom.data.base import Dataset
from tokenloom.types import Tokens

SHADES = " .:-=+*#%@"


def load_digits(path: Path | None = None, levels: int = 8, valid_fraction: float = 0.1) -> Dataset:
    """Without a path the digits of scikit-learn; with one, the folder that holds MNIST's train and t10k image files.

    MNIST is cut to `levels` grey levels; scikit-learn's digits keep their 17.
    """
    if path is None:
        grids, size = _scikit_digits(), 17
        held_out = max(1, int(valid_fraction * len(grids)))
        train, valid = grids[held_out:], grids[:held_out]
    else:
        if not 2 <= levels <= 256:
            raise ValueError(f"levels must be in 2..256, got {levels}")
        train, valid = (quantise(read_idx(_find(path, part)), levels) for part in ("train", "t10k"))
        size = levels
    fingerprint = hashlib.sha256(train.numpy().tobytes() + valid.numpy().tobytes()).hexdigest()
    side = int(train.shape[1] ** 0.5)
    return Dataset(
        f"{side}x{side} digits", size, train, valid, fingerprint, lambda tokens: _pictures(tokens, side, size)
    )


def _scikit_digits() -> Tensor:
    try:
        from sklearn.datasets import load_digits as load  # type: ignore[import-untyped]
    except ImportError as error:
        raise ValueError('the 8x8 digits come with scikit-learn: pip install "tokenloom[train]"') from error
    return torch.from_numpy(np.asarray(load().data, dtype=np.uint8))


def _find(folder: Path, part: str) -> Path:
    for name in (f"{part}-images-idx3-ubyte.gz", f"{part}-images-idx3-ubyte", f"{part}-images.idx3-ubyte"):
        if (folder / name).is_file():
            return folder / name
    raise ValueError(f"{folder} holds no {part}-images-idx3-ubyte(.gz), one of MNIST's image files")


def read_idx(path: Path) -> Tensor:
    """Images of an idx file (magic 2051: count, rows, columns, then bytes), flattened, as uint8."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    header = np.frombuffer(data[:16], dtype=">i4")
    if len(header) < 4 or header[0] != 2051:
        raise ValueError(f"{path} is no idx file of images: its magic number is not 2051")
    count, height, width = (int(value) for value in header[1:])
    if len(data) != 16 + count * height * width:
        raise ValueError(f"{path} is cut short: {len(data)} bytes for {count} images of {height}x{width}")
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8, offset=16).reshape(count, -1).copy())


def quantise(images: Tensor, levels: int) -> Tensor:
    """256 grey levels to fewer, evenly."""
    return (images.int() * levels // 256).to(torch.uint8)


def _pictures(tokens: Tokens, side: int, size: int) -> list[str]:
    shade = tokens * (len(SHADES) - 1) // (size - 1)
    return [
        "\n".join("".join(SHADES[value] * 2 for value in line) for line in grid)
        for grid in shade.view(-1, side, side).tolist()
    ]
