"""Truncation acts on the posterior it names, whatever the model predicts, and the step takes what is left of it.

Forbidden tokens are never drawn from a prediction, so they never come out where every last token is predicted.

The false-alarm rate of a chi-square test is at most 1e-6.
"""

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import assert_close, probabilities
from tests.samplers import helpers
from tests.samplers.helpers import CELLS, P0, SEQUENCES, Cell, K, generator, oracle, process_of, product, repeat
from tokenloom.posteriors import OverTokens, Posterior
from tokenloom.samplers import CORRECTORS, PREDICTORS, Evaluator
from tokenloom.samplers.correctors.informed import Informed, scores_of

ALPHA_S, ALPHA_T = 0.7, 0.4
TRUNCATIONS = [tl.Truncation(top_p=0.7), tl.Truncation(temperature=0.5), tl.Truncation(temperature=2.0, top_p=0.8)]
ROWS = 2_700
NOISY = helpers.states(SEQUENCES, ALPHA_T)
LOO = brute.leave_one_out(P0, helpers.UNIFORM_PI, ALPHA_T)
every_truncation = pytest.mark.parametrize("truncation", TRUNCATIONS, ids=["top-p", "temperature", "both"])


def truncated(law: Tensor, truncation: tl.Truncation) -> Tensor:
    """By the definition: raise to 1/T, then keep the fewest most probable tokens with at least the mass p."""
    law = law ** (1 / truncation.temperature)
    law = law / law.sum(-1, keepdim=True)
    ordered, index = law.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    kept = torch.where(before < truncation.top_p, ordered, 0)
    law = torch.zeros_like(law).scatter(-1, index, kept)
    return law / law.sum(-1, keepdim=True)


def predicted(predicts: type[Posterior], truncation: tl.Truncation, kind: type[OverTokens]) -> Tensor:
    evaluate = Evaluator(oracle(tl.Uniform, predicts), truncation, len(SEQUENCES))
    return probabilities(evaluate(NOISY).everywhere(kind))


@every_truncation
@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut, tl.Score])
def test_leave_one_out_posterior_is_truncated_whatever_the_model_predicts(
    truncation: tl.Truncation, predicts: type[Posterior]
) -> None:
    found = predicted(predicts, truncation, tl.LeaveOneOut)
    torch.testing.assert_close(found, truncated(LOO, truncation), rtol=1e-6, atol=1e-8)
    assert_close(predicted(predicts, tl.Truncation(), tl.LeaveOneOut), LOO)


@every_truncation
@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut])
def test_denoiser_of_a_truncated_leave_one_out_posterior_follows_from_bayes_rule(
    truncation: tl.Truncation, predicts: type[Posterior]
) -> None:
    """mu(k) ~ nu(k) q(x_t | k), and not the truncated denoiser."""
    nu = truncated(LOO, truncation)
    seen = torch.full((len(SEQUENCES), 2, K), (1 - ALPHA_T) / K).double()
    mu = nu * seen.scatter_add(-1, SEQUENCES.unsqueeze(-1), torch.full_like(seen[..., :1], ALPHA_T))
    mu = mu / mu.sum(-1, keepdim=True)
    found = predicted(predicts, truncation, tl.Denoiser)
    torch.testing.assert_close(found, mu, rtol=1e-6, atol=1e-8)
    denoiser = truncated(brute.denoiser(P0, helpers.UNIFORM_PI, ALPHA_T), truncation)
    assert (found - denoiser).abs().max() > 0.05
    on_denoiser = replace(truncation, on=tl.Denoiser)
    assert_close(predicted(predicts, on_denoiser, tl.Denoiser).float(), denoiser.float())


def bridge_of(nu: Tensor) -> Tensor:
    """Bayes' rule with nu in the place of p(x_0 | the other positions): x_s ~ nu noised, x_t ~ x_s noised."""
    eye, kept = torch.eye(K, dtype=torch.float64), ALPHA_T / ALPHA_S
    to_s = ALPHA_S * nu + (1 - ALPHA_S) / K
    to_t = (kept * eye + (1 - kept) / K)[:, SEQUENCES].movedim(0, -1)
    return to_s * to_t / (to_s * to_t).sum(-1, keepdim=True)


@every_truncation
@pytest.mark.parametrize(
    ("sampler", "predicts"),
    [
        ("ancestral", tl.LeaveOneOut),
        ("ancestral", tl.Denoiser),
        ("ancestral:through=plug-in", tl.Denoiser),
        ("ancestral:through=marginalised", tl.Score),
        ("psi:kappa=1", tl.LeaveOneOut),
    ],
)
def test_step_goes_by_the_bridge_of_the_truncated_posterior(
    sampler: str, predicts: type[Posterior], truncation: tl.Truncation
) -> None:
    nu = truncated(LOO, truncation)
    start = repeat(NOISY, ROWS // len(SEQUENCES))
    arrived = helpers.step(PREDICTORS.parse(sampler), oracle(tl.Uniform, predicts), start, ALPHA_S, truncation)
    helpers.assert_transitions(helpers.transitions(NOISY, arrived.tokens, K), product(bridge_of(nu)))


@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut])
def test_corrector_redraws_from_the_truncated_posterior_noised(predicts: type[Posterior]) -> None:
    nu = truncated(LOO, TRUNCATIONS[0])
    start = repeat(NOISY, ROWS // len(SEQUENCES))
    scan = CORRECTORS.parse("scan")
    corrected = helpers.correct(scan, oracle(tl.Uniform, predicts), start, truncation=TRUNCATIONS[0])
    stay = torch.nn.functional.one_hot(SEQUENCES, K).double()
    each = torch.stack([ALPHA_T * nu[:, 0] + (1 - ALPHA_T) / K, stay[:, 1]], 1)
    helpers.assert_transitions(helpers.transitions(NOISY, corrected.tokens, K), product(each))


def test_the_informed_corrector_chooses_before_truncation_and_draws_after_it() -> None:
    half = tl.Truncation(top_p=0.5)
    model, unused = oracle(tl.Uniform), torch.zeros_like(NOISY.tokens).double()
    plain, cut = (Evaluator(model, truncation, len(SEQUENCES))(NOISY) for truncation in (None, half))
    chosen, truncating = (Informed().choose(prediction, unused, 0) for prediction in (plain, cut))
    assert torch.equal(chosen.where.column, truncating.where.column)
    nu = truncated(LOO, half)
    expected = nu[chosen.where.row, chosen.where.column].unsqueeze(1)
    torch.testing.assert_close(probabilities(truncating.posterior), expected, rtol=1e-6, atol=1e-8)
    late = scores_of(cut.at(NOISY.free, tl.LeaveOneOut), NOISY, model.process, "margin")
    assert not torch.equal(late.argmin(1), chosen.where.column)


def test_truncation_on_a_masked_model_is_on_its_denoiser_either_way() -> None:
    """A mask says nothing of its own token, so both posteriors are one: the same tokens come out."""
    drawn = [
        tl.sample(oracle(tl.Masked, predicts), 500, steps=4, top_p=0.8, on=on, generator=generator(2))
        for predicts in (tl.Denoiser, tl.LeaveOneOut)
        for on in (tl.Denoiser, tl.LeaveOneOut)
    ]
    assert all(torch.equal(tokens, drawn[0]) for tokens in drawn)


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Masked, tl.AbsorbingUniform, tl.MaskedUniform])
@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut])
def test_a_callback_may_ask_for_the_truncated_denoiser_everywhere(kind: Cell, predicts: type[Posterior]) -> None:
    """A given or visible token is its own point mass, and elsewhere asking more changes nothing of the answer."""
    model = oracle(kind, predicts)
    given = torch.tensor([1, 0]), torch.tensor([True, False])
    for step in tl.Sampler(steps=4, top_p=0.7).steps(model, 20, given=given):
        everywhere = step.prediction.everywhere(tl.Denoiser).log_probs.exp()
        known = model.process.evidence(step.before).isposinf()
        assert torch.equal(everywhere[known], torch.nn.functional.one_hot(step.before.tokens[known], K).double())
        alone = step.prediction.at(~known, tl.Denoiser).posterior.log_probs.exp()
        assert torch.equal(everywhere[~known], alone.squeeze(1))
        assert int(known.sum()) >= 20


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("truncation", [None, tl.Truncation(top_p=0.9)])
def test_predictions_in_half_precision_are_converted_in_single(
    dtype: torch.dtype, truncation: tl.Truncation | None
) -> None:
    """Flat logits lose nothing in 16 bits, but the evidence of a token, log(1 + 0.3 K / 0.7) here, would: 2% of mu."""
    size = 50_000
    model = tl.DiffusionModel(lambda x, t: torch.zeros(*x.shape, size, dtype=dtype), tl.Uniform(size))
    level = torch.tensor([0.3]).double()
    noisy = tl.Noisy(torch.tensor([[7]]), 1 - level, level)
    mu = torch.softmax(Evaluator(model, truncation, 1)(noisy).everywhere(tl.Denoiser).logits.double(), -1)
    kept = size if truncation is None else round(0.9 * size)
    own = (0.3 + 0.7 / size) / (0.3 + 0.7 / size * kept)
    assert float(mu[0, 0, 7]) == pytest.approx(own, rel=1e-4)


# ----------------------------------------------------------------------------------------------------- forbidden tokens

THREE = brute.random_p0(K, 3)
FORBIDDEN = int(THREE.sum((1, 2)).argmax())
"""The token that would come out most often."""
SHORT = {"gillespie": "gillespie:floor=0.5"}
GUARANTEED = [
    (SHORT.get(name, name), kind)
    for name in PREDICTORS
    if PREDICTORS[name].ends_predicted
    for kind in helpers.supported(PREDICTORS[name], CELLS)
]


def draw(kind: Cell, sampler: str, corrector: str | None = None, forbid: tuple[int, ...] = ()) -> torch.Tensor:
    model = tl.Oracle(THREE, process_of(kind, length=3, schedule=tl.LinearSchedule(eps=0.1)), predicts=tl.Denoiser)
    rows = 40 if sampler.startswith("gillespie") else 300
    return tl.sample(model, rows, steps=5, sampler=sampler, corrector=corrector, forbid=forbid, generator=generator())


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
    """As their docstrings say; forbidding still makes the token rare.  Alone, planned denoising is the only one."""
    assert [name for name in PREDICTORS if not PREDICTORS[name].ends_predicted] == ["planned"]
    share = float((draw(tl.Uniform, sampler, corrector, (FORBIDDEN,)) == FORBIDDEN).double().mean())
    assert 0 < share < float((draw(tl.Uniform, sampler, corrector) == FORBIDDEN).double().mean()) / 2


@pytest.mark.parametrize("on", [tl.LeaveOneOut, tl.Denoiser])
@pytest.mark.parametrize("kind", CELLS)
def test_forbidding_leaves_the_posterior_of_the_others(kind: Cell, on: type[OverTokens]) -> None:
    """All mass on the one token that is left: every row is the same."""
    model = tl.Oracle(THREE, process_of(kind, length=3), predicts=tl.Denoiser)
    forbidden = tuple(token for token in range(K) if token != 1)
    tokens = tl.sample(model, 20, steps=3, on=on, forbid=forbidden)
    assert bool((tokens == 1).all())


def test_a_given_token_may_be_a_forbidden_one() -> None:
    given = torch.tensor([FORBIDDEN, 0, 0]), torch.tensor([True, False, False])
    model = tl.Oracle(THREE, tl.Uniform(K))
    tokens = tl.sample(model, 50, steps=3, given=given, forbid=(FORBIDDEN,))
    assert bool((tokens[:, 0] == FORBIDDEN).all())
    assert not bool((tokens[:, 1:] == FORBIDDEN).any())
