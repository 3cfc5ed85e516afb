"""`tokenloom bench sampling`: what a step of a sampler costs, and how much of it is not the network.

Everything runs in one process on networks with random weights (`cases.py`), timed as `account.py` says.  A batch of 1
takes all steps of the grid.  Larger batches take a few steps that are spread over the same grid, each from a state of
the forward process at its time.  Peak memory is that of a fresh process.  Beside the samplers of the library stand
those of `peers.py`.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from json import dumps, loads
from pathlib import Path
from typing import Any

import torch
import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import tokenloom
from benchmarks.account import Account, Clock, ClockedModel, Spread
from benchmarks.cases import CASES, Case, Networks
from benchmarks.memory import in_a_process, peak, resident
from benchmarks.peers import PEERS, peer_steps
from benchmarks.size import Size
from tokenloom import DiffusionModel
from tokenloom.support.files import write_json

FEW = 4
"""Steps that are timed at batches above 1, and of the peers at any."""
LARGEST_PEER = 1
"""The largest batch of the peers, whose dense tables take seconds per row."""
SHARE = {1: 0.04, 32: 0.10}
"""The largest share of a step that the sampler may take, by batch."""
GROWTH = ((1024, 128), (8192, 128), (50257, 128), (262144, 128), (8192, 512), (8192, 1024), (8192, 2048), (8192, 4096))
"""Vocabularies and lengths of the growth table."""
GROWN = "UDM plug-in, top-p 0.9"


@dataclass(frozen=True)
class Row:
    """What a step of a sampler costs, over the steps that were timed."""

    name: str
    batch: int
    steps: int
    step_seconds: Spread
    forward_seconds: Spread
    """Body and head at all positions."""
    ratio: Spread
    """Of a step to the median forward pass."""
    body: Spread
    """The body's share of a step."""
    head: Spread
    """The head's share of a step."""
    sampler: Spread
    """The share of all else."""
    over_body: Spread
    """Of a step to the body in it; for steps that evaluate the network."""
    share_goal: float | None = None
    over_body_goal: float | None = None
    gigabytes: float | None = None
    """What the step adds to the memory of the model at its peak."""
    compiled: bool = False
    """Whether the network was under torch.compile."""


def main(
    size: Size = Size(),  # noqa: B008
    steps: int = 64,
    batches: tuple[int, ...] = (1, 8, 32),
    only: str = "",
    growth: bool = True,
    memory: bool = True,
    compile: bool = False,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Measure samplers: what a step costs, how much of it is not the network, memory, growth with K and L.

    Args:
        size: The network.
        steps: Network evaluations per sample.
        batches: Sequences that are sampled at once; each is measured.
        only: Measure only the samplers whose name contains this text.
        growth: Also measure how a step grows with the vocabulary and the length.
        memory: Also measure the peak memory of a batch of 1, each in a process of its own.
        compile: Also measure every sampler with its network under torch.compile, right after the plain one.
        json: Print JSON instead of tables.
        out: Write the same JSON to this file, after every measurement.
    """
    if steps < 1 or any(batch < 1 for batch in batches) or not batches:
        raise ValueError(f"steps and batches must be at least 1, got {steps} and {list(batches)}")
    names = [name for name in [*CASES, *PEERS] if only.lower() in name.lower()]
    if not names:
        raise ValueError(f"no sampler contains {only!r}; they are: {'; '.join([*CASES, *PEERS])}")
    record: dict[str, Any] = {
        "size": asdict(size),
        "steps": steps,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "tokenloom": tokenloom.__version__,
        "rows": [],
        "growth": [],
    }
    work: list[tuple[str, Callable[[], None]]] = []
    networks = Networks(size)
    ways = [networks, networks.compiling()] if compile else [networks]
    rows: list[Row] = []

    def measure(name: str, batch: int) -> None:
        for way in ways if name in CASES else ways[:1]:
            row = _measure(name, batch, way, steps, memory and batch == 1 and not way.compiled)
            if row is None:
                Console(stderr=True).print(f"{name} is left out: what it needs is not installed")
                return
            rows.append(row)
            record["rows"].append(asdict(row))

    for batch in batches:
        for name in names:
            if name in CASES or batch <= LARGEST_PEER:
                work.append((f"{name}, batch {batch}", partial(measure, name, batch)))
    for vocab, length in GROWTH if growth else ():
        work.append((f"growth, K = {vocab:,}, L = {length:,}", partial(_grow, vocab, length, record["growth"])))
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(work))
        for title, item in work:
            progress.update(task, description=title)
            item()
            progress.advance(task)
            if out is not None:
                write_json(out, record)
    if json:
        print(dumps(record, indent=2))
    else:
        _print(rows, record["growth"])


def _measure(name: str, batch: int, networks: Networks, steps: int, memory: bool) -> Row | None:
    case, clock = CASES.get(name, CASES["UDM plug-in"]), Clock()
    model = _model(case, networks, clock)
    account = Account(clock, partial(_forward, case, networks, batch))
    if name in PEERS:
        runner = PEERS[name](clock.timed("body", _logits(networks.of(case))), networks.size, batch)
        if runner is None:
            return None
        peer_steps(runner, account, FEW)
    else:
        _steps(case, model, networks.size.length, batch, steps, account)
    gigabytes = round(_memory(name, networks.size), 2) if memory and name in CASES else None
    goals = (SHARE.get(batch), case.over_body) if name in CASES else (None, None)
    return replace(_row(name, batch, account, *goals, gigabytes), compiled=networks.compiled)


def _row(
    name: str, batch: int, account: Account, share: float | None, over_body: float | None, gigabytes: float | None
) -> Row:
    forwards, steps = Spread.of(account.forwards), account.steps
    return Row(
        name,
        batch,
        len(steps),
        Spread.of([step.whole for step in steps]),
        forwards,
        Spread.of([step.whole / forwards.median for step in steps]),
        Spread.of([step.body / step.whole for step in steps]),
        Spread.of([step.head / step.whole for step in steps]),
        Spread.of([step.sampler / step.whole for step in steps]),
        Spread.of([step.whole / step.body for step in steps if step.body] or [float("nan")]),
        share,
        over_body,
        gigabytes,
    )


def _logits(network: Any) -> Callable[..., torch.Tensor]:
    """The network as a plain callable (tokens, time) -> logits."""

    def call(tokens: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            logits: torch.Tensor = network(tokens, time)
        return logits

    return call


def _model(case: Case, networks: Networks, clock: Clock) -> DiffusionModel:
    network = networks.of(case)
    return ClockedModel.of(networks.model(case, network if case.splits else _logits(network)), clock)


def _forward(case: Case, networks: Networks, batch: int) -> None:
    """Body and head at all positions."""
    model = networks.model(case, networks.of(case))
    noisy = model.process.prior(batch, networks.size.length, torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.head(model.body(noisy).flatten(0, 1))


def _steps(case: Case, model: DiffusionModel, length: int, batch: int, steps: int, account: Account) -> None:
    """Time the steps of a sampler: all of them at batch 1, else `FEW` of them, spread over the grid."""
    sampler, generator = case.sampler(steps), torch.Generator().manual_seed(0)
    prepared = sampler.predictor.prepare(model)
    process, times = prepared.process, sampler.times(prepared)
    clean = torch.randint(process.vocab_size - 1, (batch, length), generator=generator)

    def run(index: int, count: int, on_step: Callable[..., None]) -> None:
        begin = process.corrupt(clean, times[index].repeat(batch), generator) if index else None
        account.start()
        for step in sampler.steps(model, batch, length=length, generator=generator, begin=begin):
            on_step()
            if step.index >= index + count:
                break

    total = len(times) - 1
    spans = [(0, total)] if batch == 1 else [(index, 1) for index in range(0, total, -(-total // FEW))]
    run(total // 2, 1, lambda: None)  # warm-up
    if model.compiled:  # the same steps, so that every size is compiled when it is timed
        for index, count in spans:
            generator.manual_seed(index)
            run(index, count, lambda: None)
    account.forward()
    for index, count in spans:
        generator.manual_seed(index)
        run(index, count, account.step)


def _memory(name: str, size: Size) -> float:
    """Gigabytes that four steps add at their peak to what the model itself takes."""
    code = f"from benchmarks.bench_sampling import _child; _child({name!r}, {dumps(asdict(size))!r})"
    before, most = in_a_process(code, name)
    return most - before


def _child(name: str, options: str) -> None:
    size, case = Size(**loads(options)), CASES[name]
    model = _model(case, Networks(size), Clock())
    before = resident()
    case.sampler(4).run(model, 1, length=size.length, generator=torch.Generator().manual_seed(0))
    print(dumps([before, peak()]))


def _grow(vocab: int, length: int, found: list[dict[str, Any]]) -> None:
    """A shallow network, so that what is not the network shows."""
    size = Size(width=256, depth=2, heads=4, vocab=vocab, length=length)
    row = _measure(GROWN, 1, Networks(size), 16, memory=False)
    assert row is not None
    found.append({"vocab": vocab, "length": length} | asdict(row))


def _print(rows: list[Row], growth: list[dict[str, Any]]) -> None:
    console = Console()
    table = Table(
        title="A step, medians over steps (--json has their ranges)",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("sampler", overflow="fold")
    for column in ("batch", "forward\npasses", "body\n%", "head\n%", "sampler\n%", "over\nbody", "GB on\ntop"):
        table.add_column(column, justify="right")
    for row in rows:
        share = "" if row.share_goal is None else f" <= {100 * row.share_goal:.0f}"
        over = "" if row.over_body_goal is None else f" <= {row.over_body_goal:.2f}"
        body, head, rest = (f"{100 * part.median:.1f}" for part in (row.body, row.head, row.sampler))
        figures = (f"{row.ratio.median:.2f}", body, head, rest + share, f"{row.over_body.median:.2f}{over}")
        memory = "" if row.gigabytes is None else f"{row.gigabytes:.2f}"
        table.add_row(f"{row.name}, compiled" if row.compiled else row.name, str(row.batch), *figures, memory)
    console.print(table)
    if growth:
        table = Table(title=f"Growth, two layers of width 256, {GROWN}", title_justify="left")
        for column in ("K", "L", "ms per step", "ms per forward", "forward passes", "sampler %"):
            table.add_column(column, justify="right")
        for item in growth:
            spent = (1e3 * item[key]["median"] for key in ("step_seconds", "forward_seconds"))
            ratio, share = item["ratio"]["median"], 100 * item["sampler"]["median"]
            table.add_row(
                f"{item['vocab']:,}", f"{item['length']:,}", *(f"{each:.1f}" for each in spent),
                f"{ratio:.2f}", f"{share:.0f}",
            )  # fmt: skip
        console.print(table)


if __name__ == "__main__":
    tyro.cli(main)
