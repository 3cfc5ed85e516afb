"""Corruption and priors follow their laws.  Statistical tests: fixed seeds, false-alarm rate 1e-6 each."""

import pytest
import torch

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tests.statistics import assert_frequencies, sequence_counts

K, L, COUNT = 3, 2, 100_000
TABLE = tl.noise.Table(K, brute.random_pi(K, L))
COUPLINGS = [
    tl.couplings.Markov(),
    tl.couplings.Maximal(),
    tl.couplings.Absorbing(),
    tl.couplings.TransitionTimes(),
]


def forward_table(process: tl.Process, alpha: float) -> torch.Tensor:
    """q_{t|0}(. | x_0 = (0, 2)) over sequences of states, the auxiliary variable averaged out."""
    if isinstance(process.noise, tl.noise.Mask):
        pi = brute.point_pi([process.noise.mask] * L, process.num_states)
    else:
        pi = process.noise.pi if isinstance(process.noise, tl.noise.Table) else brute.uniform_pi(K, L)
    return brute.kernel(alpha, pi)[2]


PROCESSES = [
    tl.Uniform(K),
    tl.Masked(K),
    tl.Masked(K, mask_id=1),
    tl.MaxCoupling(K),
    tl.AbsorbingUniform(K),
    tl.MaskedUniform(K),
    *(tl.Process(TABLE, coupling) for coupling in COUPLINGS),
]
every_process = pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)


@every_process
@pytest.mark.parametrize("t", [0.0, 0.35, 1.0])
def test_corruption_follows_the_forward_law(process: tl.Process, t: float, generator: torch.Generator) -> None:
    x_0 = torch.tensor([[0, 2]]).expand(COUNT, L).contiguous()
    noisy = process.corrupt(x_0, torch.full((COUNT,), t), generator)
    table = forward_table(process, float(noisy.alpha_t[0]))
    states = round(table.numel() ** 0.5)
    assert_frequencies(sequence_counts(noisy.tokens, states), table)


@every_process
def test_the_prior_has_lost_everything(process: tl.Process, generator: torch.Generator) -> None:
    state = process.prior(COUNT, L, generator)
    table = forward_table(process, 0.0)
    states = round(table.numel() ** 0.5)
    assert_frequencies(sequence_counts(state.tokens, states), table)
    assert (state.t == 1).all()
    if isinstance(process.coupling, tl.couplings.Absorbing):
        assert state.aux is not None
        assert torch.equal(state.tokens, state.aux)
    if isinstance(process.coupling, tl.couplings.TransitionTimes):
        view = process.coupling.masked_view(process, state)
        assert torch.equal(view, torch.full_like(view, K))


@every_process
def test_drawn_steps_follow_the_dense_law(process: tl.Process, generator: torch.Generator) -> None:
    """The branch-first draw against the dense law, from a state of each kind."""
    x_0 = torch.tensor([[0, 2]])
    noisy = process.corrupt(x_0, torch.tensor([0.8]), generator)
    many = tl.Noisy(
        noisy.tokens.expand(COUNT, L).contiguous(),
        noisy.t.expand(COUNT),
        noisy.alpha_t.expand(COUNT),
        None if noisy.aux is None else noisy.aux.expand(COUNT, L).contiguous(),
    )
    prediction = tl.Denoiser(torch.randn(1, L, K, generator=generator).expand(COUNT, L, K))
    law = process.bridge(many, torch.full((COUNT,), 0.3), prediction)
    drawn = law.draw(generator)
    for position in range(L):
        dense = law.dense()[0, position]
        assert_frequencies(torch.bincount(drawn[:, position], minlength=len(dense)), dense)


@pytest.mark.parametrize("size", [7, 1200])
def test_steps_given_clean_tokens_follow_the_dense_law(size: int, generator: torch.Generator) -> None:
    process = tl.Uniform(size, schedule=EXACT)
    x_t, x_0 = torch.full((COUNT, 1), 3), torch.full((COUNT, 1), 5)
    t = torch.full((COUNT,), 0.9, dtype=torch.float64)
    law = process.bridge(tl.Noisy(x_t, t, 1 - t), t / 2, x_0)
    exact = brute.bridge(5, 3, brute.uniform_pi(size, 1)[0], 0.55, 0.1)
    assert_frequencies(torch.bincount(law.draw(generator).flatten(), minlength=size), exact)


@every_process
def test_the_same_seed_corrupts_alike(process: tl.Process) -> None:
    x_0 = torch.randint(0, 1, (16, L))
    first, second = (process.corrupt(x_0, torch.full((16,), 0.5), torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first.tokens, second.tokens)


def test_a_whole_reverse_chain_ends_in_p_0(generator: torch.Generator) -> None:
    """One position, so that factorised steps are exact: every process and prediction ends in p_0; 50,000 chains each.

    alpha_1 = 0, so that the prior is exact too.
    """
    p0 = brute.random_p0(K, 1)
    cases: list[tuple[tl.Process, type[tl.Denoiser] | type[tl.LeaveOneOut]]] = [
        (tl.Uniform(K, schedule=EXACT), tl.LeaveOneOut),
        (tl.Uniform(K, schedule=EXACT), tl.Denoiser),
        (tl.Masked(K, schedule=EXACT), tl.Denoiser),
        (tl.MaxCoupling(K, schedule=EXACT), tl.Denoiser),
        (tl.AbsorbingUniform(K, schedule=EXACT), tl.Denoiser),
        (tl.MaskedUniform(K, schedule=EXACT), tl.Denoiser),
        (tl.MaxCoupling(K, schedule=EXACT), tl.LeaveOneOut),
        (tl.AbsorbingUniform(K, schedule=EXACT), tl.LeaveOneOut),
    ]
    for process, predicts in cases:
        model = tl.Oracle(p0, process, predicts=predicts)
        state = process.prior(50_000, 1, generator)
        for s in (0.7, 0.4, 0.1, 0.0):
            time = torch.full((50_000,), s, dtype=torch.float64)
            prediction = model.predict(state)
            state = process.move_to(state, process.bridge(state, time, prediction).draw(generator), time)
        assert_frequencies(torch.bincount(state.tokens.flatten(), minlength=K), p0)


def test_an_unknown_device_is_named() -> None:
    for draw in (lambda: tl.Uniform(K).prior(1, 2, device="list"), lambda: tl.RowGenerators([1], "list")):
        with pytest.raises(ValueError, match=r"device must be .* cpu or cuda:0, got 'list'"):
            draw()
