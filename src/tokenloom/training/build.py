"""From a config to the things it names: process, objective, model.  Combinations that make no sense are refused."""

import math
import re
from dataclasses import replace
from typing import Any

import torch

from tokenloom.data.base import SOURCES, Dataset, Outline
from tokenloom.data.text import TextSource
from tokenloom.models.adapter import Adapter, base_name
from tokenloom.models.model import DiffusionModel
from tokenloom.models.network import num_outputs, unwrapped
from tokenloom.models.seals import weights_sum
from tokenloom.models.store import load_model, model_folder
from tokenloom.nn.base import NETWORKS, Task
from tokenloom.nn.lora import adapt, check_rank
from tokenloom.nn.size import count_parameters, heads_for
from tokenloom.objectives import OBJECTIVES, Bound, CrossEntropy, Objective
from tokenloom.posteriors import REPRESENTATIONS, Posterior
from tokenloom.schedules import SCHEDULES
from tokenloom.support.about import About
from tokenloom.support.addresses import is_address
from tokenloom.support.extras import optional
from tokenloom.support.memory import check_memory
from tokenloom.training.config import Predicts, TrainConfig, check_ranges
from tokenloom.training.methods import Method, method_of

GIVEN = 0.25  # the share of rows of text that are continued or filled in, by default
COPIES = 5  # copies of every parameter: its value, gradient, two moments and average
KEPT_PER_TOKEN = 12  # numbers of the width's size that a block keeps for the backward pass, at the least
NAMES: dict[type[Posterior], Predicts] = {kind: name for name, kind in REPRESENTATIONS.items()}  # type: ignore[misc]


def method_in(config: TrainConfig, vocab_size: int, data: Dataset | None = None) -> Method:
    """Return the method of a config on a vocabulary; its unigrams are those of the data."""
    return method_of(config.method, vocab_size, SCHEDULES.parse(config.schedule), None if data is None else data.train)


def resolve(config: TrainConfig) -> TrainConfig:
    """Fill in what follows from the method, and refuse what contradicts it."""
    if config.lora is not None and config.begin is None:
        raise ValueError(f"--lora {config.lora} adapts a model that is there; name it with --from, or leave --lora out")
    base = begun(config)
    if base is not None and config.lora is not None:
        check_rank(unwrapped(base.network), config.lora)
        optional("peft", "lora")
    method = method_in(config, 2 if base is None else base.process.vocab_size)
    if base is None:
        config = _with_network(config, method)
    named = config.objective or method.objective.partition(":")[0]
    predicts, objective = config.predicts or NAMES[method.predicts], config.objective or method.objective
    name = re.sub("[:,=]", "-", f"{config.recipe}-{config.method}-{predicts}-{named}")
    name += "" if config.lora is None else f"-lora{config.lora}"
    out = f"runs/{name}" if config.out is None else config.out
    config = replace(config, predicts=predicts, objective=objective, out=out)
    if config.max_steps is None and config.max_minutes is None:
        raise ValueError("a run needs an end: give --max-steps or --max-minutes")
    check_ranges(config)
    config = _with_given(config, method, base)
    if base is not None:
        base = DiffusionModel(base.network, method.process, predicts=representation(config))  # or the network refuses
    if method.mixed and not (hasattr(config.network, "conditioning") if base is None else base.reads_evidence):
        other = config.begin or f"--network.kind {config.network.kind}"
        raise ValueError(f"--method {config.method} needs a network that reads the evidence, as dit does, got {other}")
    _check_predicts(config, method, getattr(NETWORKS[config.network.kind] if base is None else base, "hollow", False))
    if base is None:
        check_size(config, task_of(config, config.data.outline()))
    return config


def _with_given(config: TrainConfig, method: Method, base: DiffusionModel | None) -> TrainConfig:
    """Return the config with the share of text that is given in training, where it leaves that open."""
    if not isinstance(config.data, TextSource):
        return config
    process, asked = method.process, config.data.given
    usable = not process.sequential and (base is None or base.marks_given or process.reveals)
    if asked and not usable:
        why = "the network of --from does not mark given positions" if base else "a causal network reads what precedes"
        raise ValueError(f"--data.given {asked:g} is of no use to --method {config.method}: {why}; leave it out")
    share = (GIVEN if usable else 0.0) if asked is None else asked
    return replace(config, data=replace(config.data, given=share))


def begun(config: TrainConfig) -> DiffusionModel | None:
    """Load the model that a run begins with; if it is gone, the model that the run has written stands in for it.

    An adapter is nothing without its base.
    """
    if config.begin is None:
        return None
    own = config.out or ""
    stands_in = config.lora is None and _gone(config.begin) and not _gone(own)
    return load_model(own if stands_in else config.begin)


def adapter_of(config: TrainConfig) -> Adapter | None:
    """Return what the folders of a run say of the model that its adapters are added to; None for a whole model."""
    base = None if config.begin is None or config.lora is None else model_folder(config.begin)
    if base is None or config.begin is None or config.lora is None:
        return None
    place = config.out if is_address(config.out) else config.folder / "model"
    return Adapter(base_name(config.begin, place or ""), weights_sum(base), config.lora)


def _gone(model: str) -> bool:
    try:
        return model_folder(model) is None
    except ValueError:  # of an address that cannot be reached, or has nothing
        return True


def _with_network(config: TrainConfig, method: Method) -> TrainConfig:
    """Return the config with a network that suits the method, and heads that suit its width if `fit` names them."""
    network: Any = config.network
    kind, sequential = NETWORKS[network.kind], method.process.sequential
    for name, found, options in (("network", network, kind.Options), ("data", config.data, SOURCES[config.data.kind])):
        if type(found) is not options:
            given, wanted = type(found).__name__, options.__name__
            raise ValueError(f"--{name}.kind {found.kind} takes the options of {wanted}, got those of {given}")
    causal = bool(getattr(kind, "causal", False))
    if sequential and not causal:
        if network.kind != "dit":
            raise ValueError(f"--method {config.method} trains a causal network, got --network.kind {network.kind}")
        network = replace(network, kind="causal")
    if causal and not sequential:
        raise ValueError(f"--network.kind {network.kind} sees only the past: use --method ar, not {config.method}")
    if sequential and config.predicts not in (None, NAMES[method.predicts]):
        raise ValueError(f"--method {config.method} predicts the next token: leave out --predicts {config.predicts}")
    if hasattr(network, "time") and (sequential or network.time is None):
        network = replace(network, time=not sequential and (method.mixed or not method.process.all_or_nothing))
    if method.mixed and hasattr(network, "conditioning"):
        network = replace(network, conditioning="evidence")
    if "network.heads" in config.fit and hasattr(network, "heads") and hasattr(network, "width"):
        network = replace(network, heads=heads_for(network.width))
    return replace(config, network=network)


def _check_predicts(config: TrainConfig, method: Method, hollow: bool) -> None:
    """Raise unless the objective trains such a network and its figure has a bound; name what would do instead."""
    objective, trained = objective_of(config), f"--method {config.method}"
    if method.mixed and (config.predicts != "loo" or not isinstance(objective, CrossEntropy)):
        asked = f"{config.predicts} and {config.objective}"
        raise ValueError(f"{trained} takes --predicts loo and --objective ce:weight=W, got {asked}")

    def refusal(predicts: type[Posterior]) -> ValueError | None:
        try:
            for process in method.processes:
                objective.check(process, predicts, hollow)
                Bound.of(process, predicts, hollow)
        except ValueError as error:
            return error
        return None

    refused = refusal(representation(config))
    if refused is not None:
        usable = [name for name, kind in REPRESENTATIONS.items() if refusal(kind) is None]
        if not usable:  # then it is not what the network predicts
            raise refused
        asked = f"{trained} with --objective {config.objective}"
        raise ValueError(f"{asked} takes --predicts {' or '.join(usable)}, got {config.predicts}") from refused


def representation(config: TrainConfig) -> type[Posterior]:
    """Return the posterior that the network of a resolved config predicts."""
    return REPRESENTATIONS[str(config.predicts)]


def objective_of(config: TrainConfig) -> Objective:
    """Return the objective of a resolved config."""
    return OBJECTIVES.parse(str(config.objective))


def task_of(config: TrainConfig, data: Outline) -> Task:
    """Return what the network must read and put out; the least it can be where the data is not yet known."""
    method = method_in(config, data.vocab_size or 2)
    outputs = num_outputs(method.process, representation(config))
    absorbing = not method.mixed and method.process.shows_auxiliary
    return Task(outputs, method.input_states, data.length or 1, absorbing, data.given, data.relations, data.name)


def build_model(config: TrainConfig, data: Dataset) -> DiffusionModel:
    """Build the model of a run: a fresh network, or that of the model it begins with, described by data and config."""
    base, predicts = begun(config), representation(config)
    if base is None:
        task = task_of(config, data.outline)
        check_size(config, task)
        process = method_in(config, data.vocab_size, data).process
        model = DiffusionModel(config.network.build(task), process, predicts=predicts, tokenizer=data.tokenizer)
    else:
        _check_fits(config, data, base)
        process = method_in(config, base.process.vocab_size, data).process
        known = {key: value for key, value in (base.about.origin or {}).items() if key != "untrained"}
        about = About(origin={"begun_from": config.begin} | known)
        model = DiffusionModel(base.network, process, None, predicts, base.tokenizer or data.tokenizer, about)
        if config.lora is not None:
            adapt(unwrapped(base.network), config.lora)
    model.describe(data=data.name, source=config.data.record(), training=config.record())
    return model.describe(fingerprint=data.fingerprint, entropy=data.entropy)


def _check_fits(config: TrainConfig, data: Dataset, base: DiffusionModel) -> None:
    """Raise unless data fits the vocabulary, the tokenizer and the length of the model that a run begins with."""
    K, own, theirs = base.process.vocab_size, base.tokenizer, data.tokenizer
    if data.vocab_size > K:
        raise ValueError(f"{data.name} has {data.vocab_size:,} tokens, but {config.begin} knows {K:,}")
    if own is not None and theirs is not None and own.identity != theirs.identity:
        raise ValueError(f"{data.name} has other tokens than {config.begin} was trained on; leave out --data.tokenizer")
    if base.length is not None and data.length > base.length:
        raise ValueError(f"{config.begin} reads {base.length} tokens, got rows of {data.length}; lower --data.length")


def check_size(config: TrainConfig, task: Task) -> None:
    """Raise if the network with all its copies, or the rows of the data, cannot fit into memory."""
    network, rows = config.network, getattr(config.data, "rows", 0)
    parameters = count_parameters(network, task)
    width, depth = getattr(network, "width", 1), getattr(network, "depth", 1)
    what = f"training a network of width {width} and depth {depth} ({parameters:.3g} parameters)"
    _check_memory(4.0 * COPIES * parameters, what, "lower --network.width or --network.depth")
    _check_memory(8.0 * rows * task.length, f"data of {rows} rows of {task.length} tokens", "lower --data.rows")


def check_batch(config: TrainConfig, length: int, processes: int) -> None:
    """Raise if a batch cannot be divided, or its part cannot fit into the memory of its process."""
    network, batch, pieces = config.network, config.optimiser.batch, processes * config.optimiser.accumulate
    if batch % pieces:
        raise ValueError(f"--optimiser.batch must be a multiple of processes x accumulate = {pieces}, got {batch}")
    rows, kept = batch // pieces, 1 if config.run.recompute else KEPT_PER_TOKEN
    numbers = kept * math.prod(getattr(network, size, 1) for size in ("width", "depth", "loops"))
    remedy = "lower --optimiser.batch or --data.length, raise --optimiser.accumulate, or set --run.recompute"
    _check_memory(2.0 * numbers * rows * length, f"a step on {rows} sequences of {length} tokens", remedy)


def _check_memory(needed: float, what: str, remedy: str) -> None:
    """Raise if something fits neither into the GPU, if there is one, nor into this machine."""
    if not torch.cuda.is_available() or needed > torch.cuda.mem_get_info()[1]:
        check_memory(needed, what, remedy)
