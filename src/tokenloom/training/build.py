"""From a config to the things it names: process, objective, model.  Combinations that make no sense are refused."""

from dataclasses import replace

from tokenloom.data.base import SOURCES, Dataset
from tokenloom.models.model import DiffusionModel, num_outputs
from tokenloom.nn.base import NETWORKS, Task
from tokenloom.objectives import OBJECTIVES, Bound, Objective
from tokenloom.posteriors import REPRESENTATIONS, Posterior
from tokenloom.processes import PROCESSES, Process
from tokenloom.schedules import SCHEDULES
from tokenloom.support.checks import nearest
from tokenloom.training.config import Predicts, TrainConfig
from tokenloom.training.ranges import check_ranges

NAMES: dict[type[Posterior], Predicts] = {kind: name for name, kind in REPRESENTATIONS.items()}  # type: ignore[misc]


def methods() -> dict[str, str]:
    """The training methods, each with the name of its process in the registry."""
    found = {name: PROCESSES[name] for name in PROCESSES}
    return {kind.method: name for name, kind in found.items() if kind.method is not None}


def process_of(config: TrainConfig, vocab_size: int) -> Process:
    """The process that a method stands for, on a vocabulary."""
    method, _, options = config.method.partition(":")
    known = methods()
    if method not in known:
        raise ValueError(f"there is no method {method!r}; {nearest(method, known)}")
    schedule = SCHEDULES.parse(config.schedule)
    return PROCESSES.parse(f"{known[method]}:{options}", vocab_size=vocab_size, schedule=schedule)


def resolve(config: TrainConfig) -> TrainConfig:
    """Fill in what follows from the method, and refuse what contradicts it."""
    process, kind = process_of(config, 2), NETWORKS[config.network.kind]
    for name, found, options in (
        ("network", config.network, kind.Options),
        ("data", config.data, SOURCES[config.data.kind]),
    ):
        if type(found) is not options:
            given, wanted = type(found).__name__, options.__name__
            raise ValueError(f"--{name}.kind {found.kind} takes the options of {wanted}, got those of {given}")
    causal = bool(getattr(kind, "causal", False))
    if process.sequential and not causal:
        if config.network.kind != "dit":
            raise ValueError(
                f"--method {config.method} trains a causal network, got --network.kind {config.network.kind}"
            )
        config = replace(config, network=replace(config.network, kind="causal"))
    if causal and not process.sequential:
        raise ValueError(
            f"--network.kind {config.network.kind} sees only the past and goes with --method ar, "
            f"got --method {config.method}"
        )
    if process.sequential and config.predicts not in (None, NAMES[process.default_predicts]):
        raise ValueError(
            f"--method {config.method} predicts the next token, so leave out --predicts, got {config.predicts}"
        )
    config = replace(
        config,
        predicts=config.predicts or NAMES[process.default_predicts],
        objective=config.objective or process.default_objective,
    )
    if process.sequential and hasattr(config.network, "time"):
        config = replace(config, network=replace(config.network, time=False))  # type: ignore[call-arg]
    if config.out is None:
        name = f"{config.recipe}-{config.method}-{config.predicts}-{config.objective}"
        config = replace(config, out=f"runs/{name.replace(':', '-')}")
    if config.max_steps is None and config.max_minutes is None:
        raise ValueError("a run needs an end: give --max-steps or --max-minutes")
    check_ranges(config)
    hollow = bool(getattr(NETWORKS[config.network.kind], "hollow", False))
    objective_of(config).check(process, representation(config), hollow)
    Bound.of(process, representation(config), hollow)
    return config


def representation(config: TrainConfig) -> type[Posterior]:
    """What the network predicts."""
    assert config.predicts is not None
    return REPRESENTATIONS[config.predicts]


def objective_of(config: TrainConfig) -> Objective:
    """What is minimised."""
    assert config.objective is not None
    return OBJECTIVES.parse(config.objective)


def build_model(config: TrainConfig, data: Dataset) -> DiffusionModel:
    """The network, fresh, with its process and what is known of it."""
    process, predicts = process_of(config, data.vocab_size), representation(config)
    task = Task(
        num_outputs(process, predicts),
        process.input_states,
        data.length,
        absorbing=process.shows_auxiliary,
        given=data.draw_given is not None,
        relations=data.relations,
        data=data.name,
    )
    model = DiffusionModel(config.network.build(task), process, predicts=predicts, tokenizer=data.tokenizer)
    return model.describe(
        data=data.name,
        source=config.data.record(),
        fingerprint=data.fingerprint,
        entropy=data.entropy,
        training=config.record(),
    )
