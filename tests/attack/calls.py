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
from tests.attack.values import FITTING, GIVEN_PAIR, LEVELS, STRANGERS, TOKENS, K, World, tensors, told
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
    "schedule": ("alpha", "alpha_prime", "inverse"),
}  # fmt: skip
"""Methods that users call, by the value of a world that has them."""
FOR_AUTHORS = (
    "Evaluator", "LazyPrediction", "LocalPrediction", "uniform_pair", "Kernel", "Predictor", "Corrector", "GivenTokens",
    "Run",
)  # fmt: skip
"""What the driver hands to kernels, and the classes they extend; nobody calls these with values of their own."""
Subject = tuple[str, Callable[[World], Callable[..., Any]]]


def subjects() -> list[Subject]:
    """Every public function, class and method."""
    found: list[Subject] = []
    for room, names in ((tl, tl.__all__), (samplers, dir(samplers)), (objectives, dir(objectives))):
        parts = {name: getattr(room, name) for name in names}
        found += [(name, _constant(part)) for name, part in parts.items() if callable(part) and name not in FOR_AUTHORS]
    registries: list[Any] = [samplers.PREDICTORS, samplers.CORRECTORS, PROCESSES, SCHEDULES, objectives.OBJECTIVES]
    for registry in [*registries, NOISES, COUPLINGS]:
        found += [(registry[name].__name__, _constant(registry[name])) for name in registry]
    found += [
        (f"nn.{name}", _constant(getattr(tl.nn, name))) for name in ("DiT", "CausalTransformer", "TransformerConfig")
    ]
    found += [("Sampler.parse", _constant(tl.Sampler.parse)), ("Sampler.run", _constant(tl.Sampler(steps=2).run))]
    found += [("Sampler.steps", _constant(tl.Sampler(steps=2).steps.__call__)), ("load", _constant(tl.load))]
    found += [
        (name, _constant(getattr(tl, name))) for name in ("sample", "nelbo", "training_loss", "convert", "draw") * 6
    ]
    for owner, methods in METHODS.items():
        found += [(f"{owner}.{name}", _method(owner, name)) for name in methods * 3]
    return found


def _constant(part: Any) -> Callable[[World], Callable[..., Any]]:
    return lambda world: part


def _method(owner: str, name: str) -> Callable[[World], Callable[..., Any]]:
    def find(world: World) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(world.fitting(owner), name, world.model.predict)  # an oracle has few
        return method

    return find


SUBJECTS = subjects()


def case(seed: int, index: int, space: Workspace) -> Case:
    """The try of this number."""
    random = Random(f"calls {seed} {index}")
    world = World(random)
    name, find = random.choice(SUBJECTS)
    called = find(world)
    if "." in name:
        name = f"{name.split('.')[0]}.{called.__name__}"
    arguments = _arguments(world, name, called)
    line = ", ".join(f"{key}={told(value)}" for key, value in arguments.items())
    extra = [random.choice(STRANGERS)()] if random.random() < 0.03 else []
    told_process = f" under {world.process.title}" if "process" in world.__dict__ else ""
    return Case(
        "calls",
        index,
        lambda here: f"{name}({line}{', and one more' if extra else ''}){told_process}",
        lambda here: _call(world, called, extra, arguments),
    )


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
        arguments[victim] = random.choice(STRANGERS)()
    if len(arguments) > 1 and random.random() < 0.05:
        first, second = random.sample(list(arguments), 2)
        arguments[first], arguments[second] = arguments[second], arguments[first]
    return arguments


def _call(world: World, called: Callable[..., Any], extra: list[Any], arguments: dict[str, Any]) -> None:
    torch.manual_seed(0)
    value = called(*extra, **arguments)
    _check(called, value)
    used = _used(world, value)
    if used is not None:
        _check(called, used)


def _check(called: Callable[..., Any], value: Any) -> None:
    """Tokens are ids, and numbers are numbers."""
    name = getattr(called, "__name__", "")
    inert = inspect.isclass(called) or name in METHODS["schedule"]
    for tensor in tensors(value):
        if tensor.device.type == "meta":
            continue
        if tensor.is_floating_point() and tensor.isnan().any() and not inert:
            raise WrongError(f"{name} returned NaN")
        tokens = name in ("sample", "run") and tensor.dtype == torch.int64 and tensor.ndim == 2
        if tokens and ((tensor < 0) | (tensor >= K)).any():
            raise WrongError(f"{name} returned a token outside the vocabulary")


def _used(world: World, value: Any) -> Any:
    """What the value is for."""
    if isinstance(value, tl.Schedule):
        return value.alpha(LEVELS)
    if isinstance(value, tl.Process):
        return None if value.vocab_size > 10**4 else value.corrupt(TOKENS % value.vocab_size, LEVELS)
    if isinstance(value, Noise):
        return None if value.vocab_size > 10**4 else tl.Process(value).corrupt(TOKENS % value.vocab_size, LEVELS)
    if isinstance(value, Coupling):
        return tl.Process(tl.noise.Uniform(K), value).corrupt(TOKENS, LEVELS)
    if isinstance(value, samplers.Run):
        return [step.tokens for step in value]
    if isinstance(value, tl.Sampler):
        return value.run(tl.Oracle(torch.full((K, K), K**-2.0), tl.Uniform(K)), 2) if value.steps < 100 else None
    if isinstance(value, samplers.Predictor):
        return tl.Sampler(predictor=value, steps=3).run(world.model, 2)
    if isinstance(value, samplers.Corrector):
        return tl.Sampler(corrector=value, steps=8).run(world.model, 2)
    if isinstance(value, tl.Truncation):
        return tl.truncate(torch.randn(3, K), value)
    if isinstance(value, objectives.Objective):
        return tl.training_loss(world.model, value, TOKENS, LEVELS)
    if isinstance(value, tl.Denoiser | tl.LeaveOneOut | tl.Score):
        return tl.convert(value, tl.Denoiser, TOKENS, LEVELS, tl.Uniform(K))
    if isinstance(value, tl.Noisy):
        return world.process.marginal(value, TOKENS)
    if isinstance(value, tl.DiffusionModel | tl.Oracle | tl.MarkovOracle):
        return tl.sample(value, 2, steps=2)
    return None
