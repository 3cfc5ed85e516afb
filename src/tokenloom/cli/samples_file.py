"""--out of `tokenloom sample`: the record as JSON, or square sequences as a picture."""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tokenloom.data.decoder import Decoder
from tokenloom.support.extras import optional
from tokenloom.support.files import check_target, check_writable, replacing, write_json


def check_out(path: Path, decoder: Decoder, length: int | None) -> None:
    """Raise, before the work, if samples could not be written, or not in the format that the name asks for."""
    check_target(path)
    if path.suffix == ".png":
        optional("matplotlib.image", "evaluate")
        if decoder.side is None:
            kind = "text" if decoder.is_text else "sequences of symbols"
            raise ValueError(f"{path.name} would be a picture, but the model writes {kind}; write .json instead")
        if length != decoder.side**2:
            raise ValueError(
                f"a picture needs sequences of length {decoder.side**2}, got {length}; write .json instead"
            )
    check_writable(path.parent)


def write_samples(path: Path, record: dict[str, Any], tokens: Tensor, vocab_size: int) -> None:
    """Write the record, or for .png the square sequences as grey images, eight per row."""
    if path.suffix != ".png":
        write_json(path, record)
        return
    side = math.isqrt(tokens.shape[1])
    images = tokens.view(-1, side, side).double() / (vocab_size - 1)
    columns = min(8, len(images))
    blank = torch.zeros((-len(images)) % columns, side, side, dtype=images.dtype)
    tiles = torch.nn.functional.pad(torch.cat([images, blank]), (1, 1, 1, 1), value=0.5)
    rows = tiles.view(-1, columns, side + 2, side + 2).transpose(1, 2).reshape(-1, columns * (side + 2))
    large = rows.repeat_interleave(8, 0).repeat_interleave(8, 1).numpy()
    with replacing(path) as partial:
        optional("matplotlib.image", "evaluate").imsave(partial, large, cmap="gray", vmin=0, vmax=1)
