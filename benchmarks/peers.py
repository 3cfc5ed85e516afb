"""What `tokenloom bench sampling` compares with, on the same network: the textbook way, and a package of the field.

The dense reference is `dense_gumbel.py`; `flow-matching` is the package of that name, left out where it is not
installed.  A peer calls the network once per step, which is where its steps are cut.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import dense_gumbel
from benchmarks.account import Account
from benchmarks.size import Size

Logits = Callable[..., Tensor]
"""The network as (tokens, time) -> logits."""
Runner = Callable[[int, Callable[[], None]], None]
"""Samples with a number of steps and says before each evaluation that a step begins."""
Prepare = Callable[[Logits, Size, int], Runner | None]
"""A runner for a network, its sizes and a batch; None where what it needs is not installed."""


def peer_steps(run: Runner, account: Account, steps: int) -> None:
    """Time the steps of a peer, after a short run to warm up."""
    run(2, lambda: None)
    account.forward()
    begun = False

    def begins() -> None:
        nonlocal begun
        account.step() if begun else account.start()
        begun = True

    run(steps, begins)
    account.step()


def _announced(network: Logits, begins: Callable[[], None]) -> Logits:
    def call(tokens: Tensor, time: Tensor) -> Tensor:
        begins()
        return network(tokens, time)

    return call


def _dense_uniform(top_p: float = 1.0) -> Prepare:
    def prepare(network: Logits, size: Size, batch: int) -> Runner:
        def run(steps: int, begins: Callable[[], None]) -> None:
            with torch.inference_mode():
                tokens = torch.randint(size.vocab, (batch, size.length))
                dense_gumbel.sample_uniform(_announced(network, begins), tokens, size.vocab, steps, top_p)

        return run

    return prepare


def _dense_masked(network: Logits, size: Size, batch: int) -> Runner:
    def run(steps: int, begins: Callable[[], None]) -> None:
        with torch.inference_mode():
            tokens = torch.full((batch, size.length), size.vocab)
            dense_gumbel.sample_masked(_announced(network, begins), tokens, size.vocab, steps)

    return run


def _flow_matching(network: Logits, size: Size, batch: int) -> Runner | None:
    try:
        from flow_matching.path import MixtureDiscreteProbPath
        from flow_matching.path.scheduler import PolynomialConvexScheduler
        from flow_matching.solver import MixtureDiscreteEulerSolver
        from flow_matching.utils import ModelWrapper
    except ImportError:
        return None

    def run(steps: int, begins: Callable[[], None]) -> None:
        announced = _announced(network, begins)

        class Wrapped(ModelWrapper):
            def forward(self, x: Tensor, t: Tensor, **extras: Any) -> Tensor:
                return torch.softmax(announced(x, 1 - t.expand(batch)), -1)

        path = MixtureDiscreteProbPath(PolynomialConvexScheduler(n=1.0))
        solver = MixtureDiscreteEulerSolver(Wrapped(nn.Identity()), path, size.vocab)
        solver.sample(torch.randint(size.vocab, (batch, size.length)), step_size=1 / steps)

    return run


PEERS: dict[str, Prepare] = {
    "dense float64 Gumbel, UDM": _dense_uniform(),
    "dense float64 Gumbel, UDM, top-p 0.9": _dense_uniform(0.9),
    "dense float64 Gumbel, MDM": _dense_masked,
    "flow-matching, discrete Euler": _flow_matching,
}
