"""`tokenloom bench training`: what head and loss cost, as ratios to the same network with dense cross-entropy.

Time: a case and its dense reference take turns, a ratio is formed within a turn, and the median of the turns counts, so
that a slow spell of the machine hits both.  Memory is the peak resident size of a fresh process that takes one step, so
that nothing of another case is counted; `step` leaves out what the process held before the step (the interpreter and
the parameters).
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from json import dumps, loads
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tokenloom
import tokenloom as tl
from benchmarks.account import Spread
from benchmarks.memory import in_a_process, peak, resident
from benchmarks.size import Size
from tokenloom import DiffusionModel, Process, training_loss
from tokenloom.nn import CausalTransformer, DiT, HollowTransformer, Transformer, TransformerConfig
from tokenloom.nn.block import Block
from tokenloom.objectives import (
    BoundWithCrossEntropy,
    CrossEntropy,
    FiniteStep,
    JumpNELBO,
    MarkovNELBO,
    NextToken,
    Objective,
    RatioMatching,
    ScoreEntropy,
)
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score
from tokenloom.support.files import write_json


@dataclass(frozen=True)
class Case:
    """One way to train, and the network it is compared on."""

    network: type[Transformer]
    process: Callable[..., Process]
    predicts: type[Posterior]
    objective: Objective | None
    """None is the dense way: the network's own logits and `F.cross_entropy`."""


CASES = {
    "DiT, dense cross-entropy": Case(DiT, tl.Uniform, Denoiser, None),
    "UDM cross-entropy, denoiser": Case(DiT, tl.Uniform, Denoiser, CrossEntropy()),
    "UDM cross-entropy, leave-one-out": Case(DiT, tl.Uniform, LeaveOneOut, CrossEntropy()),
    "UDM NELBO, leave-one-out": Case(DiT, tl.Uniform, LeaveOneOut, MarkovNELBO()),
    "UDM NELBO, denoiser": Case(DiT, tl.Uniform, Denoiser, MarkovNELBO()),
    "UDM finite steps": Case(DiT, tl.Uniform, LeaveOneOut, FiniteStep()),
    "UDM NELBO with cross-entropy": Case(DiT, tl.Uniform, Denoiser, BoundWithCrossEntropy()),
    "UDM score entropy": Case(DiT, tl.Uniform, Score, ScoreEntropy()),
    "max coupling NELBO, denoiser": Case(DiT, tl.MaxCoupling, Denoiser, JumpNELBO()),
    "max coupling NELBO, leave-one-out": Case(DiT, tl.MaxCoupling, LeaveOneOut, JumpNELBO()),
    "MDM NELBO": Case(DiT, tl.Masked, Denoiser, JumpNELBO()),
    "MDM finite steps": Case(DiT, tl.Masked, Denoiser, FiniteStep()),
    "AUDM-DiT, dense cross-entropy": Case(DiT, tl.AbsorbingUniform, Denoiser, None),
    "AUDM NELBO": Case(DiT, tl.AbsorbingUniform, Denoiser, JumpNELBO()),
    "AUDM finite steps": Case(DiT, tl.AbsorbingUniform, Denoiser, FiniteStep()),
    "causal, dense cross-entropy": Case(CausalTransformer, tl.LeftToRight, LeaveOneOut, None),
    "next token": Case(CausalTransformer, tl.LeftToRight, LeaveOneOut, NextToken()),
    "hollow, dense cross-entropy": Case(HollowTransformer, tl.Uniform, LeaveOneOut, None),
    "ratio matching": Case(HollowTransformer, tl.Uniform, LeaveOneOut, RatioMatching()),
}


@dataclass(frozen=True)
class TrainingSize(Size):
    """The network and the batch."""

    batch: int = 4


TIME_GOAL = 1.05
MEMORY_GOAL = 0.6
STEP_MEMORY_GOAL = {DiT: 0.5, CausalTransformer: 0.5, HollowTransformer: 0.6}


@dataclass(frozen=True)
class Row:
    """What one case costs, absolutely and against the dense way on the same network."""

    name: str
    seconds: Spread
    time_ratio: Spread
    gigabytes: float | None = None
    memory_ratio: float | None = None
    step_memory_ratio: float | None = None
    step_memory_goal: float | None = None


def main(
    size: TrainingSize = TrainingSize(),  # noqa: B008
    memory_batch: int = 16,
    turns: int = 7,
    only: str = "",
    memory: bool = True,
    recompute: bool = False,
    compile: bool = False,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Measure head and loss against dense cross-entropy: step time and peak memory.

    Args:
        size: The network and the batch of the timed steps.
        memory_batch: Batch of the steps whose memory is measured.
        turns: How often each case takes a step after its reference; the median counts.
        only: Measure only the cases whose name contains this text, with their dense reference.
        memory: Also measure the peak memory.
        recompute: Let the cases keep only the input of each block and compute the rest again; the references keep all.
        compile: Compile the networks of the cases with torch.compile; the references stay as they are.
        json: Print JSON instead of a table.
        out: Write the same JSON to this file, after every case.
    """
    if turns < 1 or memory_batch < 1:
        raise ValueError(f"turns and memory-batch must be at least 1, got {turns} and {memory_batch}")
    names, way = _selected(only), Way(recompute, compile)
    record: dict[str, Any] = {
        "size": asdict(size),
        "memory_batch": memory_batch,
        "turns": turns,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "tokenloom": tokenloom.__version__,
        "recompute": recompute,
        "compiled": compile,
        "rows": [],
    }
    rows: list[Row] = []
    held: dict[str, tuple[float, float]] = {}
    for name in track(names, "cases", console=Console(stderr=True)):
        row = _row(name, _time(name, size, turns, way if CASES[name].objective is not None else Way()))
        if memory:
            for each in (_reference(name), name):
                held[each] = held.get(each) or _memory(each, size, memory_batch, way)
            row = _with_memory(row, held[name], held[_reference(name)])
        rows.append(row)
        record["rows"].append(asdict(row))
        if out is not None:
            write_json(out, record)
    print(dumps(record, indent=2)) if json else _print(rows)


def _row(name: str, pairs: list[tuple[float, float]]) -> Row:
    ratios = Spread.of([own / reference for reference, own in pairs])
    return Row(name, Spread.of([own for _, own in pairs]), ratios)


def _with_memory(row: Row, own: tuple[float, float], dense: tuple[float, float]) -> Row:
    """Gigabytes before and at the peak, of the case and of its reference."""
    (before, most), (before_dense, most_dense) = own, dense
    step = (most - before) / max(most_dense - before_dense, 1e-3)
    goal = STEP_MEMORY_GOAL[CASES[row.name].network] if CASES[row.name].objective is not None else None
    return replace(
        row,
        gigabytes=round(most, 2),
        memory_ratio=round(most / most_dense, 3),
        step_memory_ratio=round(step, 3),
        step_memory_goal=goal,
    )


def _selected(only: str) -> list[str]:
    chosen = [name for name, case in CASES.items() if case.objective is not None and only.lower() in name.lower()]
    if not chosen:
        raise ValueError(f"no case contains {only!r}; the cases are: {'; '.join(CASES)}")
    wanted = {*chosen, *(_reference(name) for name in chosen)}
    return [name for name in CASES if name in wanted]


def _reference(name: str) -> str:
    """The dense case on the same network."""
    dense = [other for other in list(CASES)[: list(CASES).index(name) + 1] if CASES[other].objective is None]
    return dense[-1]


def _network(case: Case, size: TrainingSize) -> Transformer:
    """One network serves all cases of its kind, so it also embeds a mask."""
    config = TransformerConfig(size.vocab, size.vocab + 1, size.length, size.width, size.depth, size.heads)
    return case.network(replace(config, absorbing=case.process(size.vocab).shows_auxiliary))


@dataclass(frozen=True)
class Way:
    """How a network takes its steps."""

    recompute: bool = False
    compiled: bool = False


def _step(case: Case, size: TrainingSize, network: Transformer, way: Way) -> Callable[[], None]:
    """One forward and backward pass, from a fresh gradient."""
    process = case.process(size.vocab)
    generator = torch.Generator().manual_seed(0)
    x_0 = torch.randint(0, size.vocab, (size.batch, size.length), generator=generator)
    t = torch.rand(size.batch, generator=generator)
    model = DiffusionModel(network, process, predicts=case.predicts)
    if way.compiled:
        model.compile()

    def step() -> None:
        network.zero_grad(set_to_none=True)
        for block in (module for module in network.modules() if isinstance(module, Block)):
            block.recompute = way.recompute
        if case.objective is None:
            shown = process.network_input(process.corrupt(x_0, t, generator))
            logits = network(shown.tokens, shown.time, shown.absorbing)
            loss = F.cross_entropy(logits.flatten(0, 1), x_0.flatten())
        else:
            loss = training_loss(model, case.objective, x_0, t, generator).mean
        torch.autograd.backward(loss)

    return step


def _time(name: str, size: TrainingSize, turns: int, way: "Way") -> list[tuple[float, float]]:
    """Seconds of the reference and of the case, turn by turn; the first touch of memory is not a step's cost."""
    reference = _reference(name)
    network = _network(CASES[name], size)
    steps = [_step(CASES[reference], size, network, Way()), _step(CASES[name], size, network, way)]
    found = []
    for _ in range(turns + 1):
        pair = []
        for step in steps:
            start = time.perf_counter()
            step()
            pair.append(time.perf_counter() - start)
        found.append((pair[0], pair[1]))
    return found[1:]


def _memory(name: str, size: TrainingSize, batch: int, way: "Way") -> tuple[float, float]:
    """Gigabytes before and at the peak of a step, in a process of its own that gives freed memory back at once."""
    options = dumps(asdict(size) | {"batch": batch})
    recompute = way.recompute and CASES[name].objective is not None
    code = f"from benchmarks.bench_training import _child; _child({name!r}, {options!r}, {recompute})"
    return in_a_process(code, name)


def _child(name: str, options: str, recompute: bool) -> None:
    size, case = TrainingSize(**loads(options)), CASES[name]
    step = _step(case, size, _network(case, size), Way(recompute))
    before = resident()
    step()
    print(dumps([before, peak()]))


def _print(rows: list[Row]) -> None:
    title = "Forward + backward, against dense cross-entropy on the same network"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", overflow="fold")
    for column in ("seconds", f"time\n<= {TIME_GOAL}", "peak\nGB", f"peak\n<= {MEMORY_GOAL}", "memory\nof the step"):
        table.add_column(column, justify="right")
    for row in rows:
        goal = "" if row.step_memory_goal is None else f" <= {row.step_memory_goal}"
        figures = (
            "" if each is None else str(each) for each in (row.gigabytes, row.memory_ratio, row.step_memory_ratio)
        )
        *others, memory = figures
        table.add_row(row.name, f"{row.seconds.median:.2f}", str(row.time_ratio), *others, memory + goal)
    Console().print(table)


if __name__ == "__main__":
    tyro.cli(main)
