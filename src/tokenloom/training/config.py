"""Everything a run is made of, as nested frozen dataclasses whose fields declare their limits.

A config written as JSON and read back is the same config; a key that does not exist is an error with the nearest names.
"""

import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from tokenloom.data.base import Source, source_of
from tokenloom.data.markov import MarkovSource
from tokenloom.nn.base import NETWORKS, NetworkOptions
from tokenloom.nn.transformer import TransformerOptions
from tokenloom.support.addresses import workplace
from tokenloom.support.reading import read_json
from tokenloom.support.registry import build
from tokenloom.support.typed import Count, Limit, NotNegative, limits_of
from tokenloom.support.words import nearest

FORMAT = 2
FITTED = (
    "network.width",
    "network.depth",
    "network.heads",
    "optimiser.batch",
    "optimiser.lr",
    "optimiser.warmup",
    "optimiser.ema",
    "run.validate_every",
    "run.checkpoint_every",
)
"""Options that `fit` can choose."""
Predicts = Literal["loo", "denoiser", "score"]
AT_LEAST_1, AT_LEAST_2 = Limit("at least 1", 1), Limit("at least 2", 2)
POSITIVE, SHARE = Limit("positive and finite", math.ulp(0.0)), Limit("in [0, 1)", 0, 1)
BY_NAME = (
    dict.fromkeys(("width", "depth", "heads", "loops", "condition", "length"), AT_LEAST_1)
    | dict.fromkeys(("vocab_size", "rows"), AT_LEAST_2)
    | dict.fromkeys(("dropout", "given"), SHARE)
    | {"seed": Limit("in [-2^63, 2^63)", -(2**63), 2**63)}
)
"""Limits of numbers that options of networks and sources have by these names."""
Positive = Annotated[float, POSITIVE]
Share = Annotated[float, SHARE]


@dataclass(frozen=True)
class OptimiserConfig:
    """AdamW as in the paper, or Muon, with an exponential moving average of the weights."""

    kind: Literal["adamw", "muon"] = "adamw"
    """adamw, or muon: matrices move by their orthogonalised momentum, all else by AdamW; about half the steps, each up
    to a fifth longer."""
    lr: Positive = 3e-4
    """The learning rate, once the warm-up is over."""
    beta1: Share = 0.9
    """Adam's average of gradients: the share that is kept per step."""
    beta2: Share = 0.999
    """Adam's average of squared gradients."""
    eps: Positive = 1e-8
    """Adam's smallest divisor."""
    clip: Positive = 1.0
    """Largest norm of the gradient."""
    warmup: Annotated[int, Limit("at least 0", 0)] = 2500
    """Steps over which the learning rate rises."""
    decay: Literal["constant", "linear", "cosine", "step"] = "constant"
    """The learning rate after the warm-up: constant, a fall to the end of the run (linear to 0, cosine), or halvings
    (step)."""
    final_lr: NotNegative = 0.0
    """The learning rate at the end of a cosine decay."""
    halve_every: Count = 10_000
    """Steps between two halvings of the learning rate (--optimiser.decay step)."""
    weight_decay: NotNegative = 0.0
    """The share of every weight, times the learning rate, that a step takes away (AdamW)."""
    batch: Count = 64
    """Sequences per step, over all processes."""
    accumulate: Count = 1
    """Pieces a process cuts its part of the batch into."""
    ema: Share = 0.9999
    """The average of the weights: the share that is kept per step."""


@dataclass(frozen=True)
class RunConfig:
    """When to validate and save, and how to run."""

    validate_every: Count = 1000
    """Steps between two validations."""
    checkpoint_every: Count = 1000
    """Steps between two checkpoints."""
    valid_rows: Count = 512
    """Validation sequences; the standard error says whether they are enough."""
    sample_every: Annotated[int | None, AT_LEAST_1] = None
    """Steps between two draws of samples, whose figures and text are logged; by default none are drawn."""
    samples: Count = 16
    """Samples of each draw."""
    sample_steps: Count = 64
    """Network evaluations per sample."""
    judge: str | None = None
    """Rates these samples by their perplexity: a causal language model, a run, or oracle, as for `frontier`."""
    seed: int = 1
    """The seed of weights, batches and noise."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """Numbers of the network: float32, or bfloat16 where that is safe."""
    strategy: Literal["ddp", "fsdp"] = "ddp"
    """Of several processes (torchrun), each keeps the whole model (ddp) or a part of every parameter (fsdp)."""
    compile: bool = False
    """Compile the network first (torch.compile), which takes a minute or two; for long runs on a GPU."""
    recompute: bool = False
    """Keep only the input of each block for the backward pass and compute the rest again: less memory, more time."""
    tensorboard: bool = False
    """Write TensorBoard events beside metrics.jsonl."""
    wandb: str | None = None
    """A Weights & Biases project to log to."""


FIXED = {"run.valid_rows", "run.seed", "run.precision"}
MAY_CHANGE = {"max_steps", "max_minutes", "out"} | {f"run.{item.name}" for item in fields(RunConfig)} - FIXED
"""Options that a resumed run may change: its end, its folder, and how it runs unless a figure depends on it."""


@dataclass(frozen=True)
class TrainConfig:
    """A whole run."""

    recipe: str = "markov"
    """A named starting point, such as text, chars, sudoku4, sudoku9, markov, digits, lm1b or owt."""
    method: str = "udm"
    """The process to train under: udm, mdm, max-coupling, audm, ar or another registered one; name:option=value."""
    predicts: Predicts | None = None
    """The network's prediction; by default the leave-one-out posterior for udm and max-coupling, else the denoiser."""
    objective: str | None = None
    """The loss: ce, nelbo, finite-step, nelbo-ce, crm, score-entropy or another registered one; by default
    what suits the method."""
    schedule: str = "linear"
    """linear, cosine, polynomial:power=2, geometric or another registered one."""
    floor: Share = 1e-3
    """Smallest training time."""
    time_power: Positive = 1.0
    """Training times are uniform numbers to this power: below 1 more rows are noisy, and it is not the bound that is
    minimised."""
    out: str | None = None
    """Run folder, or an address such as s3://bucket/run; by default runs/<recipe>-<method>-<predicts>-<objective>."""
    max_steps: Annotated[int | None, AT_LEAST_1] = None
    """Stop after this many steps."""
    max_minutes: Annotated[float | None, POSITIVE] = None
    """End within this many minutes, the last validation included; resumed runs count the minutes before."""
    begin: Annotated[str | None, tyro.conf.arg(name="from")] = None
    """A model to train further: its network, with its weights to begin with, takes the place of a fresh one."""
    lora: Annotated[int | None, AT_LEAST_1] = None
    """With --from: train adapters of this rank alone (LoRA, of the library peft), and save what they add to the model
    instead of a whole one; 8 is usual."""
    fit: tuple[str, ...] = ()
    """Options to choose for --max-minutes on this machine, by timing a few steps first; those you give are kept."""
    sweep: tuple[str, ...] = ()
    """Options with the values to try, as in optimiser.lr=1e-4,3e-4 run.seed=1,2: one run for every combination, each in
    a folder of its own in --out."""
    data: Source = field(default_factory=MarkovSource)
    network: NetworkOptions = field(default_factory=TransformerOptions)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    run: RunConfig = field(default_factory=RunConfig)

    @property
    def folder(self) -> Path:
        """The folder on this machine in which the run is trained; what is written to it goes to the address."""
        return workplace(self.out or "")

    def record(self) -> dict[str, Any]:
        """Return the config as JSON, with the number of its format."""
        return {"format": FORMAT} | asdict(self)


def from_record(record: Any) -> TrainConfig:
    """Build a config from its record."""
    if not isinstance(record, dict):
        raise ValueError(f"a config is stored as an object, got {str(record)[:80]}")
    number = record.get("format")
    if type(number) is not int:
        raise ValueError("the config has no format number, so it was not written by tokenloom 0.2 or later")
    if number != FORMAT:
        remedy = "upgrade tokenloom" if number > FORMAT else "it was written by an older version, so train again"
        raise ValueError(f"the config has format {number}, and this version reads format {FORMAT}; {remedy}")
    parts: dict[str, Any] = {key: value for key, value in record.items() if key != "format"}
    if "data" in parts:
        parts["data"] = source_of(parts["data"])
    for key, kind in (("network", NetworkOptions), ("optimiser", OptimiserConfig), ("run", RunConfig)):
        values = parts.get(key, {})
        if not isinstance(values, dict):
            raise ValueError(f"the config's {key} must be an object, got {str(values)[:80]}")
        options = NETWORKS[str(values.get("kind", "dit"))].Options if kind is NetworkOptions else kind
        parts[key] = build(options, values, f"the config's {key}")
    return build(TrainConfig, parts, "the config")


def read_config(path: Path) -> TrainConfig:
    """Read the config of a JSON file."""
    try:
        record = read_json(path)
        if isinstance(record, dict) and not record.keys() - {"format"}:
            raise ValueError(f"{path.name} is empty, it names no option")
        return from_record(record)
    except ValueError as error:
        raise ValueError(f"{path} is not a usable config: {error}") from error


def check_ranges(config: TrainConfig) -> None:
    """Raise for the first number outside the limit that its field declares or its name has, and name its option."""
    parts = {f"{name}.": getattr(config, name) for name in ("network", "data", "optimiser", "run")}
    for prefix, options in ({"": config} | parts).items():
        for name, limit in (BY_NAME | limits_of(options.__class__)).items():
            if getattr(options, name, None) is not None:
                limit.check(f"--{prefix}{name.replace('_', '-')}", getattr(options, name))
    if config.optimiser.final_lr > config.optimiser.lr:
        lr, least = config.optimiser.lr, config.optimiser.final_lr
        raise ValueError(f"--optimiser.final-lr must be at most --optimiser.lr, {lr:g}, got {least:g}")
    for name, decay in (("final_lr", "cosine"), ("halve_every", "step")):
        changed = getattr(config.optimiser, name) != getattr(OptimiserConfig, name)
        if changed and config.optimiser.decay != decay:
            option = name.replace("_", "-")
            raise ValueError(
                f"--optimiser.{option} goes with --optimiser.decay {decay}, but the decay is {config.optimiser.decay}"
            )
    for name in config.fit:
        if name not in FITTED:
            raise ValueError(f"--fit cannot choose {name!r}; {nearest(name, FITTED)}")


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    """Return the keys at which two records differ, with both values; for parts of two kinds, only the kinds."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return [] if before == after else [f"{where} ({before} -> {after})"]
    keys = before | after if before.get("kind") == after.get("kind") else ["kind"]
    prefix = f"{where}." if where else ""
    return [item for key in keys for item in differences(before.get(key), after.get(key), f"{prefix}{key}")]


def check_same(before: TrainConfig, after: TrainConfig) -> None:
    """Raise unless a run may continue with this config."""
    changed = [item for item in differences(asdict(before), asdict(after)) if item.split(" ")[0] not in MAY_CHANGE]
    if changed:
        raise ValueError(f"a resumed run must keep its config; these differ: {', '.join(changed)}")
