"""What correctors leave invariant, and what they do not, by enumeration and by counting.

The false-alarm rate of a chi-square test is at most 1e-6.
"""

from dataclasses import dataclass, field, replace
from typing import get_args

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT, assert_close
from tests.samplers import helpers
from tests.samplers.helpers import CELLS, EXTREMES, P0, ROWS, SEQUENCES, Cell, K, L, correct, generator, oracle
from tests.samplers.laws import conditionals, hybrid_joint, pi_of, random_scan, redraw, start_of, there_and_back
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.posteriors import Posterior
from tokenloom.samplers import CORRECTORS, LocalPrediction
from tokenloom.samplers.correctors.gibbs import DeterministicScan
from tokenloom.samplers.correctors.informed import Informed, Score, scores_of
from tokenloom.samplers.evaluator import Evaluator, LazyPrediction

ALPHA = 0.6
P_T = brute.marginal(P0, pi_of(tl.Uniform), ALPHA)
REPRESENTATIONS: list[type[Posterior]] = [tl.Denoiser, tl.LeaveOneOut, tl.Score]


def exact_margins(p_t: Tensor = P_T) -> Tensor:
    log = conditionals(p_t).log()
    own = log.gather(-1, SEQUENCES.unsqueeze(-1))
    rivals = log.scatter(-1, SEQUENCES.unsqueeze(-1), -torch.inf)
    return own.squeeze(-1) - rivals.amax(-1)


def exact_scores(by: Score, p_t: Tensor = P_T) -> Tensor:
    """By their definitions."""
    log = conditionals(p_t).log()
    if by == "margin":
        return exact_margins(p_t)
    return log.amax(-1) if by == "top" else log.gather(-1, SEQUENCES.unsqueeze(-1)).squeeze(-1)


def found_scores(prediction: LazyPrediction, by: Score = "margin") -> Tensor:
    """The score of every free position."""
    local = prediction.at(prediction.noisy.free, tl.LeaveOneOut)
    return scores_of(local, prediction.noisy, prediction.evaluator.process, by)


def metropolised(p_t: Tensor, redrawn: Tensor) -> Tensor:
    """Liu's kernel at the one position that a kernel redraws: the token there is not proposed, and what is proposed is
    accepted with the ratio of the probabilities of leaving."""
    leaving = 1 - redrawn.diagonal()
    proposal = redrawn / leaving[:, None]
    moved = (proposal * (leaving[:, None] / leaving).clamp(max=1)).fill_diagonal_(0)
    return moved + torch.diag(1 - moved.sum(1))


FIRST, SECOND = torch.tensor([True, False]), torch.tensor([False, True])
EVERY = torch.ones(len(SEQUENCES), L, dtype=torch.bool)
LEAST, LEAST_TOP, LEAST_CURRENT = (
    torch.nn.functional.one_hot(exact_scores(by).argmin(1), L).bool() for by in get_args(Score)
)
LIU = [metropolised(P_T, redraw(P_T, EVERY & one)) for one in (FIRST, SECOND)]
GIBBS = {
    "scan": redraw(P_T, EVERY & FIRST),
    "scan, called again": redraw(P_T, EVERY & SECOND),
    "scan:steps=2": redraw(P_T, EVERY & FIRST) @ redraw(P_T, EVERY & SECOND),
    "random-scan": random_scan(P_T),
    "random-scan:parallel=2": redraw(P_T, EVERY),
    "informed": redraw(P_T, LEAST),
    "informed:parallel=2": redraw(P_T, EVERY),
    "informed:by=top": redraw(P_T, LEAST_TOP),
    "informed:by=current": redraw(P_T, LEAST_CURRENT),
    "informed:by=random": random_scan(P_T),
    "informed:by=random,parallel=2": redraw(P_T, EVERY),
    "scan:metropolised=true": LIU[0],
    "scan:metropolised=true,steps=2": LIU[0] @ LIU[1],
    "random-scan:metropolised=true": (LIU[0] + LIU[1]) / 2,
}


@pytest.mark.parametrize("kind", [tl.Uniform, tl.MaxCoupling])
@pytest.mark.parametrize("name", GIBBS)
def test_gibbs_corrector_redraws_from_the_conditional_at_its_positions(name: str, kind: Cell) -> None:
    setting, call = name.removesuffix(", called again"), int(name.endswith("again"))
    helpers.check_correction(setting, oracle(kind), helpers.states(SEQUENCES, ALPHA), GIBBS[name], call)


EVERY_EXACT = [
    (setting, kind, predicts)
    for setting in (*CORRECTORS, *EXTREMES, "random-scan:steps=3", "scan:steps=3")
    if setting.split(":")[0] in CORRECTORS and CORRECTORS.parse(setting).exact
    for kind in helpers.supported(type(CORRECTORS.parse(setting)), CELLS)
    for predicts in (REPRESENTATIONS if setting in CORRECTORS else [tl.Denoiser])
]
"""The defaults of every corrector for all that a model may predict."""


def noised(model: tl.Oracle, alpha: float, seed: int) -> tl.Noisy:
    """Exact draws from p_t."""
    source = generator(seed)
    t = torch.full((ROWS,), 1 - alpha, dtype=torch.float64)
    return model.process.corrupt(model.sample(ROWS, source), t, source)


@pytest.mark.parametrize(("setting", "kind", "predicts"), EVERY_EXACT)
def test_exact_corrector_leaves_p_t_of_every_process_it_supports_invariant(
    setting: str, kind: Cell, predicts: type[Posterior]
) -> None:
    model = oracle(kind, predicts)
    noisy = noised(model, ALPHA, 3)
    corrected = correct(CORRECTORS.parse(setting), model, noisy)
    p_t = hybrid_joint(P0, 1 - ALPHA).sum(0) if kind is tl.Hybrid else brute.marginal(P0, pi_of(kind), ALPHA)
    assert_frequencies(sequence_counts(corrected.tokens, model.process.num_states), p_t)
    assert (corrected.tokens != noisy.tokens).any(1).double().mean() > (0.3 if "steps=3" in setting else 0.1)


def test_scans_of_one_position_are_exact_and_the_others_are_not() -> None:
    """By enumeration.  The informed corrector chooses by looking at the token it redraws: even one position at a time
    it does not leave p_t invariant."""
    for name, kernel in GIBBS.items():
        change = float((P_T @ kernel - P_T).abs().sum() / 2)
        if "parallel" in name or name in ("informed", "informed:by=top", "informed:by=current"):
            assert change > 0.01, name
        else:
            assert change < 1e-12, name
        assert CORRECTORS.parse(name.removesuffix(", called again")).exact == (change < 1e-12), name


def test_no_average_over_a_metropolised_random_scan_varies_more() -> None:
    """Peskun: it moves to every other state at least as often, so the asymptotic variance of the average of any f, a
    quadratic form in f that is twice that of (1 - P + P^infinity)^-1 plus what both share, is no larger."""
    plain, other = GIBBS["random-scan"], GIBBS["random-scan:metropolised=true"]
    moves = ~torch.eye(len(P_T), dtype=torch.bool)
    assert bool((other >= plain - 1e-12)[moves].all())
    forms = [torch.diag(P_T) @ torch.linalg.inv(torch.eye(len(P_T)) - each + P_T) for each in (plain, other)]
    gain = torch.linalg.eigvalsh(forms[0] - forms[1])
    assert float(gain.min()) > -1e-12
    assert float(gain.max()) > 0.05


@pytest.mark.parametrize("by", get_args(Score))
def test_informed_corrector_with_temperature_draws_its_position(by: Score) -> None:
    """l with probability softmax(-score / temperature)_l."""
    share = torch.softmax(-exact_scores(by) / 0.5, -1)
    law = share[:, :1] * redraw(P_T, EVERY & FIRST) + share[:, 1:] * redraw(P_T, EVERY & SECOND)
    start = helpers.states(SEQUENCES, ALPHA)
    helpers.check_correction(f"informed:temperature=0.5,by={by}", oracle(tl.Uniform), start, law)


def test_informed_corrector_with_temperature_is_a_race_of_three_positions() -> None:
    """Of two, noise of either sign draws the same: the difference of two Gumbel numbers is symmetric."""
    rows, logits = 30_000, torch.tensor([[2.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.3, 0.0, 0.0]])
    model = tl.DiffusionModel(lambda x, t: logits.expand(len(x), -1, -1), tl.Uniform(K, schedule=EXACT))
    prediction = Evaluator(model, None, rows)(helpers.states(torch.zeros(rows, 3, dtype=torch.int64), ALPHA))
    order = torch.rand(rows, 3, generator=generator(), dtype=torch.float64)
    chosen = Informed(temperature=0.5).choose(prediction, order, 0).where
    assert torch.equal(chosen.row, torch.arange(rows))
    assert_frequencies(torch.bincount(chosen.column), torch.softmax(-found_scores(prediction)[0] / 0.5, 0))


@pytest.mark.parametrize("predicts", REPRESENTATIONS)
def test_scores_are_their_definitions(predicts: type[Posterior]) -> None:
    noisy = helpers.states(SEQUENCES, ALPHA)
    for kind in (tl.Uniform, tl.Interpolating, helpers.table_maximal):
        prediction = Evaluator(oracle(kind, predicts), None, len(SEQUENCES))(noisy)
        p_t = brute.marginal(P0, pi_of(kind), ALPHA)
        for by in get_args(Score):
            torch.testing.assert_close(found_scores(prediction, by), exact_scores(by, p_t), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["scan", "random-scan", "informed", "informed:by=top", "informed:by=random"])
def test_gibbs_correctors_condition_on_given_positions_and_leave_them(name: str) -> None:
    """The first token is given, so the second is redrawn from alpha p_0(. | first) + (1 - alpha) / K, always."""
    tokens = torch.tensor([[1, 0]]).expand(ROWS // 2, 2).contiguous()
    noisy = replace(helpers.states(tokens, ALPHA), given=FIRST.expand_as(tokens))
    corrected = correct(CORRECTORS.parse(name), oracle(tl.Uniform), noisy).tokens
    assert bool((corrected[:, 0] == 1).all())
    law = ALPHA * P0[1] / P0[1].sum() + (1 - ALPHA) / K
    assert_frequencies(torch.bincount(corrected[:, 1], minlength=K), law)


def test_scan_goes_on_where_it_ended_in_reading_order_over_free_positions() -> None:
    tokens = torch.zeros(1, 5, dtype=torch.int64)
    half = torch.tensor([0.5]).double()
    noisy = tl.Noisy(tokens, half, half, given=torch.tensor([[False, True, False, False, False]]))
    model = tl.DiffusionModel(lambda x, t: torch.zeros(*x.shape, K), tl.Uniform(K, schedule=EXACT))
    kernel, prediction = DeterministicScan(parallel=3), Evaluator(model, None, 1)(noisy)
    unused = torch.zeros_like(tokens).double()
    visited = [kernel.choose(prediction, unused, index).where.column.tolist() for index in range(4)]
    assert visited == [[0, 2, 3], [0, 2, 4], [0, 3, 4], [2, 3, 4]]


@dataclass(frozen=True)
class Watched(DeterministicScan):
    """A scan that remembers the times and the numbers of its steps."""

    seen: list[tuple[float, int]] = field(default_factory=list)

    def choose(self, prediction: LazyPrediction, order: Tensor, index: int) -> LocalPrediction:
        self.seen.append((float(prediction.noisy.t[0]), index))
        return super().choose(prediction, order, index)


@pytest.mark.parametrize(
    ("steps", "seen"),
    [(1, [(0.75, 0), (0.5, 1), (0.25, 2)]), (2, [(2 / 3, 0), (2 / 3, 1), (1 / 3, 2), (1 / 3, 3)])],
)
def test_corrector_acts_at_every_level_but_the_last_and_counts_over_the_whole_run(
    steps: int, seen: list[tuple[float, int]]
) -> None:
    scan = Watched(steps=steps)
    tl.sample(oracle(tl.Uniform), 1, steps=7, corrector=scan, grid="uniform")
    assert [index for _, index in scan.seen] == [index for _, index in seen]
    assert [t for t, _ in scan.seen] == pytest.approx([t for t, _ in seen])


# ---------------------------------------------------------------------------------------------- forward-backward


@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut])
@pytest.mark.parametrize(
    "kind", [kind for kind in helpers.supported(CORRECTORS["forward-backward"], CELLS) if kind is not tl.Hybrid]
)
def test_forward_backward_corrector_is_noising_and_denoising(kind: Cell, predicts: type[Posterior]) -> None:
    law = there_and_back(kind, 0.4, ALPHA)
    helpers.check_correction("forward-backward:amount=0.4", oracle(kind, predicts), start_of(kind, ALPHA), law)


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Masked])
def test_forward_backward_leaves_p_t_invariant_for_one_position(kind: Cell) -> None:
    p1 = brute.random_p0(K, 1)
    model = tl.Oracle(p1, kind(K, schedule=EXACT))
    corrected = correct(CORRECTORS.parse("forward-backward:amount=0.6,steps=2"), model, noised(model, ALPHA, 5))
    pi = brute.point_pi([K], K + 1) if kind is tl.Masked else brute.uniform_pi(K, 1)
    assert_frequencies(sequence_counts(corrected.tokens, pi.shape[1]), brute.marginal(p1, pi, ALPHA))


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Masked])
def test_forward_backward_changes_p_t_by_the_square_of_its_amount(kind: Cell) -> None:
    p_t = brute.marginal(P0, pi_of(kind), ALPHA)
    half, whole = (float((p_t @ there_and_back(kind, amount, ALPHA) - p_t).abs().sum()) for amount in (0.005, 0.01))
    assert whole > 0
    assert whole / half == pytest.approx(4, rel=0.05)


def test_forward_backward_reaches_no_further_than_the_end_of_time() -> None:
    """At t = 0.9 with alpha_1 = 0.5 half the signal cannot be lost: the noising stops at t = 1."""
    model = tl.Oracle(P0, tl.Uniform(K, schedule=tl.LinearSchedule(eps=0.5)))
    t = torch.full((4,), 0.9, dtype=torch.float64)
    noisy = model.process.corrupt(model.sample(4), t)
    corrected = correct(CORRECTORS.parse("forward-backward:amount=0.9"), model, noisy)
    assert_close(corrected.alpha_t, noisy.alpha_t)
