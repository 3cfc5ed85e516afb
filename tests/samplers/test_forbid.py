"""Forbidden tokens are never drawn from a prediction, so they never come out where every last token is predicted."""

from functools import cache

import pytest
import torch

import tokenloom as tl
from tests import brute
from tests.samplers.helpers import CELLS, Cell, K, process_of, supported
from tokenloom.posteriors import OverTokens
from tokenloom.samplers import CORRECTORS, PREDICTORS

P0 = brute.random_p0(K, 3)
FORBIDDEN = int(P0.sum((1, 2)).argmax())
"""The token that would come out most often."""
SHORT = {"gillespie": "gillespie:floor=0.5"}
GUARANTEED = [
    (SHORT.get(name, name), kind)
    for name in PREDICTORS
    if PREDICTORS[name].ends_predicted
    for kind in supported(PREDICTORS[name], CELLS)
]


def draw(kind: Cell, sampler: str, corrector: str | None = None, forbid: tuple[int, ...] = ()) -> torch.Tensor:
    model = tl.Oracle(P0, process_of(kind, length=3, schedule=tl.LinearSchedule(eps=0.1)), predicts=tl.Denoiser)
    generator = torch.Generator().manual_seed(0)
    rows = 40 if sampler.startswith("gillespie") else 300
    return tl.sample(model, rows, steps=5, sampler=sampler, corrector=corrector, forbid=forbid, generator=generator)


@cache
def freely(kind: Cell) -> torch.Tensor:
    return draw(kind, "ancestral")


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(("sampler", "kind"), GUARANTEED)
def test_forbidden_tokens_never_come_out(sampler: str, kind: Cell) -> None:
    """Every other token does, and so would this one."""
    tokens = draw(kind, sampler, forbid=(FORBIDDEN,))
    assert set(tokens.flatten().tolist()) == set(range(K)) - {FORBIDDEN}
    assert bool((freely(kind) == FORBIDDEN).any())


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("corrector", CORRECTORS)
@pytest.mark.parametrize("sampler", ["ancestral", "psi", "routing"])
def test_forbidden_tokens_never_come_out_beside_a_corrector(sampler: str, corrector: str) -> None:
    """Correctors leave noise behind, which the steps after them, or the bits of routing, take away."""
    assert not bool((draw(tl.Uniform, sampler, corrector, (FORBIDDEN,)) == FORBIDDEN).any())


@pytest.mark.parametrize(("sampler", "corrector"), [("planned", None), ("dndm", "random-scan:parallel=3")])
def test_samplers_that_leave_noise_in_place_may_leave_forbidden_tokens(sampler: str, corrector: str | None) -> None:
    """As their docstrings say; forbidding still makes the token rare."""
    share = float((draw(tl.Uniform, sampler, corrector, (FORBIDDEN,)) == FORBIDDEN).double().mean())
    assert 0 < share < float((draw(tl.Uniform, sampler, corrector) == FORBIDDEN).double().mean()) / 2


def test_only_planned_denoising_may_leave_noise_by_itself() -> None:
    assert [name for name in PREDICTORS if not PREDICTORS[name].ends_predicted] == ["planned"]


@pytest.mark.parametrize("on", [tl.LeaveOneOut, tl.Denoiser])
@pytest.mark.parametrize("kind", CELLS)
def test_forbidding_leaves_the_posterior_of_the_others_on_either_representation(
    kind: Cell, on: type[OverTokens]
) -> None:
    """All mass on the one token that is left: every row is the same."""
    model = tl.Oracle(P0, process_of(kind, length=3), predicts=tl.Denoiser)
    forbidden = tuple(token for token in range(K) if token != 1)
    tokens = tl.sample(model, 20, steps=3, on=on, forbid=forbidden)
    assert bool((tokens == 1).all())


def test_a_given_token_may_be_a_forbidden_one() -> None:
    given = torch.tensor([FORBIDDEN, 0, 0]), torch.tensor([True, False, False])
    model = tl.Oracle(P0, tl.Uniform(K))
    tokens = tl.sample(model, 50, steps=3, given=given, forbid=(FORBIDDEN,))
    assert bool((tokens[:, 0] == FORBIDDEN).all())
    assert not bool((tokens[:, 1:] == FORBIDDEN).any())
