"""The bound of an exact model is the entropy, whatever the batch, the times and what is given."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import tokenloom as tl
from tests import brute
from tests.exact_network import ExactChain
from tests.laws.exact_cases import price_of_the_start
from tests.objectives.test_error_bars import one_generator
from tests.samplers.helpers import network as small_network
from tokenloom.data.markov import markov_chain
from tokenloom.nn import TransformerConfig
from tokenloom.objectives.grouped_ratio import grouped_ratio, widening
from tokenloom.objectives.nelbo import Bound
from tokenloom.objectives.time_integral import Times, group_levels
from tokenloom.posteriors import Posterior

K, L = 3, 2
P0 = brute.random_p0(K, L)
PI = brute.random_pi(K, L)
ERRORS = 5
"""Standard errors between an estimate and the truth: exceeded by a correct one with probability 6e-7."""

CASES: list[tuple[tl.Process, type[Posterior]]] = [
    (tl.Uniform(K), tl.LeaveOneOut),
    (tl.Uniform(K), tl.Denoiser),
    (tl.Uniform(K), tl.Score),
    (tl.Masked(K), tl.Denoiser),
    (tl.Masked(K), tl.LeaveOneOut),
    (tl.AbsorbingUniform(K), tl.Denoiser),
    (tl.Uniform(K, schedule=tl.CosineSchedule()), tl.LeaveOneOut),
    (tl.Masked(K, schedule=tl.PolynomialSchedule()), tl.Denoiser),
    (tl.Uniform(K, schedule=tl.GeometricSchedule()), tl.Denoiser),
    (tl.Interpolating(K, PI), tl.LeaveOneOut),
    (tl.Interpolating(K, PI), tl.Denoiser),
    (tl.Interpolating(K, PI, schedule=tl.CosineSchedule()), tl.Score),
    (tl.MaskedUniform(K), tl.Denoiser),
    (tl.Process(tl.noise.Table(K, PI), tl.couplings.Absorbing()), tl.LeaveOneOut),
    (tl.Process(tl.noise.Table(K, PI), tl.couplings.TransitionTimes()), tl.Denoiser),
]


def check_entropy(oracle: tl.Oracle, seed: int, times: Times = "stratified") -> tl.Likelihood:
    """The figure of 6,000 sequences at one time each, which is the entropy up to its error."""
    generator = torch.Generator().manual_seed(seed)
    found = tl.nelbo(oracle, oracle.sample(6000, generator), 1, times, generator, batch=3000, row_noise=one_generator)
    assert abs(found.nats - oracle.entropy()) < ERRORS * found.standard_error
    assert found.standard_error < 0.06
    return found


def label(case: tuple[tl.Process, type[Posterior]]) -> str:
    return f"{case[0].name}-{case[1].__name__}-{type(case[0].schedule).__name__}"


@pytest.mark.parametrize(
    ("case", "times"),
    [*((case, "stratified") for case in CASES), *((case, "antithetic") for case in CASES[::4])],
    ids=lambda value: value if isinstance(value, str) else label(value),
)
def test_the_likelihood_of_an_oracle_is_the_entropy(case: tuple[tl.Process, type[Posterior]], times: Times) -> None:
    found = check_entropy(tl.Oracle(P0, case[0], predicts=case[1]), 5, times)
    assert found.per_token == pytest.approx(found.nats / L)
    assert found.per_token_error == pytest.approx(found.standard_error / L)
    assert found.bits_per_token == pytest.approx(found.per_token / math.log(2))
    assert found.perplexity == pytest.approx(math.exp(found.per_token))
    assert float(found.per_sequence.mean()) == pytest.approx(found.nats)
    assert (found.sequences, found.tokens, found.time_samples, found.exact) == (6000, 6000 * L, 1, False)


SMOOTH: list[tl.Schedule] = [tl.CosineSchedule(), *(tl.PolynomialSchedule(power=power) for power in (1.5, 2.0, 3.0))]
"""Schedules that stand still at t = 0."""


@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
@pytest.mark.parametrize("schedule", SMOOTH, ids=str)
def test_the_bound_of_hybrid_noise_that_sets_in_slowly_is_the_entropy(
    schedule: tl.Schedule, predicts: type[Posterior]
) -> None:
    found = check_entropy(tl.Oracle(P0, tl.Hybrid(K, schedule=schedule), predicts=predicts), 0)
    assert bool(found.per_sequence.isfinite().all())


@pytest.mark.parametrize("process", [tl.Uniform(3), tl.AbsorbingUniform(3), tl.MaxCoupling(3), tl.Hybrid(3)], ids=str)
def test_a_denoiser_that_is_never_certain_has_a_finite_bound(process: tl.Process) -> None:
    """Its loss near t = 0 is (1 - mu)/t.  The chain ends in a draw of mu, which never changes: p(x_0) is mu itself."""
    mu = torch.tensor([0.7, 0.2, 0.1])
    model = tl.DiffusionModel(lambda tokens, *_: mu.log().expand(*tokens.shape, 3), process, predicts=tl.Denoiser)
    for token in range(3):
        generator, x_0 = torch.Generator().manual_seed(0), torch.full((2000, 1), token)
        found = tl.nelbo(model, x_0, generator=generator, batch=2000, row_noise=one_generator)
        assert found.standard_error < 0.2
        assert -float(mu[token].log()) - ERRORS * found.standard_error < found.nats < 20


@pytest.mark.parametrize(
    ("process", "predicts", "share"),
    [
        (tl.Uniform(3), tl.Denoiser, 1),
        (tl.MaxCoupling(3), tl.Denoiser, 1),
        (tl.Hybrid(3), tl.Denoiser, 1),
        (tl.AbsorbingUniform(3), tl.Denoiser, 1 / 3),
        (tl.MaskedUniform(3), tl.Denoiser, 0),
        (tl.Masked(3), tl.Denoiser, 0),
        (tl.Uniform(3), tl.LeaveOneOut, 0),
        (tl.AbsorbingUniform(3), tl.LeaveOneOut, 0),
    ],
    ids=str,
)
def test_a_truncated_integral_of_a_denoiser_grows_for_ever_and_that_of_a_leave_one_out_does_not(
    process: tl.Process, predicts: type[Posterior], share: float
) -> None:
    """By share (1 - mu_{x_0}) for every factor of e in the time it begins at, share the chance to be seen as noise."""
    mu = torch.tensor([0.7, 0.2, 0.1])
    model = tl.DiffusionModel(lambda tokens, *_: mu.log().expand(*tokens.shape, 3), process, predicts=predicts)
    found = []
    for begin in (1e-4, 1e-6):
        generator, x_0 = torch.Generator().manual_seed(0), torch.zeros(4000, 1, dtype=torch.int64)
        found.append(tl.nelbo(model, x_0, generator=generator, batch=4000, row_noise=one_generator, truncated_at=begin))
    error = math.hypot(*(each.standard_error for each in found))
    growth = (
        share
        * (1 - float(mu[0]))
        * math.log(
            float(process.alpha(torch.tensor([1e-4])).neg() + 1) / float(process.alpha(torch.tensor([1e-6])).neg() + 1)
        )
    )
    assert error < 0.1
    assert abs(found[1].nats - found[0].nats - growth) < ERRORS * error + 1e-3
    assert list(found[0].parts) == ["integral"]
    assert "not a bound" in found[0].estimator


@pytest.mark.parametrize("process", [tl.Uniform(3), tl.AbsorbingUniform(3), tl.Masked(3, schedule=tl.LinearSchedule())])
def test_the_parts_of_a_bound_sum_to_it_and_its_integral_is_the_truncated_one(process: tl.Process) -> None:
    mu = torch.tensor([0.7, 0.2, 0.1])
    model = tl.DiffusionModel(lambda tokens, *_: mu.log().expand(*tokens.shape, 3), process, predicts=tl.Denoiser)
    x_0 = torch.zeros(512, 2, dtype=torch.int64)
    whole = tl.nelbo(model, x_0, generator=torch.Generator().manual_seed(0), batch=512)
    reveals = ["integral", "prior"] if process.bounded(tl.Denoiser) else ["integral", "reconstruction", "prior"]
    assert list(whole.parts) == reveals
    assert sum(whole.parts.values()) == pytest.approx(whole.per_token, rel=1e-12)
    assert whole.record()["parts"] == whole.parts
    if "reconstruction" in reveals:
        begin = float(process.masses.time_at_lost(torch.tensor([Bound.of_model(model).eps]).double()))
        cut = tl.nelbo(model, x_0, generator=torch.Generator().manual_seed(0), batch=512, truncated_at=begin)
        assert cut.per_token == pytest.approx(whole.parts["integral"], rel=1e-6)


def test_the_bound_of_an_exact_denoiser_tends_to_the_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step from eps to 0 takes positions for independent: it costs their total correlation given z_eps, no less."""
    oracle, excess = tl.Oracle(COUPLED, tl.AbsorbingUniform(3), predicts=tl.Denoiser), []
    x_0 = oracle.sample(20_000, torch.Generator().manual_seed(0))
    exact = -float(COUPLED.log().flatten()[x_0 @ torch.tensor([3, 1])].mean())
    for eps in (0.5, 0.2, 0.01):
        monkeypatch.setattr("tokenloom.objectives.nelbo.EPS", eps)
        generator = torch.Generator().manual_seed(1)
        found = tl.nelbo(oracle, x_0, generator=generator, batch=10_000, row_noise=one_generator)
        excess.append(found.nats - exact)
    assert excess[0] > excess[1] + 0.01 > excess[2] + 0.02
    assert abs(excess[2]) < 0.01


COUPLED = torch.tensor([[30.0, 1, 1], [1, 4, 1], [1, 1, 4]], dtype=torch.float64) / 44


LITTLE = tl.LinearSchedule(eps=0.9)
"""Little is ever lost, and most of the figure is the price of starting from nothing."""
PARTIAL = torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.3, 0.7]], dtype=torch.float64)
"""Noise that never shows token 2 at the first position, nor token 0 at the second."""


@pytest.mark.parametrize(
    ("process", "predicts", "pi"),
    [
        (tl.Uniform(K, schedule=LITTLE), tl.Denoiser, brute.uniform_pi(K, L)),
        (tl.Interpolating(K, PI, schedule=LITTLE), tl.LeaveOneOut, PI),
        (tl.Interpolating(K, PI, schedule=LITTLE), tl.Denoiser, PI),
        (tl.Interpolating(K, PI, schedule=LITTLE), tl.Score, PI),
        (tl.Masked(K, schedule=LITTLE), tl.Denoiser, brute.point_pi([K] * L, K + 1)),
        (tl.Interpolating(K, PARTIAL, schedule=LITTLE), tl.LeaveOneOut, PARTIAL),
        (tl.Interpolating(K, PARTIAL, schedule=LITTLE), tl.Denoiser, PARTIAL),
        (tl.AbsorbingUniform(K, schedule=LITTLE), tl.Denoiser, None),
    ],
    ids=lambda value: value.name if isinstance(value, tl.Process) else getattr(value, "__name__", ""),
)
def test_the_signal_left_is_paid_for(process: tl.Process, predicts: type[Posterior], pi: Tensor | None) -> None:
    """The bound is the entropy plus what the start costs; under AUDM that depends on U, and the figure is a bound."""
    generator, oracle = torch.Generator().manual_seed(0), tl.Oracle(COUPLED, process, predicts=predicts)
    found = tl.nelbo(
        oracle, oracle.sample(5000, generator), 1, generator=generator, batch=5000, row_noise=one_generator
    )
    error = ERRORS * found.standard_error
    if pi is None:
        assert found.nats > oracle.entropy() - error
        return
    price = price_of_the_start(COUPLED, pi, 0.9)
    assert price > error
    assert abs(found.nats - oracle.entropy() - price) < error


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Masked])
def test_given_positions_leave_conditional_entropy(kind: Callable[..., tl.Process], generator: torch.Generator) -> None:
    oracle = tl.Oracle(P0, kind(K), predicts=tl.Denoiser)
    x_0 = oracle.sample(2000, generator)
    given = torch.tensor([True, False]).expand_as(x_0)
    found = tl.nelbo(oracle, x_0, 2, generator=generator, given=given, batch=500)
    first = P0.sum(1)
    conditional = oracle.entropy() + float((first * first.log()).sum())
    assert abs(found.nats - conditional) < ERRORS * found.standard_error
    assert found.tokens == 2000
    assert found.per_token == pytest.approx(found.nats)


def test_groups_are_evenly_spread_and_cut_in_the_last() -> None:
    generator = torch.Generator().manual_seed(3)
    antithetic = group_levels(10, 2, 4, "antithetic", generator)
    assert antithetic.shape == (10, 2)
    for rows in (antithetic[:4], antithetic[4:8]):
        gaps = rows.flatten().sort().values.diff()
        torch.testing.assert_close(gaps, torch.full_like(gaps, 1 / 8))
    stratified = group_levels(8, 2, 4, "stratified", generator)
    for rows in (stratified[:4], stratified[4:]):
        assert sorted((rows.flatten() * 8).long().tolist()) == list(range(8))
        assert rows.flatten().sort().values.diff().std() > 0.01


def test_a_ratio_over_groups_by_hand() -> None:
    """Groups (1 + 2, 3 + 4) over (1 + 1, 1 + 2): ratio 10/5; residuals 3 - 4 and 7 - 6; error sqrt(4)/5, widened."""
    ratio, error = grouped_ratio(torch.tensor([1.0, 2, 3, 4]).double(), torch.tensor([1.0, 1, 1, 2]).double(), group=2)
    assert ratio == pytest.approx(2)
    assert error == pytest.approx(2 / 5 * widening(torch.tensor([-1.0, 1]).double()))


def test_a_causal_model_is_scored_exactly() -> None:
    chain = markov_chain(5, 2)
    oracle = tl.MarkovOracle(*chain, 8, tl.Uniform(5))
    x_0 = oracle.sample(50, torch.Generator().manual_seed(1))
    found = tl.nelbo(tl.DiffusionModel(ExactChain(*chain), tl.LeftToRight(5)), x_0, samples=7)
    nats = -oracle.log_likelihood(x_0)
    assert found.nats == pytest.approx(float(nats.mean()), abs=1e-10)
    plain = float(nats.std()) / math.sqrt(50)
    assert found.standard_error == pytest.approx(plain * widening(nats - nats.mean()), abs=1e-10)
    assert (found.exact, found.time_samples) == (True, 0)


def test_dropout_is_off_while_a_model_is_scored_and_back_on_after() -> None:
    torch.manual_seed(0)
    network = tl.nn.CausalTransformer(TransformerConfig(5, 5, 8, 16, 1, 2, 8, dropout=0.5, time=False))
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3)
    model = tl.DiffusionModel(network, tl.LeftToRight(5)).train()
    x_0 = torch.randint(0, 5, (6, 8), generator=torch.Generator().manual_seed(1))
    figures = [tl.nelbo(model, x_0).nats for _ in range(2)]
    assert figures[0] == figures[1]
    assert all(module.training for module in model.modules())
    assert tl.nelbo(model.eval(), x_0).nats == figures[0]


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Masked])
def test_the_figure_does_not_depend_on_the_batch(kind: Callable[..., tl.Process]) -> None:
    """One seed, 10 sequences of 3 times in batches of 1, 16 and 64: exactly the same noise, the same nats to 1e-6."""
    process = kind(5)
    inner = small_network(process, 8)
    x_0 = torch.randint(0, 5, (10, 8), generator=torch.Generator().manual_seed(5))
    figures, shown, calls = [], [], list[tuple[Tensor, Tensor]]()

    def network(tokens: Tensor, time: Tensor) -> Tensor:
        calls.append((tokens, time))
        logits: Tensor = inner(tokens, time)
        return logits

    model = tl.DiffusionModel(network, process, predicts=tl.Denoiser)
    for batch in (1, 16, 64):
        calls.clear()
        figures.append(tl.nelbo(model, x_0, 3, generator=torch.Generator().manual_seed(6), batch=batch))
        shown.append([torch.cat(part) for part in zip(*calls, strict=True)])
        assert len(calls[0][0]) == min(batch, 30)
        assert float(figures[-1].per_sequence.mean()) == pytest.approx(figures[-1].nats, rel=1e-12)
    for figure, (tokens, times) in zip(figures[1:], shown[1:], strict=True):
        assert torch.equal(tokens, shown[0][0])
        assert torch.equal(times, shown[0][1])
        assert figure.nats == pytest.approx(figures[0].nats, rel=1e-6)
        assert figure.standard_error == pytest.approx(figures[0].standard_error, rel=1e-6)
        torch.testing.assert_close(figure.per_sequence, figures[0].per_sequence, rtol=1e-5, atol=1e-6)
    assert tl.nelbo(model, x_0, 3, generator=torch.Generator().manual_seed(7)).nats != figures[0].nats


def test_a_single_sequence_has_no_error_and_wrong_input_a_sentence(as_a_user: None) -> None:
    oracle = tl.Oracle(P0, tl.Uniform(K))
    assert math.isnan(tl.nelbo(oracle, torch.tensor([[0, 1]])).standard_error)
    for sentence, arguments in (
        ("samples must be at least 1, got 0", (torch.tensor([[0, 1]]), 0)),
        ("batch must be at least 1, got 0", (torch.tensor([[0, 1]]), 1, "stratified", None, 0)),
        ("x_0 holds no sequence", (torch.zeros(0, 2, dtype=torch.int64),)),
        ("times must be 'antithetic' or 'stratified', got 'even'", (torch.tensor([[0, 1]]), 1, "even")),
        (r"x_0 must hold token ids in 0\.\.2, got 3", (torch.tensor([[0, 3]]),)),
    ):
        with pytest.raises(ValueError, match=sentence):
            tl.nelbo(oracle, *arguments)
    with pytest.raises(ValueError, match="every position is given"):
        tl.nelbo(oracle, torch.tensor([[0, 1]]), given=torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="RateNELBO is not a bound for MaskedUniform; it does not jump"):
        tl.nelbo(tl.Oracle(P0, tl.MaskedUniform(K), predicts=tl.Score), torch.tensor([[0, 1]]))
