"""`tokenloom bench sampling`: what a step of a sampler costs, as a ratio to one full forward pass of its network.

Everything runs in one process on one network with random weights: features and head at all positions are the unit, and
they are timed again around every case, so that a slow spell of the machine hits both.  Peak memory is that of a fresh
process.  Beside the samplers of the library stand those of `peers.py`.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from json import dumps, loads
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import nn

from benchmarks.imported import bert_network, mdlm_network
from benchmarks.memory import in_a_process, peak, resident
from benchmarks.peers import PEERS
from benchmarks.size import Size
from tokenloom import DiffusionModel, Sampler, processes
from tokenloom.nn import DiT, TransformerConfig
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior

Networks = dict[tuple[bool, bool, object], nn.Module]
"""One network for all cases that are alike in whether they read U and the time, and in where it comes from."""


@dataclass(frozen=True)
class Case:
    """A sampler and the ratio it is to stay below."""

    process: type[processes.Process]
    predicts: type[Posterior]
    predictor: str = "ancestral"
    corrector: str | None = None
    top_p: float = 1.0
    goal: float | None = None
    timed: bool = True
    """Whether the network is conditioned on the time."""
    imported: Callable[[Size], nn.Module] | None = None
    """What makes a network of another library."""
    mask_inside: bool = False
    """Whether the mask is the last id of the vocabulary and not one more."""


CASES = {
    "UDM plug-in": Case(processes.Uniform, LeaveOneOut, goal=1.20),
    "UDM plug-in, top-p 0.9": Case(processes.Uniform, LeaveOneOut, top_p=0.9, goal=1.30),
    "UDM marginalised denoiser": Case(processes.Uniform, Denoiser),
    "UDM denoiser, top-p 0.9 on leave-one-out": Case(
        processes.Uniform, Denoiser, "ancestral:through=plug-in", None, 0.9
    ),
    "UDM predictor-corrector": Case(processes.Uniform, LeaveOneOut, corrector="informed:steps=2,parallel=4", goal=1.25),
    "UDM Psi": Case(processes.Uniform, LeaveOneOut, "psi"),
    "UDM Euler": Case(processes.Uniform, LeaveOneOut, "euler"),
    "UDM tau-leaping": Case(processes.Uniform, LeaveOneOut, "tau-leaping"),
    "MDM": Case(processes.Masked, Denoiser, goal=0.85),
    "MDM without time": Case(processes.Masked, Denoiser, timed=False),
    "MDM, imported MDLM": Case(processes.Masked, Denoiser, goal=1.0, imported=mdlm_network),
    "MDM, imported BERT": Case(processes.Masked, Denoiser, goal=1.0, imported=bert_network, mask_inside=True),
    "MDM remasking": Case(processes.Masked, Denoiser, "remasking"),
    "max coupling": Case(processes.MaxCoupling, Denoiser, goal=0.85),
    "AUDM": Case(processes.AbsorbingUniform, Denoiser, goal=0.85),
    "ReAUDM": Case(processes.AbsorbingUniform, Denoiser, "reaudm", goal=1.20),
    "MUDM": Case(processes.Masked, Denoiser, "mudm", goal=1.20),
    "MUDM resampled": Case(processes.Masked, Denoiser, "mudm:resample=true", goal=1.20),
}


@dataclass(frozen=True)
class Row:
    """What a sampler costs."""

    name: str
    step_seconds: float
    forward_seconds: float
    ratio: float
    goal: float | None
    evaluations: float
    """Network evaluations per sequence, of `steps` allowed."""
    gigabytes: float | None = None


def main(
    size: Size = Size(),  # noqa: B008
    steps: int = 64,
    repeats: int = 1,
    only: str = "",
    growth: bool = True,
    memory: bool = True,
    json: bool = False,
) -> None:
    """Measure samplers: time of a step against one forward pass of the network, memory, growth with K and L.

    Args:
        size: The network.
        steps: Network evaluations per sample.
        repeats: How often each sampler runs; the best counts.
        only: Measure only the samplers whose name contains this text.
        growth: Also measure how a step grows with the vocabulary and the length.
        memory: Also measure the peak memory, each in a process of its own.
        json: Print JSON instead of tables.
    """
    if repeats < 1 or steps < 1:
        raise ValueError(f"repeats and steps must be at least 1, got {repeats} and {steps}")
    names = [name for name in [*CASES, *PEERS] if only.lower() in name.lower()]
    if not names:
        raise ValueError(f"no sampler contains {only!r}; they are: {'; '.join([*CASES, *PEERS])}")
    networks: Networks = {}
    progress = track(names, "samplers", console=Console(stderr=True))
    rows = [row for name in progress if (row := _measure(name, size, steps, repeats, networks, memory)) is not None]
    table = _growth() if growth else []
    if json:
        record: dict[str, Any] = {"size": asdict(size), "steps": steps, "threads": torch.get_num_threads()}
        print(dumps(record | {"rows": [asdict(row) for row in rows], "growth": table}, indent=2))
    else:
        _print(rows, table)


def random_network(size: Size, absorbing: bool, timed: bool) -> DiT:
    """A network whose every weight is random: logits with a spread of about 2, open gates."""
    torch.manual_seed(0)
    config = TransformerConfig(size.vocab, size.vocab + 1, size.length, size.width, size.depth, size.heads)
    network = DiT(replace(config, absorbing=absorbing, time=timed)).eval()
    for module in network.modules():
        if isinstance(module, nn.Linear) and not bool(module.weight.any()):
            nn.init.normal_(module.weight, std=0.02)
    nn.init.normal_(network.get_parameter("head.weight"), std=2 / size.width**0.5)
    return network


def _model(case: Case, size: Size, networks: Networks) -> DiffusionModel:
    inside: dict[str, Any] = {"mask_id": size.vocab - 1} if case.mask_inside else {}
    process = case.process(size.vocab, **inside)
    key = (process.shows_auxiliary, case.timed, case.imported)
    if key not in networks:
        networks[key] = random_network(size, *key[:2]) if case.imported is None else case.imported(size)
    return DiffusionModel(networks[key], process, predicts=case.predicts)


def _run(case: Case, model: DiffusionModel, length: int, steps: int) -> float:
    """Sample once; evaluations used."""
    sampler = Sampler.of(case.predictor, case.corrector, steps=steps, top_p=case.top_p)
    samples = sampler.run(model, 1, length=length, generator=torch.Generator().manual_seed(0))
    return float(samples.evaluations.double().mean())


def _forward(model: DiffusionModel, length: int, repeats: int = 3) -> float:
    """Seconds of features and head at all positions: the best of a few."""
    noisy = model.process.prior(1, length, torch.Generator().manual_seed(0))
    best = float("inf")
    with torch.inference_mode():
        for _ in range(repeats + 1):
            start = time.perf_counter()
            model.head(model.body(noisy).flatten(0, 1))
            best = min(best, time.perf_counter() - start)
    return best


def _measure(name: str, size: Size, steps: int, repeats: int, networks: Networks, memory: bool) -> Row | None:
    case = CASES.get(name, CASES["UDM plug-in"])
    model = _model(case, size, networks)
    run: Callable[[], float] | None = partial(_run, case, model, size.length, steps)
    if name in PEERS:
        run = PEERS[name](model, size.vocab, size.length, steps)
    if run is None:
        Console(stderr=True).print(f"{name} is left out: what it needs is not installed")
        return None
    best, evaluations = float("inf"), 0.0
    forward = _forward(model, size.length)
    for _ in range(repeats):
        start = time.perf_counter()
        evaluations = run()
        best = min(best, (time.perf_counter() - start) / steps)
        forward = min(forward, _forward(model, size.length))
    gigabytes = round(_memory(name, size), 2) if memory and name in CASES else None
    return Row(
        name,
        round(best, 4),
        round(forward, 4),
        round(best / forward, 3),
        case.goal if name in CASES else None,
        evaluations,
        gigabytes,
    )


def _memory(name: str, size: Size) -> float:
    """Gigabytes that four steps add at their peak to what the model itself takes."""
    code = f"from benchmarks.bench_sampling import _child; _child({name!r}, {dumps(asdict(size))!r})"
    before, most = in_a_process(code, name)
    return most - before


def _child(name: str, options: str) -> None:
    size, case = Size(**loads(options)), CASES[name]
    model = _model(case, size, {})
    before = resident()
    _run(case, model, size.length, 4)
    print(dumps([before, peak()]))


def _growth() -> list[dict[str, float]]:
    """A shallow network, so that what is not the network shows: UDM plug-in with top-p 0.9, 8 steps."""
    found = []
    for vocab, length in ((1024, 128), (8192, 128), (50257, 128), (262144, 128), (8192, 512), (8192, 1024)):
        size = Size(width=256, depth=2, heads=4, vocab=vocab, length=length)
        row = _measure("UDM plug-in, top-p 0.9", size, 8, 2, {}, memory=False)
        assert row is not None
        found.append(
            {
                "vocab": vocab,
                "length": length,
                "step": row.step_seconds,
                "forward": row.forward_seconds,
                "ratio": row.ratio,
            }
        )
    return found


def _print(rows: list[Row], growth: list[dict[str, float]]) -> None:
    console = Console()
    table = Table(title="Mean step time over one full forward pass of the network", title_justify="left")
    for column in ("sampler", "ratio", "goal", "ms per step", "ms per forward", "evaluations", "GB on top"):
        table.add_column(column, justify="left" if column == "sampler" else "right")
    for row in rows:
        goal = "" if row.goal is None else f"<= {row.goal:.2f}"
        gigabytes = "" if row.gigabytes is None else f"{row.gigabytes:.2f}"
        cells = (f"{row.ratio:.2f}", goal, f"{1e3 * row.step_seconds:.0f}", f"{1e3 * row.forward_seconds:.0f}")
        table.add_row(row.name, *cells, f"{row.evaluations:.0f}", gigabytes)
    console.print(table)
    if growth:
        table = Table(title="Growth, two layers of width 256, UDM plug-in with top-p 0.9", title_justify="left")
        for column in ("K", "L", "ms per step", "ms per forward", "ratio"):
            table.add_column(column, justify="right")
        for item in growth:
            table.add_row(
                f"{item['vocab']:,.0f}",
                f"{item['length']:.0f}",
                f"{1e3 * item['step']:.1f}",
                f"{1e3 * item['forward']:.1f}",
                f"{item['ratio']:.2f}",
            )
        console.print(table)


if __name__ == "__main__":
    tyro.cli(main)
