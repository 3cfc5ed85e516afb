"""The law of one step given transition times or an absorbing sequence, from every state, against enumeration.

False-alarm rate at most 1e-6 a test.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.samplers import helpers
from tests.samplers.helpers import MASK, ROWS, SEQUENCES, Cell, K, L, assert_transitions, oracle, product, repeat, step
from tests.samplers.laws import denoiser, markov_bridges, pi_of, start_of
from tests.statistics import assert_uniform
from tokenloom.samplers import PREDICTORS
from tokenloom.samplers.predictors.dndm import DNDM

ALPHA_S, ALPHA_T = 0.6, 0.25
WHEN = brute.sequences(3, L)
"""For every position: 0 where tau <= s, 1 where s < tau <= t, 2 where tau > t."""


def with_times(alpha_s: float, alpha_t: float) -> tuple[tl.Noisy, Tensor]:
    """Every (x_t, when)."""
    s, t = 1 - alpha_s, 1 - alpha_t
    tokens, when = SEQUENCES.repeat_interleave(len(WHEN), 0), WHEN.repeat(len(SEQUENCES), 1)
    tau = torch.tensor([s / 2, (s + t) / 2, (1 + t) / 2], dtype=torch.float64)[when]
    return helpers.states(tokens, alpha_t, tau), when


def masked_view_denoiser(tokens: Tensor, lost: Tensor, alpha: float) -> Tensor:
    """p(x_0^l | the tokens that are not lost): the masked denoiser, [rows, L, K]."""
    view = tokens.masked_fill(lost, MASK)
    mu = denoiser(tl.Masked, alpha)[(view * torch.tensor([K + 1, 1])).sum(-1)]
    return mu[..., :K]


@pytest.mark.parametrize(
    ("kind", "sampler"),
    [
        (tl.MaskedUniform, "ancestral"),
        (tl.MaskedUniform, "mudm"),
        (tl.Masked, "mudm"),
        (helpers.table_times, "ancestral"),
    ],
)
def test_fixed_times_replace_what_arrives_by_the_masked_denoiser(kind: Cell, sampler: str) -> None:
    start, when = with_times(ALPHA_S, ALPHA_T)
    arrives = torch.nn.functional.one_hot(start.tokens, K).double()
    mu = masked_view_denoiser(start.tokens, when < 2, ALPHA_T)
    law = torch.where((when == 1).unsqueeze(-1), mu, arrives)
    helpers.check_step(sampler, oracle(kind), start, ALPHA_S, product(law))


def test_dndm_replaces_what_arrives_by_the_plain_denoiser() -> None:
    start, when = with_times(ALPHA_S, ALPHA_T)
    stay = torch.nn.functional.one_hot(start.tokens, K).double()
    mu = denoiser(tl.Uniform, ALPHA_T).repeat_interleave(len(WHEN), 0)
    law = product(torch.where((when == 1).unsqueeze(-1), mu, stay))
    many = repeat(start, ROWS // len(start.tokens))
    assert many.aux is not None
    arrived, times = helpers.advance(DNDM(), oracle(tl.Uniform), replace(many, aux=None), ALPHA_S, many.aux)
    assert_transitions(helpers.transitions(start, arrived.tokens, K), law)
    assert torch.equal(times, many.aux)
    assert arrived.aux is None


def test_dndm_begins_below_the_time_of_its_state() -> None:
    """A step with no past: what has not come by t comes below s with probability (1 - alpha_s) / (1 - alpha_t)."""
    stay = torch.nn.functional.one_hot(SEQUENCES, K).double()
    share = (ALPHA_S - ALPHA_T) / (1 - ALPHA_T)
    law = product(share * denoiser(tl.Uniform, ALPHA_T) + (1 - share) * stay)
    helpers.check_step("dndm", oracle(tl.Uniform), helpers.states(SEQUENCES, ALPHA_T), ALPHA_S, law)


def test_dndm_draws_its_times_given_that_they_come_before_the_end() -> None:
    """alpha_tau is uniform on [alpha_1, 1]; under the linear schedule tau is uniform, whatever alpha_1."""
    process = tl.Uniform(K, schedule=tl.LinearSchedule(eps=0.5))
    generator = torch.Generator().manual_seed(0)
    assert_uniform(DNDM().begin(process, process.prior(5_000, L, generator), generator))


def resampled_flags(pi: Tensor, alpha_s: float) -> Tensor:
    """P(lost | x_0, x_s) by Bayes, from x_s = x_0 or a draw of pi: [L, x_0, x_s, lost]."""
    eye = torch.eye(K, dtype=torch.float64).expand(L, K, K)
    both = torch.stack([alpha_s * eye, (1 - alpha_s) * pi.unsqueeze(1).expand(L, K, K)], -1)
    return both / both.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("kind", "sampler"),
    [(tl.Masked, "mudm:resample=true"), (tl.MaskedUniform, "reaudm"), (helpers.table_times, "mudm:resample=true")],
)
def test_resampled_times_step_draws_x_0_then_the_markov_bridge_then_the_flags(kind: Cell, sampler: str) -> None:
    """The joint law of x_s and of tau_s <= s."""
    start, when = with_times(ALPHA_S, ALPHA_T)
    noise = tl.Uniform if kind is tl.Masked else kind
    mu = masked_view_denoiser(start.tokens, when < 2, ALPHA_T)
    bridges, flags = markov_bridges(noise, start.tokens, ALPHA_S, ALPHA_T), resampled_flags(pi_of(noise), ALPHA_S)
    each = torch.einsum("nlo,nlos,losf->nlsf", mu, bridges, flags).flatten(-2)
    copies = 3 * ROWS // len(start.tokens)
    arrived = step(PREDICTORS.parse(sampler), oracle(kind), repeat(start, copies), ALPHA_S)
    assert arrived.aux is not None
    outcome = arrived.tokens * 2 + (arrived.aux <= arrived.t[:, None])
    assert_transitions(helpers.transitions(start, outcome, 2 * K), product(each))


@pytest.mark.parametrize("kind", [tl.AbsorbingUniform, helpers.table_absorbing])
def test_reaudm_step_draws_x_0_then_the_markov_bridge_then_u(kind: Cell) -> None:
    """The joint law of x_s and U_s; p(U_s | x_0, x_s) by Bayes from q(x_s | x_0, U) w(U)."""
    start = start_of(kind, ALPHA_T)
    eye = torch.eye(K, dtype=torch.float64)
    absorbing = ALPHA_S * eye.unsqueeze(-1) + (1 - ALPHA_S) * eye.expand(K, K, K)  # [x_0, x_s, U]
    absorbing = absorbing * pi_of(kind)[:, None, None, :]
    absorbing = absorbing / absorbing.sum(-1, keepdim=True)
    bridges = markov_bridges(kind, start.tokens, ALPHA_S, ALPHA_T)
    each = torch.einsum("nlo,nlos,losu->nlsu", denoiser(kind, ALPHA_T), bridges, absorbing).flatten(-2)
    copies = 3 * ROWS // len(start.tokens)
    arrived = step(PREDICTORS.parse("reaudm"), oracle(kind), repeat(start, copies), ALPHA_S)
    assert arrived.aux is not None
    assert_transitions(helpers.transitions(start, arrived.tokens * K + arrived.aux, K * K), product(each))
