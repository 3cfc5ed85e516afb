"""The probe reads 0 exactly where a prediction cannot depend on its own token, and by hand where it does."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tokenloom as tl
from tests import brute
from tests.training.helpers import awake
from tokenloom.data.markov import markov_chain
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.evaluation.probe import Effort, Sensitivity, leave_one_out_at, probe, probe_along, spread_of, substitute
from tokenloom.nn import DiT, HollowTransformer, Transformer, TransformerConfig
from tokenloom.posteriors import Posterior

K, L = 5, 6
TIMES = (0.1, 0.5, 0.9)


def random_model(kind: type[Transformer], process: tl.Process, predicts: Any = tl.LeaveOneOut) -> tl.DiffusionModel:
    network = kind(TransformerConfig(K, process.input_states, L, 16, 2, 2, 8))
    return awake(tl.DiffusionModel(network, process, predicts=predicts), std=0.4)


def sequences(count: int = 12) -> Tensor:
    return torch.randint(0, K, (count, L), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("process", [tl.Uniform(K), tl.Masked(K)], ids=["uniform", "masked"])
def test_a_hollow_network_reads_exactly_0(process: tl.Process, generator: torch.Generator) -> None:
    found = probe(random_model(HollowTransformer, process), sequences(), TIMES, Effort(3, 5), generator)
    assert found == tuple(Sensitivity(t, 0, 0, 0, 0) for t in TIMES)


@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser, tl.Score])
def test_an_oracle_reads_0_whatever_it_predicts(predicts: type[Posterior], generator: torch.Generator) -> None:
    oracle = tl.MarkovOracle(*markov_chain(K, 1), L, tl.Uniform(K), predicts=predicts)
    for result in probe(oracle, oracle.sample(12, generator), TIMES, Effort(3, K), generator):
        assert 0 <= result.total_variation < 1e-10
        assert 0 <= result.divergence < 1e-10


def test_a_denoiser_taken_for_a_leave_one_out_posterior_is_seen(generator: torch.Generator) -> None:
    """The exact denoiser under the wrong name depends on its own token; the probe must say so, most at small t."""
    exact = tl.Oracle(brute.random_p0(K, 2), tl.Uniform(K), predicts=tl.Denoiser)

    def network(tokens: Tensor, time: Tensor) -> Tensor:
        predicted = exact.predict(tl.Noisy(tokens, time, exact.process.alpha(time)))
        assert isinstance(predicted, tl.Denoiser)
        return predicted.logits

    model = tl.DiffusionModel(network, tl.Uniform(K), predicts=tl.LeaveOneOut)
    found = probe(model, exact.sample(32, generator), TIMES, Effort(2, K), generator)
    assert found[0].total_variation > 0.5
    assert found[0].total_variation > found[1].total_variation > found[2].total_variation > 0.01
    right = tl.DiffusionModel(network, tl.Uniform(K), predicts=tl.Denoiser)
    assert all(result.divergence < 1e-10 for result in probe(right, sequences()[:, :2], TIMES, Effort(2, K), generator))


def test_spread_by_hand() -> None:
    """Laws (1, 0) and (0, 1): mean (1/2, 1/2), variation 1/2, divergence log 2.  Equal laws: 0."""
    laws = torch.tensor([[[1.0, 0], [0, 1]], [[0.3, 0.7], [0.3, 0.7]], [[0.8, 0.2], [0.4, 0.6]]], dtype=torch.float64)
    third = 0.5 * (0.8 * math.log(0.8 / 0.6) + 0.2 * math.log(0.2 / 0.4))
    third += 0.5 * (0.4 * math.log(0.4 / 0.6) + 0.6 * math.log(0.6 / 0.4))
    expected = torch.tensor([[0.5, math.log(2)], [0, 0], [0.2, third]], dtype=torch.float64)
    torch.testing.assert_close(spread_of(laws), expected)
    assert torch.equal(spread_of(laws)[1], torch.zeros(2, dtype=torch.float64))


def test_a_substitute_changes_one_position_and_nothing_else() -> None:
    process = tl.AbsorbingUniform(K)
    noisy = process.corrupt(sequences(3), torch.full((3,), 0.5), torch.Generator().manual_seed(2))
    varied = substitute(noisy, torch.tensor([2, 0]), torch.tensor([4, 1]), torch.tensor([[0, 1], [3, 2]]))
    assert varied.aux is not None
    assert noisy.aux is not None
    for row, (source, place, value) in enumerate([(2, 4, 0), (2, 4, 1), (0, 1, 3), (0, 1, 2)]):
        expected = noisy.tokens[source].clone()
        expected[place] = value
        assert torch.equal(varied.tokens[row], expected)
        assert torch.equal(varied.aux[row], noisy.aux[source])
        assert varied.t[row] == noisy.t[source]


@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser, tl.Score])
def test_the_head_at_one_position_gives_what_the_whole_prediction_gives(predicts: type[Posterior]) -> None:
    model = random_model(DiT, tl.Uniform(K), predicts)
    noisy = model.process.corrupt(sequences(4), torch.full((4,), 0.4), torch.Generator().manual_seed(3))
    whole = tl.convert(model.predict(noisy), tl.LeaveOneOut, noisy.tokens, noisy.alpha_t, model.process)
    at = torch.tensor([0, 5, 2, 3])
    expected = whole.log_probs.exp()[torch.arange(4), at].double()
    torch.testing.assert_close(leave_one_out_at(model, noisy, at), expected, rtol=1e-4, atol=1e-6)


def test_given_positions_are_not_probed(generator: torch.Generator) -> None:
    """A network that copies its own token at the first position only: given there, nothing is left to see."""

    def network(tokens: Tensor, time: Tensor) -> Tensor:
        logits = torch.zeros(*tokens.shape, K, dtype=torch.float64)
        logits[:, 0] = 5 * nn.functional.one_hot(tokens[:, 0], K).double()
        return logits

    model = tl.DiffusionModel(network, tl.Uniform(K))
    given = torch.zeros(12, L, dtype=torch.bool)
    assert probe(model, sequences(), (0.5,), Effort(L, K), generator, given)[0].total_variation > 0.05
    given[:, 0] = True
    assert probe(model, sequences(), (0.5,), Effort(L, K), generator, given)[0].total_variation == 0


def test_the_same_seed_gives_the_same_states_to_two_models() -> None:
    """A comparison is paired: dropout off, one generator state, one reading."""
    model = random_model(DiT, tl.Uniform(K)).train()
    first, second = (
        probe(model, sequences(), TIMES, Effort(2, 3, 8), torch.Generator().manual_seed(4)) for _ in range(2)
    )
    assert first == second
    assert first[0].total_variation > 0
    assert first[0].total_variation_error > 0


SAMPLER = tl.Sampler(steps=8, grid="uniform")


@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser, tl.Score])
def test_along_the_samples_of_an_oracle_the_probe_reads_0(predicts: type[Posterior]) -> None:
    oracle = tl.MarkovOracle(*markov_chain(K, 1), L, tl.Uniform(K), predicts=predicts)
    found = probe_along(oracle, SAMPLER, RowGenerators.spawn(3, 6), TIMES, Effort(3, K))
    assert [result.t for result in found.results] == [0.875, 0.5, 0.125]  # in the order of the run, nearest to TIMES
    assert all(0 <= result.divergence < 1e-10 and result.total_variation < 1e-10 for result in found.results)


@pytest.mark.parametrize("sampler", [SAMPLER, tl.Sampler.parse("psi:kappa=0.5 + informed", steps=9, top_p=0.9)])
def test_probing_changes_no_sample_and_probes_the_states_of_the_run(sampler: tl.Sampler) -> None:
    model = random_model(DiT, tl.Uniform(K))
    found = probe_along(model, sampler, RowGenerators.spawn(3, 6), (0.01, 1.0), Effort(2, 3))
    steps = list(sampler.steps(model, 6, generator=RowGenerators.spawn(3, 6)))
    assert torch.equal(found.tokens, steps[-1].tokens)
    first, last = found.states
    assert torch.equal(first, steps[0].before.tokens)
    assert torch.equal(last, steps[-1].before.tokens)
    assert [result.t for result in found.results] == [1.0, float(steps[-1].before.t[0])]
    x_t = steps[-1].before
    again = probe_along(model, sampler, RowGenerators.spawn(3, 6), (float(x_t.t[0]),), Effort(L, K)).results[0]
    at = torch.arange(L).repeat(6)
    choices = torch.arange(K).expand(6 * L, K)
    varied = substitute(x_t, torch.arange(6).repeat_interleave(L), at, choices)
    laws = leave_one_out_at(model, varied, at.repeat_interleave(K))
    expected = spread_of(laws.view(-1, K, K)).mean(0)
    assert (again.total_variation, again.divergence) == pytest.approx(tuple(expected.tolist()), rel=1e-4)


def test_what_cannot_be_probed_gets_a_sentence(as_a_user: None) -> None:
    model, causal = random_model(DiT, tl.Uniform(K)), random_model(tl.nn.CausalTransformer, tl.LeftToRight(K))
    masked = random_model(DiT, tl.Masked(K), tl.Denoiser)
    for probed, t, given, sentence in (
        (model, 0.0, None, r"times must be in \(0, 1\]"),
        (model, 0.5, torch.ones(12, L, dtype=torch.bool), "every position given"),
        (causal, 0.5, None, "a causal network does not see its own position"),
        (masked, 0.5, None, "under Masked a token that is not noise tells x_0 for certain"),
    ):
        with pytest.raises(ValueError, match=sentence):
            probe(probed, sequences(), (t,), given=given)
    for probed, t, sentence in ((model, 0.0, "times must be in"), (causal, 0.5, "a causal network")):
        with pytest.raises(ValueError, match=sentence):
            probe_along(probed, SAMPLER, RowGenerators.spawn(0, 2), (t,))
    with pytest.raises(ValueError, match="substitutes must be at least 2, got 1"):
        Effort(substitutes=1)
