"""Random calls of the Python interface: a fitting call in which some arguments are replaced by strangers.

What a call returns is then used once, in the way it is meant to be, so that a value which was accepted and does not
work is found as well.
"""

import inspect
from collections.abc import Callable
from random import Random
from typing import Any

import torch

import tokenloom as tl
from tests.attack.outcome import WrongError
from tests.attack.values import FITTING, GIVEN_PAIR, LENGTH, LEVELS, STRANGERS, TOKENS, K, World, tensors, told
from tests.attack.worker import Case
from tests.attack.workspace import Workspace
from tokenloom import objectives, samplers
from tokenloom.cells import PROCESSES
from tokenloom.couplings import COUPLINGS, Coupling
from tokenloom.noise import NOISES, Noise
from tokenloom.schedules import SCHEDULES

METHODS = {
    "process": (
        "corrupt", "prior", "bridge", "marginal", "forward", "reverse_rates", "forward_rates", "resample",
        "with_schedule", "with_coupling",
    ),
    "model": ("predict", "with_process", "encode", "decode", "save"),
    "schedule": ("alpha", "alpha_prime", "inverse"), "evaluator": ("__call__",), "lazy": ("at", "everywhere"),
    "local": ("among",), "predictor": ("step",), "corrector": ("correct",),
}  # fmt: skip
"""Methods that users call, by the value of a world that has them."""
FOR_AUTHORS = (
    "LocalPrediction", "uniform_pair", "Kernel", "Predictor", "Corrector", "GivenTokens", "Run",
    "StopRule", "Offer", "Until",
)  # fmt: skip
"""What the driver hands to kernels, and the classes they extend; nobody calls these with values of their own."""
CALLED_BACK = ("on_step", "until", "row_noise", "on_progress")
"""Functions of the caller: the errors of a stranger that is called here would be its own."""


def subjects() -> list[tuple[str, Any]]:
    """Every public function and class with its name, and the names alone of methods of a world's values."""
    found: list[tuple[str, Any]] = []
    for room, names in ((tl, tl.__all__), (samplers, dir(samplers)), (objectives, dir(objectives))):
        parts = {name: getattr(room, name) for name in names if name not in FOR_AUTHORS}
        found += [(name, part) for name, part in parts.items() if callable(part)]
    registries: list[Any] = [samplers.PREDICTORS, samplers.CORRECTORS, PROCESSES, SCHEDULES, objectives.OBJECTIVES]
    for registry in [*registries, NOISES, COUPLINGS]:
        found += [(part.__name__, part) for part in registry.values()]
    found += [(f"nn.{name}", getattr(tl.nn, name)) for name in ("DiT", "CausalTransformer", "TransformerConfig")]
    found += [("Sampler.parse", tl.Sampler.parse), ("Sampler.run", tl.Sampler(steps=2).run)]
    found += [("Sampler.steps", tl.Sampler(steps=2).steps.__call__), ("load", tl.load)]
    found += [(name, getattr(tl, name)) for name in ("sample", "nelbo", "training_loss", "convert", "draw") * 6]
    found += [(part.__name__, part) for part in (samplers.Evaluator, samplers.LazyPrediction) * 5]
    return found + [(f"{owner}.{name}", None) for owner, methods in METHODS.items() for name in methods * 3]


SUBJECTS = subjects()


def case(seed: int, index: int, space: Workspace) -> Case:
    """The try of this number."""
    random = Random(f"calls {seed} {index}")
    world = World(random)
    name, called = random.choice(SUBJECTS)
    owner, _, method = name.partition(".")
    if called is None:
        called = getattr(world.fitting(owner), method, world.model.predict)  # an oracle has few
    if method:
        name = f"{owner}.{called.__name__}"
    arguments = _arguments(world, name, called)
    line = ", ".join(f"{key}={told(value)}" for key, value in arguments.items())
    extra = [random.choice(STRANGERS)()] if random.random() < 0.03 else []
    process = f" under {world.process.title}" if "process" in world.__dict__ else ""
    title = f"{name}({line}{', and one more' if extra else ''}){process}"
    return Case("calls", index, lambda here: title, lambda here: _call(world, called, extra, arguments))


def _arguments(world: World, name: str, called: Callable[..., Any]) -> dict[str, Any]:
    """Fitting ones, of which none, one or some are strangers."""
    random, arguments = world.random, dict[str, Any]()
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        needed = parameter.default is parameter.empty
        if parameter.name in FITTING and (needed or random.random() < 0.3):
            pair = parameter.name == "given" and name in ("sample", "Sampler.run")
            arguments[parameter.name] = GIVEN_PAIR if pair else world.fitting(parameter.name)
        elif needed:
            arguments[parameter.name] = random.choice(STRANGERS)()
    names = [parameter.name for parameter in parameters if parameter.kind != parameter.VAR_KEYWORD]
    for victim in random.sample(names, min(len(names), random.choice((0, 1, 1, 1, 2)))):
        stranger = random.choice(STRANGERS)()
        arguments[victim] = 3 if victim in CALLED_BACK and callable(stranger) else stranger
    if len(arguments) > 1 and random.random() < 0.05:
        first, second = random.sample(list(arguments), 2)
        arguments[first], arguments[second] = arguments[second], arguments[first]
    return arguments


def _call(world: World, called: Callable[..., Any], extra: list[Any], arguments: dict[str, Any]) -> None:
    torch.manual_seed(0)
    value = called(*extra, **arguments)
    _check(called, value)
    use = next((use for kind, use in USES if isinstance(value, kind)), None)
    if use is not None:
        _check(called, use(world, value))


def _check(called: Callable[..., Any], value: Any) -> None:
    """Tokens are ids, and numbers are numbers."""
    name = getattr(called, "__name__", "")
    inert = inspect.isclass(called) or name in METHODS["schedule"]
    for tensor in tensors(value):
        if tensor.is_meta or tensor.layout != torch.strided:
            continue
        if tensor.is_floating_point() and tensor.isnan().any() and not inert:
            raise WrongError(f"{name} returned NaN")
        tokens = name in ("sample", "run") and tensor.dtype == torch.int64 and tensor.ndim == 2
        if tokens and ((tensor < 0) | (tensor >= K)).any():
            raise WrongError(f"{name} returned a token outside the vocabulary")


def _corrupted(process: tl.Process) -> Any:
    return process.corrupt(TOKENS % process.vocab_size, LEVELS) if process.vocab_size <= 10**4 else None


def _drawn(sampler: tl.Sampler) -> Any:
    exact = tl.Oracle(torch.full((K, K), K**-2.0), tl.Uniform(K))
    return sampler.run(exact, 2) if sampler.steps < 100 else None


def _stepped(evaluate: samplers.Evaluator) -> Any:
    """A step as *Manual stepping* takes it."""
    process = evaluate.process
    if process.sequential or process.vocab_size > 10**4 or len(evaluate.evaluations) > 100:
        return None  # a causal model has no such step, and a large one takes a long time
    noisy = process.prior(len(evaluate.evaluations), LENGTH)
    return samplers.Ancestral().step(evaluate, noisy, torch.full((len(noisy.tokens),), 0.5), None).tokens


USES: tuple[tuple[Any, Callable[[World, Any], Any]], ...] = (
    (tl.Schedule, lambda world, value: value.alpha(LEVELS)),
    (tl.Process, lambda world, value: _corrupted(value)),
    (Noise, lambda world, value: value.vocab_size <= 10**4 and _corrupted(tl.Process(value))),
    (Coupling, lambda world, value: _corrupted(tl.Process(tl.noise.Uniform(K), value))),
    (samplers.Run, lambda world, value: [step.tokens for step in value]),
    (tl.Sampler, lambda world, value: _drawn(value)),
    (samplers.Evaluator, lambda world, value: _stepped(value)),
    (samplers.LazyPrediction, lambda world, value: value.everywhere(tl.Denoiser)),
    (samplers.Predictor, lambda world, value: tl.Sampler(predictor=value, steps=3).run(world.model, 2)),
    (samplers.Corrector, lambda world, value: tl.Sampler(corrector=value, steps=8).run(world.model, 2)),
    (tl.Truncation, lambda world, value: tl.truncate(torch.randn(3, K), value)),
    (objectives.Objective, lambda world, value: tl.training_loss(world.model, value, TOKENS, LEVELS)),
    (
        tl.Denoiser | tl.LeaveOneOut | tl.Score,
        lambda world, value: tl.convert(value, tl.Denoiser, TOKENS, LEVELS, tl.Uniform(K)),
    ),
    (tl.Noisy, lambda world, value: world.process.marginal(value, TOKENS)),
    (tl.DiffusionModel | tl.Oracle | tl.MarkovOracle, lambda world, value: tl.sample(value, 2, steps=2)),
)
"""What a value is for."""
