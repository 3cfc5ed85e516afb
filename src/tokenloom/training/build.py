"""From a config to the things it names: process, objective, model.  Combinations that make no sense are refused."""

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenloom.data.base import SOURCES, Dataset, Outline
from tokenloom.models.agreement import num_outputs
from tokenloom.models.model import DiffusionModel
from tokenloom.models.store import load_model, model_folder
from tokenloom.nn.base import NETWORKS, Task
from tokenloom.nn.size import heads_for
from tokenloom.objectives import OBJECTIVES, Bound, CrossEntropy, Objective
from tokenloom.posteriors import REPRESENTATIONS, Posterior
from tokenloom.schedules import SCHEDULES
from tokenloom.support.about import About
from tokenloom.training.config import Predicts, TrainConfig
from tokenloom.training.methods import Method, method_of
from tokenloom.training.ranges import check_ranges, check_size

NAMES: dict[type[Posterior], Predicts] = {kind: name for name, kind in REPRESENTATIONS.items()}  # type: ignore[misc]


def method_in(config: TrainConfig, vocab_size: int, data: Dataset | None = None) -> Method:
    """The method of a config on a vocabulary; its unigrams are those of the data."""
    return method_of(config.method, vocab_size, SCHEDULES.parse(config.schedule), None if data is None else data.train)


def resolve(config: TrainConfig) -> TrainConfig:
    """Fill in what follows from the method, and refuse what contradicts it."""
    base = begun(config)
    method = method_in(config, 2 if base is None else base.process.vocab_size)
    if base is None:
        config = _with_network(config, method)
    named = config.objective or method.objective.partition(":")[0]
    config = replace(
        config,
        predicts=config.predicts or NAMES[method.predicts],
        objective=config.objective or method.objective,
    )
    if config.out is None:
        name = f"{config.recipe}-{config.method}-{config.predicts}-{named}"
        config = replace(config, out=f"runs/{re.sub('[:,=]', '-', name)}")
    if config.max_steps is None and config.max_minutes is None:
        raise ValueError("a run needs an end: give --max-steps or --max-minutes")
    check_ranges(config)
    if base is None:
        config = _with_heads(config)
    else:
        base = DiffusionModel(base.network, method.process, predicts=representation(config))  # or the network refuses
        if method.mixed and not base.reads_evidence:
            raise ValueError(
                f"--method {config.method} trains a network that reads the evidence, and {config.begin} does not"
            )
    hollow = bool(getattr(NETWORKS[config.network.kind], "hollow", False)) if base is None else base.hollow
    _check_predicts(config, method, hollow)
    if base is None:
        check_size(config, task_of(config, config.data.outline()))
    return config


def begun(config: TrainConfig) -> DiffusionModel | None:
    """The model that a run begins with; once it has one of its own, that stands in for one that has gone."""
    if config.begin is None:
        return None
    own = Path(config.out or "") / "model"
    gone = model_folder(config.begin) is None and model_folder(own) is not None
    return load_model(own if gone else config.begin)


def _with_network(config: TrainConfig, method: Method) -> TrainConfig:
    """The config with a network that suits the method."""
    process = method.process
    kind = NETWORKS[config.network.kind]
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
    if process.sequential and config.predicts not in (None, NAMES[method.predicts]):
        raise ValueError(
            f"--method {config.method} predicts the next token, so leave out --predicts, got {config.predicts}"
        )
    if method.mixed:
        if not hasattr(config.network, "conditioning"):
            raise ValueError(
                f"--method {config.method} trains a network that reads the evidence, and --network.kind "
                f"{config.network.kind} does not; use --network.kind dit"
            )
        config = replace(config, network=replace(config.network, conditioning="evidence"))  # type: ignore[call-arg]
    if process.sequential and hasattr(config.network, "time"):
        config = replace(config, network=replace(config.network, time=False))  # type: ignore[call-arg]
    return config


def _with_heads(config: TrainConfig) -> TrainConfig:
    """The config with as many heads as suit its width, where it leaves them to be chosen."""
    if "network.heads" in config.fit and hasattr(config.network, "heads") and hasattr(config.network, "width"):
        network: Any = config.network
        return replace(config, network=replace(network, heads=heads_for(network.width)))
    return config


def _check_predicts(config: TrainConfig, method: Method, hollow: bool) -> None:
    """Raise unless the objective trains such a network and its figure has a bound; name what would do instead."""
    if method.mixed and (config.predicts != "loo" or not isinstance(objective_of(config), CrossEntropy)):
        raise ValueError(
            f"--method {config.method} minimises the cross-entropy of a leave-one-out network; leave out --predicts "
            f"and --objective, or use ce:weight=W, got {config.predicts} and {config.objective}"
        )

    def check(predicts: type[Posterior]) -> None:
        for process in method.processes:
            objective_of(config).check(process, predicts, hollow)
            Bound.of(process, predicts, hollow)

    try:
        check(representation(config))
    except ValueError as error:
        usable = []
        for name, kind in REPRESENTATIONS.items():
            with suppress(ValueError):
                check(kind)
                usable.append(name)
        if not usable:  # then it is not what the network predicts
            raise
        raise ValueError(
            f"--method {config.method} with --objective {config.objective} takes --predicts {' or '.join(usable)}, "
            f"got {config.predicts}"
        ) from error


def representation(config: TrainConfig) -> type[Posterior]:
    """What the network predicts."""
    assert config.predicts is not None
    return REPRESENTATIONS[config.predicts]


def objective_of(config: TrainConfig) -> Objective:
    """What is minimised."""
    assert config.objective is not None
    return OBJECTIVES.parse(config.objective)


def task_of(config: TrainConfig, data: Outline) -> Task:
    """What the network must read and put out; the least it can be where the data is not yet known."""
    method = method_in(config, data.vocab_size or 2)
    return Task(
        num_outputs(method.process, representation(config)),
        method.input_states,
        data.length or 1,
        absorbing=not method.mixed and method.process.shows_auxiliary,
        given=data.given,
        relations=data.relations,
        data=data.name,
    )


def build_model(config: TrainConfig, data: Dataset) -> DiffusionModel:
    """The network, fresh or begun, with its process and what is known of it."""
    base = begun(config)
    model = _fresh(config, data) if base is None else _continued(config, data, base)
    return model.describe(
        data=data.name,
        source=config.data.record(),
        fingerprint=data.fingerprint,
        entropy=data.entropy,
        training=config.record(),
    )


def _fresh(config: TrainConfig, data: Dataset) -> DiffusionModel:
    task = task_of(config, data.outline)
    check_size(config, task)
    process = method_in(config, data.vocab_size, data).process
    network = config.network.build(task)
    return DiffusionModel(network, process, predicts=representation(config), tokenizer=data.tokenizer)


def _continued(config: TrainConfig, data: Dataset, base: DiffusionModel) -> DiffusionModel:
    """The network of a model, whose vocabulary, tokenizer and length the data must fit."""
    K, own, theirs = base.process.vocab_size, base.tokenizer, data.tokenizer
    if data.vocab_size > K:
        raise ValueError(f"{data.name} has {data.vocab_size:,} tokens, but {config.begin} knows {K:,}")
    if own is not None and theirs is not None and own.identity != theirs.identity:
        raise ValueError(
            f"{data.name} is tokenised otherwise than {config.begin} was trained; leave out --data.tokenizer"
        )
    if base.length is not None and data.length > base.length:
        raise ValueError(
            f"rows of {data.length} tokens are longer than the {base.length} that {config.begin} reads; "
            f"use --data.length {base.length}"
        )
    process, predicts = method_in(config, K, data).process, representation(config)
    origin = {"begun_from": config.begin} | (base.about.origin or {})
    return DiffusionModel(base.network, process, None, predicts, own or theirs, About(origin=origin))
