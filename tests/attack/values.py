"""Arguments: for every name of a parameter a value that fits, and a pool of values that fit nothing.

A `World` holds one process, a model under it and a batch, so that its values fit one another.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

import tokenloom as tl
from tokenloom.cells import PROCESSES
from tokenloom.couplings import COUPLINGS
from tokenloom.models.tokenizer_sources import build_tokenizer
from tokenloom.noise import NOISES
from tokenloom.objectives import OBJECTIVES
from tokenloom.samplers import CORRECTORS, PREDICTORS
from tokenloom.schedules import SCHEDULES
from tokenloom.support.registry import required_of

K, LENGTH, ROWS = 5, 4, 2
TOKENS = torch.tensor([[0, 1, 2, 3], [4, 3, 2, 1]])
LEVELS = torch.tensor([0.3, 0.8])


class World:
    """Values that fit one another, drawn from a seeded choice."""

    def __init__(self, random: Random) -> None:
        self.random = random
        torch.manual_seed(random.randrange(1 << 30))

    @cached_property
    def process(self) -> tl.Process:
        """A registered process, or any noise under any coupling that exists for it."""
        found: tl.Process
        if self.random.random() < 0.7:
            found = self.of_kind(PROCESSES[self.random.choice(list(PROCESSES))])
            return found
        noise, coupling = self.fitting("noise"), self.fitting("coupling")
        try:
            found = tl.Process(noise, coupling)
        except ValueError:
            found = tl.Process(noise)
        return found

    def of_kind(self, kind: Callable[..., Any]) -> Any:
        """A process or a noise of a kind, with what it needs."""
        needs: dict[str, Any] = {"pi": torch.full((LENGTH, K), 1 / K)} if "pi" in required_of(kind) else {}
        return kind(K, **needs)

    @cached_property
    def model(self) -> Any:
        """A tiny network under the process, or an exact law."""
        if not self.process.sequential and self.random.random() < 0.3:
            return tl.Oracle(torch.full((K,) * LENGTH, K**-4.0), self.process)
        letters = build_tokenizer("characters", ["abcde"]) if self.random.random() < 0.3 else None
        return tl.DiffusionModel(self.network(), self.process, predicts=self.process.preferred, tokenizer=letters)

    def network(self) -> Any:
        """A tiny network for the process."""
        process = self.process
        config = tl.nn.TransformerConfig(K, process.input_states, LENGTH, width=8, depth=1, heads=1, condition=4)
        kind = tl.nn.CausalTransformer if process.sequential else tl.nn.DiT
        return kind(replace(config, absorbing=process.shows_auxiliary, time=not process.sequential))

    @property
    def noisy(self) -> tl.Noisy:
        """A state of the process."""
        return self.process.corrupt(TOKENS, LEVELS)

    @property
    def evaluator(self) -> tl.samplers.Evaluator:
        """The model as a kernel asks it."""
        return tl.samplers.Evaluator(self.model, self.fitting("truncation"), ROWS)

    def posterior(self) -> Any:
        """A prediction."""
        return self.random.choice((tl.Denoiser, tl.LeaveOneOut))(torch.randn(ROWS, LENGTH, K))

    def fitting(self, name: str) -> Any:
        """A value for a parameter of this name; KeyError where none is known."""
        return FITTING[name](self)


def registered(registry: Any) -> Callable[[World], Any]:
    """A part of a registry, by name or built."""

    def choose(world: World) -> Any:
        name = world.random.choice(list(registry))
        return registry[name]() if world.random.random() < 0.5 else name

    return choose


def part_of(registry: Any) -> Callable[[World], Any]:
    """A part of a registry, built."""
    return lambda world: registry[world.random.choice(list(registry))]()


def one_of(*values: Any) -> Callable[[World], Any]:
    """One of some values."""
    return lambda world: world.random.choice(values)


def logits(world: World) -> Tensor:
    """Logits over the vocabulary."""
    return torch.randn(ROWS, LENGTH, K)


def sparse_rows() -> Tensor:
    """A matrix of compressed sparse rows, without PyTorch's warning that it is new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.eye(K).to_sparse_csr()


FLAGS = TOKENS > 2
FITTING: dict[str, Callable[[World], Any]] = {
    "vocab_size": one_of(K), "mask_id": one_of(None, K), "pi": one_of(torch.full((LENGTH, K), 1 / K)),
    "schedule": part_of(SCHEDULES), "eps": one_of(1e-3, 0.1),
    "power": one_of(1.0, 2.0), "sigma_min": one_of(1e-3), "sigma_max": one_of(20.0), "logits": logits,
    "log_ratios": lambda world: torch.randn(ROWS, LENGTH, world.process.num_states),
    "posterior": lambda world: world.posterior(), "prediction": lambda world: world.posterior(),
    "leave_one_out": lambda world: tl.LeaveOneOut(logits(world)), "to": one_of(tl.Denoiser, tl.LeaveOneOut, tl.Score),
    "x_t": lambda world: world.noisy.tokens, "x_0": one_of(TOKENS), "x_s": lambda world: world.noisy.tokens,
    "alpha_t": one_of(LEVELS), "alpha": one_of(LEVELS), "t": one_of(LEVELS, LEVELS.double()), "s": one_of(LEVELS / 2),
    "process": lambda world: world.process, "aux": lambda world: world.noisy.aux, "noisy": lambda world: world.noisy,
    "noise": lambda world: world.of_kind(NOISES[world.random.choice(list(NOISES))]),
    "coupling": part_of(COUPLINGS), "p_uniform": one_of(0.1, 0.5),
    "endpoint": lambda world: world.random.choice((TOKENS, world.posterior())), "model": lambda world: world.model,
    "network": lambda world: world.network(), "predicts": lambda world: world.process.preferred,
    "tokenizer": lambda world: build_tokenizer("characters", ["abcde"]), "about": one_of(None, tl.About(step=3)),
    "p0": one_of(torch.full((K,) * 2, K**-2.0)), "initial": one_of(torch.full((K,), 1 / K)), "length": one_of(LENGTH),
    "transition": one_of(torch.full((K, K), 1 / K)), "batch": one_of(ROWS), "steps": one_of(1, 2, 4, 8),
    "sampler": registered(PREDICTORS), "predictor": part_of(PREDICTORS),
    "corrector": part_of(CORRECTORS), "given": one_of(FLAGS),
    "truncation": one_of(None, tl.Truncation(top_p=0.5)),
    "temperature": one_of(1.0, 0.5), "top_p": one_of(1.0, 0.5), "top_k": one_of(None, 2), "forbid": one_of((), (1,)),
    "on": one_of(tl.Denoiser, tl.LeaveOneOut), "grid": one_of("uniform", "cosine"), "show_given": one_of("auto"),
    "generator": lambda world: world.random.choice((None, torch.Generator().manual_seed(1), tl.RowGenerators([1, 2]))),
    "seeds": one_of([1, 2]), "seed": one_of(3), "device": one_of("cpu"), "samples": one_of(1, 2),
    "times": one_of("stratified", "antithetic"), "objective": part_of(OBJECTIVES),
    "weights": one_of(None, torch.ones(ROWS, LENGTH)), "tokens": one_of(TOKENS),
    "on_step": one_of(None, lambda step: None),
    "text": one_of("abc", "psi:kappa=0.9 + informed"), "folder": one_of("model"),
    "prompt": one_of(None, "abc"), "evaluator": lambda world: world.evaluator, "previous": one_of(None),
    "where": one_of(FLAGS), "kind": one_of(tl.Denoiser, tl.LeaveOneOut), "flags": one_of(FLAGS),
    "lazy": lambda world: world.evaluator(world.noisy), "evaluate": lambda world: world.evaluator,
    "local": lambda world: world.evaluator(world.noisy).at(FLAGS, tl.Denoiser), "call": one_of(0, 3),
    "record": one_of({"step": 1}), "index": one_of([0]), "shape": one_of((2, 3)),
    "config": lambda world: tl.nn.TransformerConfig(K, K, LENGTH, width=8, depth=1, heads=1, condition=4),
}  # fmt: skip
"""What fits a parameter of each name; those that are not here keep their default or get a stranger."""
GIVEN_PAIR = (TOKENS, FLAGS)
"""`given` of a sampler: tokens and flags."""

STRANGERS: tuple[Callable[[], Any], ...] = (
    lambda: None, lambda: "", lambda: "x", lambda: "list", lambda: "cpu", dict, lambda: {"top_p": 0.5}, list,
    lambda: [0, 1], lambda: [[0, 1, 2, 3]], tuple, lambda: (1,), lambda: 0, lambda: -1, lambda: 1, lambda: 10**18,
    lambda: 2**70, lambda: 0.5, lambda: -0.5, lambda: 2.0, lambda: float("nan"), lambda: float("inf"), lambda: 1e-46,
    lambda: True, object, lambda: int, lambda: tl.Uniform, lambda: tl.Uniform(K), lambda: tl.Uniform(3),
    lambda: tl.Denoiser, lambda: tl.Denoiser(torch.zeros(ROWS, LENGTH, K)), lambda: tl.Truncation,
    lambda: tl.samplers.Sampler, lambda: tl.LinearSchedule, lambda: tl.LinearSchedule(), lambda: len, lambda: b"x",
    lambda: Path("nowhere"), lambda: np.zeros((ROWS, LENGTH), np.int64), lambda: np.int64(3), lambda: np.float64(0.5),
    lambda: torch.zeros(0), lambda: torch.tensor(0.5), lambda: torch.tensor(3), lambda: TOKENS[0], lambda: TOKENS.int(),
    lambda: TOKENS.float(), lambda: TOKENS + 9, lambda: TOKENS - 9, lambda: TOKENS[:, :2], lambda: TOKENS[None],
    lambda: TOKENS.to("meta"), lambda: TOKENS > 2, lambda: LEVELS * 2, lambda: LEVELS * torch.nan,
    lambda: LEVELS[:1],
    lambda: LEVELS.half(), lambda: torch.full((K,), torch.nan), lambda: torch.full((ROWS, LENGTH, K), torch.nan),
    lambda: torch.full((ROWS, LENGTH, K), -torch.inf), lambda: torch.full((K,), torch.inf),
    lambda: torch.zeros(1, 1, 1),
    lambda: torch.randn(ROWS, LENGTH, K + 2), lambda: torch.zeros(ROWS, LENGTH, K, dtype=torch.complex64),
    lambda: GIVEN_PAIR, lambda: (TOKENS, TOKENS), lambda: torch.Generator(), lambda: tl.RowGenerators([1, 2, 3]),
    lambda: torch.empty(ROWS, 0, dtype=torch.int64), lambda: torch.nn.Linear(2, 2), lambda: lambda *_: {"logits": 1},
    lambda: torch.eye(K).to_sparse(), sparse_rows, lambda: TOKENS.to_sparse(),
    lambda: FLAGS.to_sparse(), lambda: LEVELS.to_sparse(), lambda: torch.randn(ROWS, LENGTH, K).to_sparse(),
    lambda: torch.ones(ROWS, LENGTH, K, dtype=torch.int64), lambda: torch.ones(ROWS, LENGTH, K, dtype=torch.bool),
    lambda: torch.randn(ROWS, LENGTH, K).double(), lambda: torch.randn(ROWS, LENGTH, K).half(),
    lambda: torch.randn(ROWS, LENGTH, K, requires_grad=True), lambda: LEVELS.clone().requires_grad_(),
    lambda: torch.empty(ROWS, 0, K), lambda: torch.empty(0, LENGTH, dtype=torch.int64), lambda: torch.empty(ROWS, 0),
    lambda: torch.empty(ROWS, LENGTH, K, device="meta"), lambda: torch.empty((), device="meta"),
    lambda: torch.empty(ROWS, device="meta"), lambda: np.float16(0.5), lambda: np.uint8(3), lambda: np.bool_(True),
    lambda: np.str_("x"), lambda: np.complex64(1), lambda: np.datetime64("2020"), lambda: np.longdouble(0.5),
    lambda: "\ud800", lambda: "abcdeabcde",
)  # fmt: skip
"""Values that fit few parameters, made anew for each call."""


def told(value: Any) -> str:
    """A value in a few characters."""
    if isinstance(value, Tensor):
        words = [str(value.dtype).removeprefix("torch."), f"{list(value.shape)}"]
        if value.is_meta or value.layout != torch.strided:
            words.append("on meta" if value.is_meta else str(value.layout))
        elif value.numel() and not value.is_complex():
            words.append(f"{value.flatten()[0].item():g}")
        return " ".join(words)
    return f"{type(value).__name__}[...]" if isinstance(value, torch.nn.Module) else repr(value)[:60].replace("\n", " ")


def tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor in a result."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors(item)
    elif hasattr(value, "__dataclass_fields__"):
        for item in fields(value):
            yield from tensors(getattr(value, item.name, None))
