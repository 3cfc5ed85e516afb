"""`tokenloom bench training`: what head and loss cost, as ratios to the same network with dense cross-entropy.

Time is the best of several forward+backward steps, all cases interleaved in one process.  Memory is the peak resident
size of a fresh process that takes one step, so that nothing of another case is counted; `step` leaves out what the
process held before the step (the interpreter and the parameters).
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from json import dumps, loads

import torch
import torch.nn.functional as F
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.memory import in_a_process, peak, resident
from benchmarks.size import Size
from tokenloom import DiffusionModel, processes, training_loss
from tokenloom.nn import CausalTransformer, DiT, HollowTransformer, Transformer, TransformerConfig
from tokenloom.objectives import (
    BoundWithCrossEntropy,
    CrossEntropy,
    FiniteStep,
    JumpNELBO,
    NextToken,
    Objective,
    RatioMatching,
    ScoreEntropy,
    UniformNELBO,
)
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score


@dataclass(frozen=True)
class Case:
    """One way to train, and the network it is compared on."""

    network: type[Transformer]
    process: type[processes.Process]
    predicts: type[Posterior]
    objective: Objective | None
    """None is the dense way: the network's own logits and `F.cross_entropy`."""


CASES = {
    "DiT, dense cross-entropy": Case(DiT, processes.Uniform, Denoiser, None),
    "UDM cross-entropy, denoiser": Case(DiT, processes.Uniform, Denoiser, CrossEntropy()),
    "UDM cross-entropy, leave-one-out": Case(DiT, processes.Uniform, LeaveOneOut, CrossEntropy()),
    "UDM NELBO, leave-one-out": Case(DiT, processes.Uniform, LeaveOneOut, UniformNELBO()),
    "UDM NELBO, denoiser": Case(DiT, processes.Uniform, Denoiser, UniformNELBO()),
    "UDM finite steps": Case(DiT, processes.Uniform, LeaveOneOut, FiniteStep()),
    "UDM NELBO with cross-entropy": Case(DiT, processes.Uniform, Denoiser, BoundWithCrossEntropy()),
    "UDM score entropy": Case(DiT, processes.Uniform, Score, ScoreEntropy()),
    "max coupling NELBO, denoiser": Case(DiT, processes.MaxCoupling, Denoiser, JumpNELBO()),
    "max coupling NELBO, leave-one-out": Case(DiT, processes.MaxCoupling, LeaveOneOut, JumpNELBO()),
    "MDM NELBO": Case(DiT, processes.Masked, Denoiser, JumpNELBO()),
    "MDM finite steps": Case(DiT, processes.Masked, Denoiser, FiniteStep()),
    "AUDM-DiT, dense cross-entropy": Case(DiT, processes.AbsorbingUniform, Denoiser, None),
    "AUDM NELBO": Case(DiT, processes.AbsorbingUniform, Denoiser, JumpNELBO()),
    "AUDM finite steps": Case(DiT, processes.AbsorbingUniform, Denoiser, FiniteStep()),
    "causal, dense cross-entropy": Case(CausalTransformer, processes.LeftToRight, LeaveOneOut, None),
    "next token": Case(CausalTransformer, processes.LeftToRight, LeaveOneOut, NextToken()),
    "hollow, dense cross-entropy": Case(HollowTransformer, processes.Uniform, LeaveOneOut, None),
    "ratio matching": Case(HollowTransformer, processes.Uniform, LeaveOneOut, RatioMatching()),
}


@dataclass(frozen=True)
class TrainingSize(Size):
    """The network and the batch."""

    batch: int = 4


@dataclass(frozen=True)
class Row:
    """What one case costs, absolutely and against the dense way on the same network."""

    name: str
    seconds: float
    time_ratio: float
    gigabytes: float
    memory_ratio: float
    step_memory_ratio: float


def main(
    size: TrainingSize = TrainingSize(),  # noqa: B008
    memory_batch: int = 16,
    repeats: int = 3,
    only: str = "",
    json: bool = False,
) -> None:
    """Measure head and loss against dense cross-entropy: step time and peak memory.

    Args:
        size: The network and the batch of the timed steps.
        memory_batch: Batch of the steps whose memory is measured.
        repeats: How often each step is timed; the best counts.
        only: Measure only the cases whose name contains this text, with their dense reference.
        json: Print JSON instead of a table.
    """
    if repeats < 1 or memory_batch < 1:
        raise ValueError(f"repeats and memory-batch must be at least 1, got {repeats} and {memory_batch}")
    names = _selected(only)
    seconds = _time(names, size, repeats)
    memory = {name: _memory(name, size, memory_batch) for name in track(names, "memory", console=Console(stderr=True))}
    rows = []
    for name in names:
        reference = _reference(name)
        (before, peak), (before_dense, peak_dense) = memory[name], memory[reference]
        rows.append(
            Row(
                name,
                round(seconds[name], 3),
                round(seconds[name] / seconds[reference], 3),
                round(peak, 2),
                round(peak / peak_dense, 3),
                round((peak - before) / max(peak_dense - before_dense, 1e-3), 3),
            )
        )
    _report(rows, size, memory_batch, as_json=json)


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
    return case.network(replace(config, absorbing=case.process.shows_auxiliary))


def _step(case: Case, size: TrainingSize, network: Transformer) -> Callable[[], None]:
    """One forward and backward pass, from a fresh gradient."""
    process = case.process(size.vocab)
    generator = torch.Generator().manual_seed(0)
    x_0 = torch.randint(0, size.vocab, (size.batch, size.length), generator=generator)
    t = torch.rand(size.batch, generator=generator)
    model = DiffusionModel(network, process, predicts=case.predicts)

    def step() -> None:
        network.zero_grad(set_to_none=True)
        if case.objective is None:
            shown = process.network_input(process.corrupt(x_0, t, generator))
            logits = network(shown.tokens, shown.time, shown.absorbing)
            loss = F.cross_entropy(logits.flatten(0, 1), x_0.flatten())
        else:
            loss = training_loss(model, case.objective, x_0, t, generator).mean
        torch.autograd.backward(loss)

    return step


def _time(names: list[str], size: TrainingSize, repeats: int) -> dict[str, float]:
    """Best time of each; the cases of one network are timed in turn, so that a slow spell hits all of them."""
    best = dict.fromkeys(names, float("inf"))
    for reference in track([name for name in names if _reference(name) == name], "time", console=Console(stderr=True)):
        network = _network(CASES[reference], size)
        group = [name for name in names if _reference(name) == reference]
        steps = {name: _step(CASES[name], size, network) for name in group}
        steps[reference]()  # the first touch of memory is not the step's cost
        for _ in range(repeats):
            for name, step in steps.items():
                start = time.perf_counter()
                step()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def _memory(name: str, size: TrainingSize, batch: int) -> tuple[float, float]:
    """Gigabytes before and at the peak of a step, in a process of its own that gives freed memory back at once."""
    options = dumps(asdict(size) | {"batch": batch})
    code = f"from benchmarks.bench_training import _child; _child({name!r}, {options!r})"
    return in_a_process(code, name)


def _child(name: str, options: str) -> None:
    size, case = TrainingSize(**loads(options)), CASES[name]
    step = _step(case, size, _network(case, size))
    before = resident()
    step()
    print(dumps([before, peak()]))


def _report(rows: list[Row], size: TrainingSize, memory_batch: int, *, as_json: bool) -> None:
    if as_json:
        record = {"size": asdict(size), "memory_batch": memory_batch, "threads": torch.get_num_threads()}
        print(dumps(record | {"rows": [asdict(row) for row in rows]}, indent=2))
        return
    table = Table(title="Forward + backward, against dense cross-entropy on the same network", title_justify="left")
    for column in ("", "seconds", "time ratio", "peak GB", "peak ratio", "step memory ratio"):
        table.add_column(column, justify="left" if not column else "right")
    for row in rows:
        cells = (row.seconds, row.time_ratio, row.gigabytes, row.memory_ratio, row.step_memory_ratio)
        table.add_row(row.name, *(str(cell) for cell in cells))
    Console().print(table)


if __name__ == "__main__":
    tyro.cli(main)
