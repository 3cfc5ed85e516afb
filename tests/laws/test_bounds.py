"""The bounds at the exact posterior: tight where the paper says so, and minimised by the right representation."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT, assert_close
from tokenloom.objectives import (
    CrossEntropy,
    FiniteStep,
    Hybrid,
    JumpNELBO,
    Objective,
    PriorTerm,
    RatioMatching,
    ScoreEntropy,
    UniformNELBO,
)
from tokenloom.posteriors import Posterior

K, L = 3, 2
P0 = brute.random_p0(K, L)
ENTROPY = -float((P0 * P0.log()).sum())
UNIFORM, MASKED = tl.Uniform(K, schedule=EXACT), tl.Masked(K, schedule=EXACT)
ABSORBING, COUPLED = tl.AbsorbingUniform(K, schedule=EXACT), tl.MaxCoupling(K, schedule=EXACT)

TIGHT: list[tuple[tl.Process, Objective, type[Posterior]]] = [
    (UNIFORM, UniformNELBO(), tl.LeaveOneOut),
    (UNIFORM, UniformNELBO(), tl.Denoiser),
    (UNIFORM, ScoreEntropy(), tl.Score),
    (MASKED, JumpNELBO(), tl.Denoiser),
    (MASKED, JumpNELBO(), tl.LeaveOneOut),
    (MASKED, ScoreEntropy(), tl.Score),
    (ABSORBING, JumpNELBO(), tl.Denoiser),
]
STEPPED: list[tuple[tl.Process, Objective, type[Posterior]]] = [
    (UNIFORM, FiniteStep(4), tl.LeaveOneOut),
    (UNIFORM, FiniteStep(4), tl.Denoiser),
    (MASKED, FiniteStep(4), tl.Denoiser),
    (ABSORBING, FiniteStep(4), tl.Denoiser),
]
Case = tuple[tl.Process, Objective, type[Posterior]]


def label(case: object) -> str | None:
    if isinstance(case, tuple):
        return "-".join([type(case[0]).__name__, type(case[1]).__name__, case[2].__name__])
    return None


def weighted_states(process: tl.Process, t: float) -> tuple[tl.Noisy, Tensor, Tensor]:
    """Every (x_0, x_t, U) of positive probability at time t: the states, x_0 and the probabilities."""
    time = torch.tensor([t], dtype=torch.float64)
    alpha = float(process.alpha(time))
    clean, noisy, absorbing, weight = [], [], [], []
    states = process.num_states
    us: list[list[int] | None] = [None]
    if isinstance(process, tl.AbsorbingUniform):
        us = [list(u) for u in itertools.product(range(K), repeat=L)]
    for u in us:
        if u is not None:
            pi = brute.point_pi(u, K)
        elif isinstance(process, tl.Masked):
            pi = brute.point_pi([process.mask] * L, states)
        else:
            pi = brute.uniform_pi(K, L)
        table = brute.joint(P0, pi, alpha) / len(us)
        row, column = (table > 0).nonzero(as_tuple=True)
        clean.append(brute.sequences(states, L)[row])
        noisy.append(brute.sequences(states, L)[column])
        absorbing.append(torch.tensor(u or [0] * L).expand(len(row), L))
        weight.append(table[row, column])
    tokens = torch.cat(noisy)
    aux = torch.cat(absorbing) if isinstance(process, tl.AbsorbingUniform) else None
    full = time.expand(len(tokens))
    return tl.Noisy(tokens, full, process.alpha(full), aux), torch.cat(clean), torch.cat(weight)


def expected_loss(process: tl.Process, objective: Objective, predicts: type[Posterior], t: float) -> float:
    """The mean loss a sequence at time t, predicted by the oracle."""
    noisy, x_0, weight = weighted_states(process, t)
    prediction = tl.Oracle(P0, process, predicts=predicts).predict(noisy)
    return float((weight * objective.per_token(prediction, x_0, noisy, process).sum(-1)).sum())


def integral(function: Callable[[float], float], nodes: int = 40) -> float:
    """Over [0, 1] by Gauss-Legendre in u with t = sin^2(pi u / 2), which tames logarithms at both ends."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    total = 0.0
    for u, weight in zip((points + 1) / 2, weights / 2, strict=True):
        total += weight * math.pi / 2 * math.sin(math.pi * u) * function(math.sin(math.pi * u / 2) ** 2)
    return total


@pytest.mark.parametrize("case", TIGHT, ids=label)
def test_bound_at_the_exact_posterior_is_the_entropy_of_p_0(case: Case) -> None:
    assert integral(lambda t: expected_loss(*case, t)) == pytest.approx(ENTROPY, abs=1e-4)


@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut])
def test_max_coupling_bound_stays_above_the_entropy_at_the_exact_posterior(predicts: type[Posterior]) -> None:
    assert integral(lambda t: expected_loss(COUPLED, JumpNELBO(), predicts, t)) > ENTROPY + 0.1


@pytest.mark.parametrize("case", STEPPED, ids=label)
def test_finite_bound_falls_towards_the_continuous_one(case: Case) -> None:
    """L_n - H halves with each doubling of n once n is large; every L_n is a bound, so none is below H."""
    process, _, predicts = case

    def finite(steps: int) -> float:
        ends = [(index + 1) / steps for index in range(steps)]
        return sum(expected_loss(process, FiniteStep(steps), predicts, t) for t in ends) / steps

    gaps = [finite(steps) - ENTROPY for steps in (1, 2, 4, 8, 16, 32)]
    assert all(after < before for before, after in itertools.pairwise(gaps))
    assert gaps[-1] > 0
    assert gaps[-1] / gaps[-2] == pytest.approx(0.5, abs=0.1)


def mean_slopes(case: Case, t: float, logits: Tensor) -> Tensor:
    """The gradient of the expected loss with respect to a table of logits, one row for each (x_t, U)."""
    process, objective, predicts = case
    noisy, x_0, weight = weighted_states(process, t)
    index = state_index(noisy, process)
    prediction = predicts(logits[index])  # type: ignore[call-arg]
    loss = (weight * objective.per_token(prediction, x_0, noisy, process).sum(-1)).sum()
    (slope,) = torch.autograd.grad(loss, logits)
    return slope


def state_index(noisy: tl.Noisy, process: tl.Process) -> Tensor:
    states = process.num_states
    index = noisy.tokens[:, 0] * states + noisy.tokens[:, 1]
    return index if noisy.aux is None else index * K**L + noisy.aux[:, 0] * K + noisy.aux[:, 1]


def oracle_table(process: tl.Process, predicts: type[Posterior], t: float) -> Tensor:
    """The exact posterior at every (x_t, U), impossible states included (any finite value there)."""
    tokens = brute.sequences(process.num_states, L)
    aux = None
    if isinstance(process, tl.AbsorbingUniform):
        tokens, aux = tokens.repeat_interleave(K**L, 0), brute.sequences(K, L).repeat(K**L, 1)
    time = torch.full((len(tokens),), t, dtype=torch.float64)
    predicted = tl.Oracle(P0, process, predicts=predicts).predict(tl.Noisy(tokens, time, process.alpha(time), aux))
    values = predicted.log_ratios if isinstance(predicted, tl.Score) else predicted.logits  # type: ignore[attr-defined]
    return values.nan_to_num(0.0, neginf=-50.0)


@pytest.mark.parametrize("case", [*TIGHT, *STEPPED, (UNIFORM, CrossEntropy(), tl.LeaveOneOut)], ids=label)
@pytest.mark.parametrize("t", [0.25, 0.75])
def test_gradient_vanishes_at_the_exact_posterior(case: Case, t: float) -> None:
    logits = oracle_table(case[0], case[2], t).requires_grad_()
    assert mean_slopes(case, t, logits).abs().max() < 1e-10
    assert (
        mean_slopes(case, t, (logits.detach() + torch.linspace(0, 1, logits.shape[-1])).requires_grad_()).abs().max()
        > 1e-4
    )


MINIMISED: list[tuple[Case, type[Posterior]]] = [
    ((UNIFORM, CrossEntropy(), tl.LeaveOneOut), tl.LeaveOneOut),
    ((UNIFORM, CrossEntropy(), tl.Denoiser), tl.Denoiser),
    ((UNIFORM, UniformNELBO(), tl.LeaveOneOut), tl.LeaveOneOut),
    ((UNIFORM, UniformNELBO(), tl.Denoiser), tl.Denoiser),
    ((UNIFORM, FiniteStep(4), tl.LeaveOneOut), tl.LeaveOneOut),
    ((UNIFORM, Hybrid(), tl.LeaveOneOut), tl.LeaveOneOut),
    ((UNIFORM, ScoreEntropy(), tl.Score), tl.Score),
    ((COUPLED, JumpNELBO(), tl.Denoiser), tl.Denoiser),
    ((COUPLED, JumpNELBO(), tl.LeaveOneOut), tl.LeaveOneOut),
    ((ABSORBING, JumpNELBO(), tl.Denoiser), tl.Denoiser),
    ((MASKED, JumpNELBO(), tl.Denoiser), tl.Denoiser),
]


@pytest.mark.parametrize(("case", "target"), MINIMISED, ids=[str(label(case)) for case, _ in MINIMISED])
def test_gradient_descent_on_a_table_finds_what_the_paper_says(case: Case, target: type[Posterior]) -> None:
    """From a flat table, at t = 1/2; compared at the positions the objective speaks of."""
    process, _, predicts = case
    t = 0.5
    exact = oracle_table(process, target, t)
    table = torch.zeros_like(exact, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [table], max_iter=400, tolerance_grad=1e-9, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        process_, objective, _ = case
        noisy, x_0, weight = weighted_states(process_, t)
        prediction = predicts(table[state_index(noisy, process)])  # type: ignore[call-arg]
        loss = (weight * objective.per_token(prediction, x_0, noisy, process).sum(-1)).sum()
        table.grad = torch.autograd.grad(loss, table)[0]
        return loss

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    noisy, _, _ = weighted_states(process, t)
    index = state_index(noisy, process)
    free = process.evidence(noisy).isfinite()
    found, truth = table.detach()[index][free], exact[index][free]
    if predicts is tl.Score:
        others = torch.ones_like(found, dtype=torch.bool).scatter(-1, noisy.tokens[free].unsqueeze(-1), False)
        torch.testing.assert_close(found[others], truth[others], rtol=0, atol=1e-3)
    else:
        torch.testing.assert_close(torch.softmax(found, -1), torch.softmax(truth, -1), rtol=0, atol=1e-3)


def test_ratio_matching_finds_the_leave_one_out_posterior_only_if_the_network_is_hollow() -> None:
    """A table indexed by the other position learns it; one that sees its own token copies the token."""
    t, objective = 0.5, RatioMatching()
    noisy, x_0, weight = weighted_states(UNIFORM, t)
    exact = oracle_table(UNIFORM, tl.LeaveOneOut, t)
    other = noisy.tokens.flip(1)

    def fit(hollow: bool) -> Tensor:
        rows = other if hollow else state_index(noisy, UNIFORM).unsqueeze(1).expand(-1, L)
        table = torch.zeros(K if hollow else K**L, L, K, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.Adam([table], lr=0.1)
        for _ in range(1500):
            logits = table[rows, torch.arange(L)]
            loss = (weight * objective.per_token(tl.LeaveOneOut(logits), x_0, noisy, UNIFORM).sum(-1)).sum()
            table.grad = torch.autograd.grad(loss, table)[0]
            optimiser.step()
        return torch.softmax(table.detach()[rows, torch.arange(L)], -1)

    truth = torch.softmax(exact[state_index(noisy, UNIFORM)], -1)
    torch.testing.assert_close(fit(hollow=True), truth, rtol=0, atol=1e-3)
    assert fit(hollow=False).gather(-1, noisy.tokens.unsqueeze(-1)).min() > 0.95


def total_correlation(law: Tensor, states: int) -> float:
    """KL of a law over sequences to the product of its positions."""
    table = law.view(states, states)
    product = torch.outer(table.sum(1), table.sum(0))
    return float((torch.xlogy(table, table) - torch.xlogy(table, product)).sum())


@pytest.mark.parametrize("eps", [0.02, 0.3])
def test_prior_term_completes_the_bound_where_signal_is_left_at_the_end(eps: float) -> None:
    """H plus exactly what the start costs: for UDM KL(p_1 || uniform); for MDM, whose one step from the prior draws the
    positions independently, their total correlation at alpha_1.
    """
    schedule = tl.LinearSchedule(eps=eps)
    uniform, masked = UNIFORM.with_schedule(schedule), MASKED.with_schedule(schedule)
    for process, objective in ((uniform, UniformNELBO()), (masked, JumpNELBO())):
        bound = integral(lambda t, p=process, o=objective: expected_loss(p, o, tl.Denoiser, t))  # type: ignore[misc]
        x_0 = brute.sequences(K, L)
        noisy = PriorTerm().corrupt(process, x_0, torch.ones(len(x_0)))
        prediction = tl.Oracle(P0, process, predicts=tl.Denoiser).predict(noisy)
        price = PriorTerm().per_token(prediction, x_0, noisy, process).sum(-1)
        total = bound + float((P0.flatten() * price).sum())
        if process is uniform:
            p_1 = brute.marginal(P0, brute.uniform_pi(K, L), eps)
            start = float((p_1 * (p_1 * K**L).log()).sum())
        else:
            start = total_correlation(brute.marginal(P0, brute.point_pi([K] * L, K + 1), eps), K + 1)
        assert float(price.max()) > 1e-4
        assert total == pytest.approx(ENTROPY + start, abs=1e-4)


@pytest.mark.parametrize("process", [UNIFORM, MASKED, ABSORBING], ids=lambda process: type(process).__name__)
def test_prior_term_is_0_where_no_signal_is_left(process: tl.Process) -> None:
    x_0 = brute.sequences(K, L)
    noisy = PriorTerm().corrupt(process, x_0, torch.ones(len(x_0)), torch.Generator().manual_seed(6))
    prediction = tl.Denoiser(torch.randn(len(x_0), L, K, dtype=torch.float64))
    assert_close(PriorTerm().per_token(prediction, x_0, noisy, process), torch.zeros(len(x_0), L, dtype=torch.float64))


def phi(a: Tensor, b: Tensor) -> Tensor:
    return b - a + torch.xlogy(a, a) - torch.xlogy(a, b)


def random_case(process: tl.Process, t: float) -> tuple[tl.Noisy, Tensor, Tensor]:
    noisy, x_0, _ = weighted_states(process, t)
    logits = torch.randn(len(x_0), L, K, generator=torch.Generator().manual_seed(30), dtype=torch.float64)
    return noisy, x_0, logits


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
def test_uniform_bound_is_the_sum_over_jumps_it_stands_for(predicts: type[Posterior], t: float) -> None:
    """(rate x Phi) summed over every jump, with the scores taken from the process's own rates and conversions."""
    noisy, x_0, logits = random_case(UNIFORM, t)
    prediction = predicts(logits)  # type: ignore[call-arg]
    model = UNIFORM.reverse_rates(noisy, prediction).off_diagonal()
    exact = UNIFORM.reverse_rates(noisy, x_0).off_diagonal()
    assert_close(UniformNELBO().per_token(prediction, x_0, noisy, UNIFORM), phi(exact, model).sum(-1))


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
def test_denoiser_coordinates_are_the_linear_bridge_bound_of_the_paper(t: float) -> None:
    """`eq:marginalization-ct-elbo-linear-bridge`, symbol by symbol."""
    noisy, x_0, logits = random_case(UNIFORM, t)
    mu, alpha, x_t = torch.softmax(logits, -1), 1 - t, noisy.tokens.unsqueeze(-1)
    clean = torch.nn.functional.one_hot(x_0, K).double()

    def bracket(law: Tensor) -> Tensor:
        return 1 - K * alpha / (1 + (K - 1) * alpha) * law.gather(-1, x_t) + K * alpha / (1 - alpha) * law

    terms = phi(bracket(clean), bracket(mu)).scatter(-1, x_t, 0.0)
    paper = 1 / alpha / K * terms.sum(-1)
    assert_close(UniformNELBO().per_token(tl.Denoiser(logits), x_0, noisy, UNIFORM), paper)


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("process", [MASKED, ABSORBING, COUPLED], ids=lambda process: type(process).__name__)
def test_jump_bound_is_the_sum_over_jumps_it_stands_for(process: tl.Process, t: float) -> None:
    noisy, x_0, logits = random_case(process, t)
    prediction = tl.Denoiser(logits)
    model = process.reverse_rates(noisy, prediction).off_diagonal()
    exact = process.reverse_rates(noisy, x_0).off_diagonal()
    assert_close(JumpNELBO().per_token(prediction, x_0, noisy, process), phi(exact, model).sum(-1))


@pytest.mark.parametrize("t", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("case", STEPPED, ids=label)
def test_finite_bound_is_the_divergence_of_the_bridges(case: Case, t: float) -> None:
    """Four times the KL of the dense laws; at t = 1/4 the step ends at s = 0, the reconstruction."""
    process, objective, predicts = case
    noisy, x_0, logits = random_case(process, t)
    prediction = predicts(logits)  # type: ignore[call-arg]
    s = noisy.t - 0.25
    exact, model = (process.bridge(noisy, s, law).dense() for law in (x_0, prediction))
    divergence = (torch.xlogy(exact, exact) - torch.xlogy(exact, model)).sum(-1)
    assert_close(objective.per_token(prediction, x_0, noisy, process), 4 * divergence)


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
def test_score_entropy_of_converted_scores_is_the_uniform_bound(t: float) -> None:
    noisy, x_0, logits = random_case(UNIFORM, t)
    score = tl.convert(tl.LeaveOneOut(logits), tl.Score, noisy.tokens, noisy.alpha_t, UNIFORM)
    bound = UniformNELBO().per_token(tl.LeaveOneOut(logits), x_0, noisy, UNIFORM)
    assert_close(ScoreEntropy().per_token(score, x_0, noisy, UNIFORM), bound)


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
def test_cross_entropy_of_a_leave_one_out_network_is_that_of_its_denoiser(t: float) -> None:
    noisy, x_0, logits = random_case(UNIFORM, t)
    denoiser = tl.convert(tl.LeaveOneOut(logits), tl.Denoiser, noisy.tokens, noisy.alpha_t, UNIFORM)
    expected = -denoiser.log_probs.gather(-1, x_0.unsqueeze(-1)).squeeze(-1)
    assert_close(CrossEntropy().per_token(tl.LeaveOneOut(logits), x_0, noisy, UNIFORM), expected)


@pytest.mark.parametrize("size", [2, 27, 50257])
@pytest.mark.parametrize("t", [1e-5, 1e-3, 0.5, 0.999, 1.0])
def test_bounds_hold_in_float32(size: int, t: float) -> None:
    """Float32 logits against float64 on the same values: within 1e-4, or 1e-6 of the weight 1/t of a jump."""
    generator = torch.Generator().manual_seed(31)
    logits = 3 * torch.randn(1, 4, size, generator=generator)
    x_t = torch.tensor([[0, 1, 0, size - 1]])
    x_0 = torch.tensor([[0, 0, 1, size - 1]])
    process = tl.Uniform(size)
    time = torch.tensor([t])
    noisy = tl.Noisy(x_t, time, process.alpha(time))
    for objective, predicts in (
        (UniformNELBO(), tl.LeaveOneOut),
        (UniformNELBO(), tl.Denoiser),
        (CrossEntropy(), tl.LeaveOneOut),
        (FiniteStep(1000), tl.LeaveOneOut),
    ):
        single = objective.per_token(predicts(logits), x_0, noisy, process)
        double = objective.per_token(predicts(logits.double()), x_0, noisy, process)
        assert single.isfinite().all()
        torch.testing.assert_close(single, double, rtol=1e-4, atol=1e-6 / t)


@pytest.mark.parametrize("gap", [5.0, 12.0, 20.0])
def test_a_sure_denoiser_is_read_accurately_in_float32(gap: float) -> None:
    """Its own token holds nearly all mass; what is left, divided by the evidence, is the leave-one-out posterior."""
    process, size = tl.Uniform(27), 27
    logits = torch.randn(1, 2, size, generator=torch.Generator().manual_seed(32))
    logits[..., 3] = logits.amax() + gap
    x_t, x_0 = torch.tensor([[3, 3]]), torch.tensor([[3, 5]])
    time = torch.tensor([1e-3])
    noisy = tl.Noisy(x_t, time, process.alpha(time))
    single, double = (
        UniformNELBO().per_token(tl.Denoiser(values), x_0, noisy, process) for values in (logits, logits.double())
    )
    torch.testing.assert_close(single, double, rtol=1e-4, atol=1e-9)
