r"""The leave-one-out posterior beside the denoiser, pixel by pixel (`fig:mnist_loo_vs_denoiser`).

From one prediction both follow by conversion.  Shown of each is its mean grey level, and of the pair what a pixel's own
noisy token adds: H(leave-one-out) - H(denoiser), in nats, large where neighbours leave a pixel open.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Generator, Tensor

from tokenloom.evaluation.plots import FloatArray, canvas, picture
from tokenloom.models.evaluating import evaluating
from tokenloom.models.protocol import Model
from tokenloom.posteriors import Denoiser, LeaveOneOut, convert_at

PIXEL = 1.75
"""Side of a picture in inches."""


@dataclass(frozen=True)
class Maps:
    """Pictures of one noisy image: grey levels in [0, 1], and nats."""

    t: float
    noisy: FloatArray
    leave_one_out: FloatArray
    denoiser: FloatArray
    added: FloatArray


@torch.inference_mode()
def posterior_maps(
    model: Model,
    image: Int[Tensor, "pixels"],
    times: Sequence[float],
    generator: Generator | None = None,
) -> tuple[Maps, ...]:
    """Corrupt a square image of grey levels to each time and read both posteriors."""
    side, levels = round(image.numel() ** 0.5), model.process.vocab_size
    if side * side != image.numel():
        raise ValueError(f"heat maps are for square images, got {image.numel()} pixels")
    x_0 = image[None].expand(len(times), -1).contiguous()
    noisy = model.process.corrupt(x_0, torch.tensor(times, dtype=torch.float64), generator)
    noisy = noisy if model.device is None else noisy.to(model.device)
    with evaluating(model):
        prediction = model.predict(noisy)
    posteriors = [convert_at(prediction, kind, noisy, model.process) for kind in (LeaveOneOut, Denoiser)]
    laws = [posterior.log_probs.double().exp().cpu() for posterior in posteriors]
    grey = torch.linspace(0, 1, levels, dtype=torch.float64)
    entropies = [torch.special.entr(law).sum(-1) for law in laws]
    grids = [noisy.tokens.double().cpu() / (levels - 1), *(law @ grey for law in laws), entropies[0] - entropies[1]]
    pictures = [grid.view(-1, side, side).numpy().astype(np.float64) for grid in grids]
    return tuple(Maps(t, *(stack[row] for stack in pictures)) for row, t in enumerate(times))


def draw_heat_maps(maps: Sequence[Maps], path: Path, title: str) -> Path:
    """Draw one row per time; the columns are x_t, the two posteriors and the information in the own token."""
    titles = ("noisy", "leave-one-out", "denoiser", "added by its own token")
    most = max(float(np.abs(row.added).max()) for row in maps)
    with canvas(path, len(maps), 4, 4 * PIXEL + 1.4, len(maps) * PIXEL + 0.7) as (figure, axes):
        figure.suptitle(title, x=0.01, ha="left")
        for row, line in zip(maps, axes, strict=True):
            for axis, values in zip(line[:3], (row.noisy, row.leave_one_out, row.denoiser), strict=True):
                grey = picture(axis, values, "gray_r", 0, 1)
            added = picture(line[3], row.added, "RdBu_r", -most, most)
            line[0].set_ylabel(f"t = {row.t:g}")
        for axis, text in zip(axes[0], titles, strict=True):
            axis.set_title(text)
        figure.colorbar(grey, ax=list(axes[:, 2]), shrink=0.6, label="mean grey level")
        figure.colorbar(added, ax=list(axes[:, 3]), shrink=0.6, label="nats")
    return path
