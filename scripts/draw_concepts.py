"""The pictures of docs/concepts.md: one sentence noised by UDM, AUDM and MUDM, drawn from the processes themselves.

    python scripts/draw_concepts.py docs/pictures

Time runs downwards.  A letter is dark while it is the clean one (MUDM: until its time tau, the tick) and orange after.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib
import torch
from torch import Tensor

import tokenloom as tl

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

matplotlib.rcParams["svg.fonttype"] = "none"
matplotlib.rcParams["svg.hashsalt"] = "tokenloom"
ALPHABET = "abcdefghijklmnopqrstuvwxyz "
SENTENCE = "the loom weaves"
TIMES = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
CLEAN, LOST, NOTE = "#1f2a44", "#d9730d", "#7a7a7a"
BOTTOM = len(TIMES) + 0.3
Row = tuple[list[int], list[bool]]
IsLost = Callable[[tl.Noisy, Tensor], Tensor]
Note = Callable[[Axes, list[Row], tl.Noisy], None]


def changed(state: tl.Noisy, x_0: Tensor) -> Tensor:
    """Flags of the letters that are not the clean ones."""
    return state.tokens != x_0


def trajectory(process: tl.Process, seed: int, is_lost: IsLost) -> tuple[list[Row], tl.Noisy]:
    """Tokens and whether they are lost at each time, by steps of the forward law; and the last state."""
    generator = torch.Generator().manual_seed(seed)
    x_0 = torch.tensor([[ALPHABET.index(letter) for letter in SENTENCE]])
    state = process.corrupt(x_0, torch.zeros(1, dtype=torch.float64), generator)
    rows = [(x_0[0].tolist(), [False] * x_0.shape[1])]
    for time in TIMES[1:]:
        t = torch.tensor([time], dtype=torch.float64)
        state = process.move_to(state, process.forward(state, t).draw(generator), t)
        rows.append((state.tokens[0].tolist(), is_lost(state, x_0)[0].tolist()))
    return rows, state


def write_row(axes: Axes, height: float, label: str, letters: str, colours: list[str]) -> None:
    """One line of letters with a label before it."""
    axes.text(-0.8, height, label, ha="right", va="center", color=NOTE, fontsize=10)
    for column, (letter, colour) in enumerate(zip(letters, colours, strict=True)):
        axes.text(column, height, "␣" if letter == " " else letter, ha="center", va="center", color=colour,
                  family="monospace", fontsize=13)  # fmt: skip


def draw(process: tl.Process, path: Path, seed: int, is_lost: IsLost = changed, note: Note | None = None) -> None:
    """One picture; `note` adds what is particular to a process."""
    rows, state = trajectory(process, seed, is_lost)
    figure, axes = plt.subplots(figsize=(7.2, 3.4))
    for height, (time, (tokens, lost)) in enumerate(zip(TIMES, rows, strict=True)):
        letters = "".join(ALPHABET[token] for token in tokens)
        write_row(axes, height, f"t = {time:g}", letters, [LOST if flag else CLEAN for flag in lost])
    if note is not None:
        note(axes, rows, state)
    axes.set(xlim=(-1, len(SENTENCE)), ylim=(len(TIMES) + 0.8, -0.7))
    axes.axis("off")
    figure.savefig(path, bbox_inches="tight", facecolor="white", metadata={"Date": None})
    plt.close(figure)


def absorbing_sequence(axes: Axes, rows: list[Row], state: tl.Noisy) -> None:
    """U, below."""
    assert state.aux is not None
    letters = "".join(ALPHABET[int(token)] for token in state.aux[0])
    write_row(axes, BOTTOM, "U", letters, [LOST] * len(letters))


def draw_times(process: tl.Process, path: Path, seed: int) -> None:
    """The picture of MUDM: a tick at every tau, and what the network sees."""
    coupling = process.coupling
    assert isinstance(coupling, tl.couplings.TransitionTimes)

    def note(axes: Axes, rows: list[Row], state: tl.Noisy) -> None:
        assert state.aux is not None
        for column, time in enumerate(state.aux[0].tolist()):
            place = min(time, 1.0) / (TIMES[1] - TIMES[0])
            axes.plot([column + 0.28, column + 0.6], [place, place], color=LOST, linewidth=1.2)
        middle = replace(state, t=torch.tensor([0.6], dtype=torch.float64), tokens=torch.tensor([rows[3][0]]))
        shown = coupling.masked_view(process, middle)[0].tolist()
        view = "".join("▢" if token == process.mask else ALPHABET[token] for token in shown)
        write_row(axes, BOTTOM, "network sees at 0.6", view, [NOTE if letter == "▢" else CLEAN for letter in view])

    draw(process, path, seed, lambda state, x_0: coupling.lost(state), note)


def main(folder: str) -> None:
    """All three."""
    size, schedule = len(ALPHABET), tl.LinearSchedule(eps=0)
    draw(tl.Uniform(size, schedule=schedule), Path(folder) / "udm.svg", 3)
    draw(tl.AbsorbingUniform(size, schedule=schedule), Path(folder) / "audm.svg", 3, note=absorbing_sequence)
    draw_times(tl.MaskedUniform(size, schedule=schedule), Path(folder) / "mudm.svg", 5)


if __name__ == "__main__":
    main(*sys.argv[1:])
