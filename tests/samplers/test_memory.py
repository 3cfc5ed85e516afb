"""What a predictor remembers between steps is its own: routing bits and transition times, beside a corrector or not.

The false-alarm rate of a chi-square test is at most 1e-6.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.laws.helpers import EXACT
from tests.samplers.helpers import K
from tests.statistics import assert_frequencies
from tokenloom.drawing.randomness import Randomness
from tokenloom.samplers import Corrector, Evaluator, Predictor
from tokenloom.samplers.predictors.dndm import DNDM
from tokenloom.samplers.predictors.greedy_tail import GreedyTail
from tokenloom.samplers.predictors.routing import Routing
from tokenloom.types import PerRow

L = 4
pytestmark = pytest.mark.usefixtures("as_a_user")  # shape checks are on in `test_conformance.py`, for the same kernels


@dataclass(frozen=True)
class Rewrite(Corrector):
    """Puts one token at one position, once: after the step with this number."""

    position: int
    token: int
    after: int = 0
    name = "rewrite"

    @property
    def evaluations(self) -> int:
        return 1

    def correct(self, evaluate: Evaluator, noisy: tl.Noisy, generator: Randomness | None, call: int) -> tl.Noisy:
        tokens = noisy.tokens.clone()
        if call == self.after:
            tokens[:, self.position] = self.token
        return evaluate.process.move_to(noisy, tokens, noisy.t)


@dataclass(frozen=True)
class Watched(Routing):
    """Routing that shows the bits it is handed."""

    seen: list[Tensor] = field(default_factory=list)

    def advance(
        self, evaluate: Evaluator, noisy: tl.Noisy, s: PerRow, generator: Randomness | None, memory: Any
    ) -> tuple[tl.Noisy, Any]:
        self.seen.append(memory)
        return super().advance(evaluate, noisy, s, generator, memory)


def falling(tokens: Tensor, time: Tensor) -> Tensor:
    """Surest of position 0, then 1, 2, 3; always of token 0."""
    return torch.stack([torch.tensor([4.0 - position, 0.0, 0.0]) for position in range(L)]).expand(len(tokens), -1, -1)


MODEL = tl.DiffusionModel(falling, tl.Uniform(K, schedule=EXACT), predicts=tl.Denoiser)
"""Four positions and four even steps: routing chooses one more each time, from left to right."""


def run(predictor: Predictor, corrector: Corrector | None, rows: int = 40) -> list[tl.Step]:
    steps: list[tl.Step] = []
    sampler = tl.Sampler(predictor, corrector, steps=4 if corrector is None else 7)
    sampler.run(MODEL, rows, length=L, generator=torch.Generator().manual_seed(0), on_step=steps.append)
    return steps


@pytest.mark.parametrize("corrector", [None, Rewrite(0, 1)])
@pytest.mark.parametrize("predictor", [Routing(), DNDM(), GreedyTail(Routing()), GreedyTail(DNDM())])
def test_no_memory_is_in_the_states(predictor: Predictor, corrector: Corrector | None) -> None:
    steps = run(predictor, corrector)
    assert len(steps) == 4
    assert all(state.aux is None for step in steps for state in (step.before, step.after))


def test_routing_bits_go_from_step_to_step() -> None:
    watched = Watched()
    run(watched, None)
    expected = [[position < count for position in range(L)] for count in range(4)]
    assert [bits[0].tolist() for bits in watched.seen] == expected
    assert all(bool((bits == bits[0]).all()) for bits in watched.seen)


def test_routing_counts_a_token_that_a_corrector_changed_as_noise() -> None:
    """After the first step position 0 is rewritten to 1: b = 0 in the rows where that changed it, else still 1."""
    watched = Watched()
    first = run(watched, Rewrite(0, 1))[0]
    assert first.after.tokens[:, 0].tolist() == [1] * 40
    own = watched.seen[1][:, 0]
    assert 0 < int(own.sum()) < 40
    alone = run(Routing(), None)[0].after.tokens[:, 0]
    assert torch.equal(own, alone == 1)
    assert not bool(watched.seen[1][:, 1:].any())


def test_routing_draws_a_changed_token_again() -> None:
    """Position 0 stays chosen: without a corrector its token stays; rewritten, it is drawn from the denoiser."""
    steps = run(Routing(), Rewrite(0, 1), 20_000)
    changed = run(Routing(), None, 20_000)[0].after.tokens[:, 0] != 1
    drawn = steps[1].after.tokens[changed, 0]
    assert_frequencies(torch.bincount(drawn, minlength=K), torch.softmax(torch.tensor([4.0, 0.0, 0.0]).double(), 0))
    kept = steps[1].after.tokens[~changed, 0]
    assert bool((kept == 1).all())


def test_dndm_replaces_a_token_changed_before_its_time_and_keeps_one_changed_afterwards() -> None:
    """Rewritten to 2 at t = 1/2: where tau < 1/2 (half of the rows) mu replaces it, elsewhere it stays."""
    rows = 8_000
    steps = run(DNDM(), Rewrite(0, 2, after=1), rows)
    assert bool((steps[1].after.tokens[:, 0] == 2).all())
    mu = torch.softmax(torch.tensor([4.0, 0.0, 0.0]).double(), 0)
    law = 0.5 * mu + 0.5 * torch.tensor([0.0, 0.0, 1.0]).double()
    assert_frequencies(torch.bincount(steps[-1].after.tokens[:, 0], minlength=K), law)


def test_every_token_of_dndm_arrives_once() -> None:
    """Without a corrector, and with a denoiser that is sure of token 0: what was not 0 changes once, to 0."""
    steps: list[tl.Step] = []
    sampler = tl.Sampler(DNDM(), top_k=1, on=tl.Denoiser, steps=6)
    sampler.run(MODEL, 200, length=L, generator=torch.Generator().manual_seed(0), on_step=steps.append)
    moves = torch.stack([step.changed for step in steps]).sum(0)
    assert torch.equal(moves, (steps[0].before.tokens != 0).long())
    assert bool((steps[-1].after.tokens == 0).all())
    assert len({int(step.changed.sum()) > 0 for step in steps}) == 1


def test_a_predictor_must_define_a_step_or_what_it_remembers() -> None:
    with pytest.raises(TypeError, match="Idle must define step, or begin and advance"):

        class Idle(Predictor):
            pass
