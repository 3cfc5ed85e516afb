"""Handwritten digits as grids of tokens: 8x8 with 17 grey levels from scikit-learn, or MNIST from its idx files."""

import gzip
import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tokenloom.data.base import SOURCES, Dataset, Source
from tokenloom.data.decoder import Decoder, shades
from tokenloom.support.addresses import local
from tokenloom.support.extras import optional


@SOURCES.register("digits")
@dataclass(frozen=True)
class DigitsSource(Source):
    """The digits of scikit-learn with their 17 grey levels, or with a path those of MNIST, cut to `levels`."""

    kind: str = "digits"
    path: str | None = None
    """The folder that holds MNIST's train and t10k image files."""
    levels: int = 8
    """Grey levels of MNIST."""
    valid_fraction: float = 0.1
    """The part of scikit-learn's digits that is held out."""

    def __post_init__(self) -> None:
        if not 2 <= self.levels <= 256:
            raise ValueError(f"levels must be in 2..256, got {self.levels}")

    def decoder(self, vocab_size: int, length: int) -> Decoder:
        return shades(vocab_size, math.isqrt(length))

    def load(self) -> Dataset:
        if self.path is None:
            load, size = optional("sklearn.datasets", "train").load_digits, 17
            grids = torch.from_numpy(np.asarray(load().data, dtype=np.uint8))
            held_out = max(1, int(self.valid_fraction * len(grids)))
            train, valid = grids[held_out:], grids[:held_out]
        else:
            folder, size = local(self.path), self.levels
            images = (read_idx(_find(folder, part)) for part in ("train", "t10k"))
            train, valid = ((table.int() * size // 256).to(torch.uint8) for table in images)
        fingerprint = hashlib.sha256(train.numpy().tobytes() + valid.numpy().tobytes()).hexdigest()
        side = math.isqrt(train.shape[1])
        return Dataset(f"{side}x{side} digits", size, train, valid, fingerprint, shades(size, side))


def _find(folder: Path, part: str) -> Path:
    for name in (f"{part}-images-idx3-ubyte.gz", f"{part}-images-idx3-ubyte", f"{part}-images.idx3-ubyte"):
        if (folder / name).is_file():
            return folder / name
    raise ValueError(f"{folder} holds no {part}-images-idx3-ubyte(.gz), one of MNIST's image files")


def read_idx(path: Path) -> Tensor:
    """Read the images of an idx file (magic 2051: count, rows, columns, then bytes), flattened, as uint8."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    header = np.frombuffer(data[:16], dtype=">i4")
    if len(header) < 4 or header[0] != 2051:
        raise ValueError(f"{path} is not an idx file of images: its magic number is not 2051")
    count, height, width = (int(value) for value in header[1:])
    if len(data) != 16 + count * height * width:
        raise ValueError(f"{path} is cut short: {len(data)} bytes for {count} images of {height}x{width}")
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8, offset=16).reshape(count, -1).copy())
