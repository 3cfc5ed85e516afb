r"""The leave-one-out posterior beside the denoiser, pixel by pixel (`fig:mnist_loo_vs_denoiser`).

From one prediction both follow by conversion.  Shown of each is its mean grey level, and of the pair what a pixel's own
noisy token adds: H(leave-one-out) - H(denoiser), in nats, large where neighbours leave a pixel open.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from tokenloom.evaluation.plots import canvas
from tokenloom.models.evaluating import evaluating
from tokenloom.models.protocol import Model
from tokenloom.posteriors import Denoiser, LeaveOneOut, convert_at

PIXEL = 1.75
"""Side of a picture in inches."""
COLUMNS = ("noisy", "leave-one-out", "denoiser", "added by its own token")
"""The pictures of a noisy image: three of grey levels in [0, 1], the last in nats."""


@torch.inference_mode()
def posterior_maps(
    model: Model, image: Int[Tensor, "pixels"], times: Sequence[float], generator: Generator | None = None
) -> Float[Tensor, "columns times side side"]:
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
    return torch.stack(grids).view(len(COLUMNS), -1, side, side)


def draw_heat_maps(
    maps: Float[Tensor, "columns times side side"], times: Sequence[float], path: Path, title: str
) -> Path:
    """Draw one row per time; the columns are x_t, the two posteriors and the information in the own token."""
    most = float(maps[-1].abs().max())
    with canvas(path, len(times), 4, 4 * PIXEL + 1.4, len(times) * PIXEL + 0.7) as (figure, axes):
        figure.suptitle(title, x=0.01, ha="left")
        for column, name in enumerate(COLUMNS):
            colours, low, high = ("RdBu_r", -most, most) if column == 3 else ("gray_r", 0, 1)
            for axis, values in zip(axes[:, column], maps[column].numpy(), strict=True):
                axis.set(xticks=[], yticks=[])
                axis.grid(visible=False)
                for spine in axis.spines.values():
                    spine.set(visible=True, color="#c9cdd2", linewidth=0.6)
                drawn = axis.imshow(values, cmap=colours, vmin=low, vmax=high, interpolation="nearest")
            axes[0, column].set_title(name)
            if column >= 2:
                label = "nats" if column == 3 else "mean grey level"
                figure.colorbar(drawn, ax=list(axes[:, column]), shrink=0.6, label=label)
        for axis, t in zip(axes[:, 0], times, strict=True):
            axis.set_ylabel(f"t = {t:g}")
    return path
