"""One network under every process: every sampler runs on the same weights, and with exact ones each hits p_0."""

import pytest
import torch
from torch import nn

import tokenloom as tl
from tests import brute
from tests.exact_network import ExactNetwork
from tests.laws.helpers import EXACT
from tests.samplers.helpers import CELLS, generator, process_of, table_absorbing, table_times, table_zeros
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.nn import DiT, TransformerConfig
from tokenloom.samplers import CORRECTORS, PREDICTORS

K, L, ROWS = 4, 3, 4
SCHEDULE = tl.LinearSchedule(eps=0.1)
PROCESSES = [*(process_of(kind, K, L, SCHEDULE) for kind in CELLS), tl.Masked(K, schedule=SCHEDULE, mask_id=K - 1)]
SHORT = {"gillespie": "gillespie:floor=0.9"}
pytestmark = pytest.mark.usefixtures("as_a_user")  # shape checks are on in `test_conformance.py`, for the same kernels


@pytest.fixture(scope="module")
def network() -> DiT:
    """Every weight away from zero."""
    torch.manual_seed(0)
    made = DiT(TransformerConfig(K, K, L, width=8, depth=1, heads=1, condition=4, conditioning="evidence"))
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4)
    return made.eval()


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: f"{process.name}-{process.mask_in_vocabulary}")
def test_every_sampler_and_corrector_of_a_process_runs_on_the_one_network(process: tl.Process, network: DiT) -> None:
    """With and without given tokens, which come out as they went in."""
    model = tl.DiffusionModel(network, process)
    samplers = [SHORT.get(name, name) for name in PREDICTORS if PREDICTORS[name].supports(process)]
    samplers += ["mudm:resample=true"] * ("mudm" in samplers)
    correctors = [f"ancestral + {name}" for name in CORRECTORS if CORRECTORS[name].supports(process)]
    assert "ancestral" in samplers
    given = torch.tensor([2, 0, 0]), torch.tensor([True, False, False])
    for sampler in samplers + correctors:
        for known in (None, given):
            drawn = tl.sample(model, ROWS, steps=4, sampler=sampler, given=known, generator=generator())
            assert drawn.shape == (ROWS, L)
            assert ((drawn >= 0) & (drawn < K)).all(), sampler
            assert process.mask_in_vocabulary not in drawn.flatten().tolist(), sampler
            assert known is None or (drawn[:, 0] == 2).all(), sampler


def test_hybrid_noise_with_transition_times_runs_where_they_are_redrawn_and_nowhere_else(network: DiT) -> None:
    process = tl.Process(tl.noise.MaskAndUniform(K), tl.couplings.TransitionTimes(), SCHEDULE)
    model = tl.DiffusionModel(network, process)
    for sampler in ("reaudm", "mudm:resample=true"):
        assert tl.sample(model, ROWS, steps=4, sampler=sampler).shape == (ROWS, L)
    for sampler in ("ancestral", "gillespie", "mudm"):
        with pytest.raises(ValueError, match=r"use (mudm:resample=true|.*reaudm)"):
            tl.sample(model, ROWS, steps=4, sampler=sampler)


def test_one_exact_network_hits_p_0_under_every_process() -> None:
    """2,000 sequences in 64 steps under each of eight; one chi-square of all, with a false-alarm rate below 1e-6.

    The steps leave an error of about 0.004 in total variation, which so few sequences cannot show.
    """
    p0, rows = brute.random_p0(3, 2), 2_000
    model = tl.DiffusionModel(ExactNetwork(p0), tl.Uniform(3, schedule=EXACT))
    runs = [
        *((process_of(kind), "ancestral") for kind in (tl.Uniform, tl.Masked, tl.AbsorbingUniform)),
        (tl.Hybrid(3, p_uniform=0.3), "ancestral"),
        (process_of(tl.Masked), "mudm"),
        *((process_of(kind), "ancestral") for kind in (table_absorbing, table_times, table_zeros)),
    ]
    counts = []
    for number, (process, sampler) in enumerate(runs):
        borrowed = model.with_process(process)
        drawn = tl.sample(borrowed, rows, steps=64, sampler=sampler, generator=generator(number))
        counts.append(sequence_counts(drawn, 3))
    assert_frequencies(torch.stack(counts), p0.flatten().expand(len(runs), -1) / len(runs))
    other = brute.random_p0(3, 2, seed=1)
    with pytest.raises(AssertionError, match="chi-square"):
        assert_frequencies(torch.stack(counts), other.flatten().expand(len(runs), -1) / len(runs))
