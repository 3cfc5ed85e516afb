"""From a config to the things it names: data, model, objective.  A combination that makes no sense is refused here."""

from dataclasses import replace
from pathlib import Path

from tokenloom import processes, schedules
from tokenloom.data.base import Dataset
from tokenloom.data.digits import load_digits
from tokenloom.data.markov import load_markov
from tokenloom.data.sudoku import load_sudoku
from tokenloom.data.text import load_text
from tokenloom.model import DiffusionModel
from tokenloom.nn import CausalTransformer, DiT, GridNetwork, HollowTransformer, Transformer, TransformerConfig
from tokenloom.objectives import (
    CrossEntropy,
    FiniteStep,
    Hybrid,
    NextToken,
    Objective,
    PriorTerm,
    RatioMatching,
    ScoreEntropy,
    bound_of,
)
from tokenloom.objectives.prior_term import leaves_signal
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score
from tokenloom.training.config import DataConfig, ObjectiveName, Predicts, TrainConfig
from tokenloom.training.ranges import check_ranges

PROCESSES: dict[str, type[processes.Process]] = {
    "mdm": processes.Masked,
    "udm": processes.Uniform,
    "max-coupling": processes.MaxCoupling,
    "audm": processes.AbsorbingUniform,
    "ar": processes.Uniform,
}
REPRESENTATIONS: dict[Predicts, type[Posterior]] = {"loo": LeaveOneOut, "denoiser": Denoiser, "score": Score}
SCHEDULES: dict[str, type[schedules.Schedule]] = {
    "linear": schedules.LinearSchedule,
    "cosine": schedules.CosineSchedule,
    "polynomial": schedules.PolynomialSchedule,
    "geometric": schedules.GeometricSchedule,
}


def resolve(config: TrainConfig) -> TrainConfig:
    """Fill in what follows from the method, and refuse what contradicts it."""
    causal, method = config.network.kind == "causal", config.method
    if method == "ar" and config.network.kind in ("hollow", "grid"):
        raise ValueError(f"--method ar trains a causal network, got --network.kind {config.network.kind}")
    if causal and method != "ar":
        raise ValueError(
            f"--network.kind causal sees only the past and serves --method ar alone, got --method {method}"
        )
    if method == "ar" and config.predicts not in (None, "loo"):
        raise ValueError(f"--method ar predicts the next token, so leave out --predicts, got {config.predicts}")
    default: Predicts = "loo" if method in ("udm", "max-coupling", "ar") else "denoiser"
    goal: ObjectiveName = "ce" if method == "udm" else "next-token" if method == "ar" else "nelbo"
    config = replace(config, predicts=config.predicts or default, objective=config.objective or goal)
    if method == "ar":
        config = replace(config, network=replace(config.network, kind="causal", time=False))
    if (method == "ar") != (config.objective == "next-token"):
        raise ValueError(f"--objective next-token goes with --method ar, got {config.objective} with {method}")
    if config.out is None:
        config = replace(config, out=f"runs/{config.recipe}-{method}-{config.predicts}-{config.objective}")
    if config.max_steps is None and config.max_minutes is None:
        raise ValueError("a run needs an end: give --max-steps or --max-minutes")
    check_ranges(config)
    kind, process = config.network.kind, _process(config, 2)
    terms = [build_objective(config), build_bound(config)]
    for term in terms if method == "ar" or not leaves_signal(process) else [*terms, PriorTerm()]:
        term.check(process, representation(config), kind == "hollow", kind == "causal")
    return config


def representation(config: TrainConfig) -> type[Posterior]:
    """What the network predicts."""
    assert config.predicts is not None
    return REPRESENTATIONS[config.predicts]


def build_objective(config: TrainConfig) -> Objective:
    """What is minimised."""
    bound = build_bound(config)
    objectives: dict[str, Objective] = {
        "ce": CrossEntropy(),
        "nelbo": bound,
        "finite-step": FiniteStep(),
        "hybrid": Hybrid(bound),
        "crm": RatioMatching(),
        "score-entropy": ScoreEntropy(),
        "next-token": NextToken(),
    }
    assert config.objective is not None
    return objectives[config.objective]


def build_bound(config: TrainConfig) -> Objective:
    """What is validated: the continuous-time bound of the process, from whatever the network predicts."""
    return bound_of(_process(config, 2), representation(config), causal=config.method == "ar")


def build_data(config: DataConfig) -> Dataset:
    """The data, split."""
    path = None if config.path is None else Path(config.path)
    if config.kind == "sudoku":
        return load_sudoku(
            config.side, path, rows=config.rows, seed=config.seed, givens=config.givens, puzzles=config.puzzles
        )
    if config.kind == "markov":
        return load_markov(config.vocab_size, config.length, config.rows, seed=config.seed)
    if config.kind == "digits":
        return load_digits(path)
    if config.path is None:
        raise ValueError("text needs --data.path: a file, a folder or a Hub name such as lm1b")
    return load_text(
        config.path, config.valid_path, config.tokenizer, config.length, config.packing, config.detokeniser
    )


def build_model(config: TrainConfig, data: Dataset) -> DiffusionModel:
    """The network, fresh, with its process."""
    process = _process(config, data.vocab_size)
    network, predicts = config.network, representation(config)
    relations = data.relations if network.relations or network.kind == "grid" else None
    if relations is None and (network.relations or network.kind == "grid"):
        asked = "--network.kind grid" if network.kind == "grid" else "--network.relations"
        raise ValueError(f"{asked} needs a grid, and {data.name} has no relations")
    size = TransformerConfig(
        process.num_states if predicts is Score else process.vocab_size,
        process.num_states,
        data.length,
        network.width,
        network.depth,
        network.heads,
        network.condition,
        network.dropout,
        network.time,
        absorbing=isinstance(process, processes.AbsorbingUniform),
        fixed=data.draw_fixed is not None,
        rotary=relations is None,
        loops=network.loops,
    )
    built: Transformer
    if network.kind == "dit":
        built = DiT(size, relations)
    elif network.kind == "grid":
        assert relations is not None
        built = GridNetwork(size, relations)
    else:
        built = CausalTransformer(size) if network.kind == "causal" else HollowTransformer(size)
    return DiffusionModel(built, process, predicts=predicts)


def _process(config: TrainConfig, vocab_size: int) -> processes.Process:
    return PROCESSES[config.method](vocab_size, schedule=SCHEDULES[config.schedule]())
