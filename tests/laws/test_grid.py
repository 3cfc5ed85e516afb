"""The table of noise x coupling: every law of every cell equals its definition, by enumeration, to 1e-12."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.exact_network import from_evidence
from tests.laws.exact_cases import ENTROPY, integral
from tests.laws.grid import CELLS, COUPLINGS, JUMPING, NOISES, P0, TIMES, Cell, K, L, level_and_masses, process_of
from tests.laws.helpers import close, close_to_conditional
from tokenloom.couplings.base import probability_lost
from tokenloom.couplings.steps import reverse_rates, stay_bound
from tokenloom.objectives.nelbo import continuous_bound
from tokenloom.posteriors import Posterior, convert_at

SCHEDULES = [tl.CosineSchedule(eps=0.0), tl.PolynomialSchedule(eps=1e-3, power=1.7), tl.GeometricSchedule()]


def one_hot(tokens: Tensor, cell: Cell) -> Tensor:
    return torch.nn.functional.one_hot(tokens, cell.process.num_states).double()


def at_s(cell: Cell) -> Tensor:
    return torch.full_like(cell.noisy.t, cell.s)


def test_one_time_marginals_are_the_same_across_a_row(cell: Cell) -> None:
    """q(x_t | x_0) = alpha_t [x_t = x_0] + m_t(x_t) for every coupling: section 1 of the laws, `eq:transition`."""
    alpha, mass = level_and_masses(cell.noise, cell.t)
    expected = mass.unsqueeze(1) + alpha * torch.eye(K, mass.shape[1], dtype=torch.float64)
    close(cell.shown.sum(-1), expected, "the definition in grid.py")
    time = torch.tensor([cell.t], dtype=torch.float64)
    close(cell.process.alpha(time), torch.full_like(time, alpha), "alpha_t")
    states = torch.arange(mass.shape[1]).unsqueeze(1).repeat(1, L)
    t = torch.full((len(states),), cell.t, dtype=torch.float64)
    noisy = tl.Noisy(states, t, cell.process.alpha(t))
    close(cell.process.masses.mass(noisy), mass.T, "m_t")


def test_evidence_is_the_log_ratio_of_likelihoods(cell: Cell) -> None:
    """evidence = log q(z_t | x_0 = x_t) - log q(z_t | x_0 != x_t); any value where no clean token is x_t."""
    tokens, shown, _ = cell.states
    evidence = cell.process.evidence(cell.noisy)
    for row, place in np.ndindex(len(tokens), L):
        x = int(tokens[row, place])
        likelihood = cell.shown[place, :, x, shown[row, place]]
        others = likelihood[torch.arange(K) != x]
        if x >= K:
            assert float(evidence[row, place]) == 0
        elif float(others.max()) == 0:
            assert float(evidence[row, place]) == torch.inf
        else:
            assert float(evidence[row, place]) == pytest.approx(float((likelihood[x] / others[0]).log()), abs=1e-12)


def test_posteriors_are_functions_of_the_tokens_and_their_evidence_alone(cell: Cell) -> None:
    """p(x_0 | z_t) is proportional to p_0(x_0) prod_l (1 + (e^{a_l} - 1) [x_0^l = x_t^l]), and nothing else of noise,
    coupling, time or what is shown: so cells brought to the same evidence have the same posterior, and where it is 0
    the token does not matter."""
    mu, nu = from_evidence(P0, cell.states[0], cell.process.evidence(cell.noisy))
    close(mu, cell.denoiser, "the denoiser by the evidence, `eq:udm-loo-to-denoiser-matrix`")
    close(nu, cell.leave_one_out, "the leave-one-out posterior by the evidence")


def test_a_given_position_is_a_token_of_infinite_evidence(cell: Cell) -> None:
    """The first position is given: its clean token is known, and the second's posterior is that given both."""
    tokens, shown, _ = cell.states
    clean = tokens[:, :1].clamp(max=K - 1)
    given = torch.tensor([True, False]).expand_as(tokens)
    noisy = replace(cell.noisy, tokens=torch.cat([clean, tokens[:, 1:]], 1), given=given)
    evidence = cell.process.evidence(noisy)
    assert torch.equal(evidence[:, 1], cell.process.evidence(cell.noisy)[:, 1])
    assert bool((evidence[:, 0].isposinf() & (cell.process.level(noisy)[:, 0] == 1)).all())
    rest = P0[clean[:, 0]]
    seen = rest * cell.shown[1][:, tokens[:, 1], shown[:, 1]].T
    for predicts, law in ((tl.LeaveOneOut, rest), (tl.Denoiser, seen)):
        found = tl.Oracle(P0, cell.process, predicts=predicts).predict(noisy).log_probs.exp()[:, 1]
        close_to_conditional(found, law, f"the {predicts.__name__} beside a given token")
    flat, stays = tl.Denoiser(torch.zeros_like(rest).unsqueeze(1).expand(-1, L, -1)), one_hot(clean[:, 0], cell)
    for step in (cell.process.marginal(noisy, flat), cell.process.bridge(noisy, at_s(cell), flat)):
        close(step.dense()[:, 0], stays, "a given token stays")
    assert not bool(reverse_rates(cell.process, noisy, flat).off_diagonal()[:, 0].any())


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize(("noise", "coupling"), CELLS)
def test_a_schedule_is_a_change_of_time(noise: str, coupling: str, schedule: tl.Schedule) -> None:
    """Every law at t is that of alpha = 1 - t at the share that the schedule has lost; rates are as much faster."""
    plain, process = process_of(noise, coupling), process_of(noise, coupling).with_schedule(schedule)
    s, t = (torch.full((K,), time, dtype=torch.float64) for time in (0.35, 0.8))
    lost, speed = schedule.lost(t), -schedule.alpha_prime(t)[0]
    tokens, x_0 = torch.arange(K).unsqueeze(1).repeat(1, L), torch.arange(1, K + 1).unsqueeze(1).repeat(1, L) % K
    tau = torch.tensor([0.2, 0.5, 0.9], dtype=torch.float64).unsqueeze(1).repeat(1, L)
    shown = {"absorbing": (x_0, x_0), "times": (tau, schedule.lost(tau))}.get(coupling, (None, None))
    noisy = tl.Noisy(tokens, t, process.alpha(t), shown[0])
    other = tl.Noisy(tokens, lost, plain.alpha(lost), shown[1])
    close(noisy.alpha_t, other.alpha_t, "alpha")
    assert torch.allclose(process.evidence(noisy), plain.evidence(other), rtol=0, atol=1e-12)
    nu = tl.LeaveOneOut(torch.randn(K, L, K, generator=torch.Generator().manual_seed(3), dtype=torch.float64))
    for endpoint in (x_0, nu, tl.Denoiser(nu.logits)):
        law, expected = process.bridge(noisy, s, endpoint), plain.bridge(other, schedule.lost(s), endpoint)
        close(law.dense(), expected.dense(), "the bridge")
        rates, expected_rates = process.reverse_rates(noisy, endpoint), plain.reverse_rates(other, endpoint)
        close(rates.off_diagonal() / speed, expected_rates.off_diagonal(), "the reverse rate per unit of lost signal")
    if process.markov:
        rates, expected_rates = process.forward_rates(noisy), plain.forward_rates(other)
        close(rates.off_diagonal() / speed, expected_rates.off_diagonal(), "the forward rate per unit of lost signal")


@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
def test_the_oracle_knows_both_posteriors(cell: Cell, predicts: type[tl.LeaveOneOut | tl.Denoiser]) -> None:
    predicted = tl.Oracle(P0, cell.process, predicts=predicts).predict(cell.noisy)
    expected = cell.leave_one_out if predicts is tl.LeaveOneOut else cell.denoiser
    close(predicted.log_probs.exp(), expected, f"{predicts.__name__} of the oracle")


def test_the_forward_law_given_what_is_shown_is_the_marginal(cell: Cell) -> None:
    """q(x_t | x_0, shown), for every x_0: `eq:transition`, and given U or tau `eq:mudm-forward-tau`."""
    table = cell.shown.permute(1, 3, 0, 2)
    x_0, seen = torch.ones(table.shape[:2]).nonzero().unsqueeze(-1).expand(-1, -1, L).unbind(1)
    state = cell.state(x_0, seen, cell.t)
    found = cell.process.marginal(state, state.tokens).dense()
    close_to_conditional(found, table.flatten(0, 1), "q(x_t | x_0, shown), `eq:transition`")


def test_the_way_up_is_the_transition_of_the_path_law(cell: Cell) -> None:
    """q(x_t | x_s, shown), which does not depend on x_0 where the chain is Markov: `eq:transition`."""
    if not cell.process.markov:
        return
    table = cell.joint.sum(1).permute(1, 3, 0, 2)
    x_s, seen = torch.ones(table.shape[:2]).nonzero().unsqueeze(-1).expand(-1, -1, L).unbind(1)
    state = cell.state(x_s, seen, cell.s)
    found = cell.process.forward(state, torch.full_like(state.t, cell.t)).dense()
    close_to_conditional(found, table.flatten(0, 1), "q(x_t | x_s, shown), `eq:transition`")


def test_the_conditional_and_the_score_of_a_position_are_ratios_of_the_marginal(cell: Cell) -> None:
    """The conditional of position l, and divided by that at x_t the score."""
    nu, law = tl.LeaveOneOut(cell.leave_one_out.log()), cell.conditional
    found = tl.conditional_log_probs(nu, cell.noisy, cell.process).exp()
    close(found, law, "p_t(x_t^l | x_t^{-l}), `eq:gibbs-conditional`")
    score = convert_at(nu, tl.Score, cell.noisy, cell.process).log_ratios.exp()
    close(score * law.gather(-1, cell.noisy.tokens.unsqueeze(-1)), law, "the score, `eq:score-ratio-loo`")


def test_the_bridge_given_x_0_is_bayes_rule(cell: Cell) -> None:
    """From x_0 itself, and from either posterior that is sure of it."""
    for k in range(K):
        x_0 = torch.full_like(cell.states[0], k)
        point = torch.nn.functional.one_hot(x_0, K).double().log()
        for endpoint in (x_0, tl.Denoiser(point), tl.LeaveOneOut(point)):
            law = cell.process.bridge(cell.noisy, at_s(cell), endpoint).dense()
            close_to_conditional(law, cell.pairs[:, :, k], "q(x_s | x_0, x_t), `eq:bridge-prob`")


def test_any_prediction_is_plugged_in_or_averaged_over(cell: Cell) -> None:
    """sum_k nu_k q(x_s, z_t | k), normalised, and sum_k mu_k q(x_s | k, z_t), for predictions that are no posterior.

    Where z_t reveals x_0, x_t stays, though the prediction excludes it (`eq:mdm-bridge`, `eq:audm-bridge`).
    """
    revealed = ((cell.pairs.sum(-1) > 0).sum(-1) == 1).unsqueeze(-1)
    stay = one_hot(cell.states[0], cell)
    logits = torch.randn(*revealed.shape[:2], K, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    law = torch.softmax(logits.masked_fill(revealed & (stay[..., :K] > 0), -torch.inf), -1)
    plugged_in = torch.einsum("rlk,rlks->rls", law, cell.pairs)
    averaged = torch.einsum("rlk,rlks->rls", law, cell.bridges)
    plugged_in = plugged_in / plugged_in.sum(-1, keepdim=True)
    nu = tl.LeaveOneOut(law.log())
    for posterior, expected, equation in (
        (nu, plugged_in, "eq:param_plug_in"),
        (convert_at(nu, tl.Denoiser, cell.noisy, cell.process), plugged_in, "eq:loo_to_denoiser"),
        (tl.Denoiser(law.log()), averaged, "eq:param_marginalization"),
    ):
        found = cell.process.bridge(cell.noisy, at_s(cell), posterior).dense()
        close(found, torch.where(revealed, stay, expected), f"the step from any prediction, `{equation}`")


def test_both_posteriors_give_the_exact_reverse_marginal(cell: Cell) -> None:
    """Bayes' form at nu and the average over mu are p(x_s^l | z_t): `prop:loo`, in every cell."""
    for posterior in (tl.LeaveOneOut(cell.leave_one_out.log()), tl.Denoiser(cell.denoiser.log())):
        law = cell.process.bridge(cell.noisy, at_s(cell), posterior).dense()
        close(law, cell.reverse, f"the step from the exact {type(posterior).__name__}, `prop:loo`")


def test_no_prediction_stays_less_than_the_bound(cell: Cell) -> None:
    """And some prediction attains it, so that no position is asked about in vain."""
    bound = stay_bound(cell.process, cell.noisy, at_s(cell))
    stays = []
    for k in range(K):
        law = cell.process.bridge(cell.noisy, at_s(cell), torch.full_like(cell.states[0], k))
        stay = law.weights[..., 0]
        assert bool((stay >= bound - 1e-15).all())
        stays.append(stay)
    close(torch.stack(stays).amin(0), bound, "the least probability of staying")


@pytest.mark.parametrize(("noise", "coupling"), JUMPING)
def test_the_clock_of_jumps_is_the_integral_of_their_largest_rate(noise: str, coupling: str) -> None:
    """P(nothing is renewed between s and t) = 1 - a - b = exp(-clock), whatever position and token."""
    cell = Cell(noise, coupling, 0.3, 0.6)
    path = cell.process.path
    assert isinstance(path, tl.couplings.base.Clocked)
    pace = path.pace(cell.process, cell.noisy)
    for waiting in (0.01, 1.3):
        s = path.later(cell.process, cell.noisy.t, torch.full_like(cell.noisy.t, waiting))
        clean, fresh = path.shares(cell.process, cell.noisy, s)
        moving = pace > 0
        close((1 - clean - fresh)[moving], torch.exp(-waiting * pace)[moving], "the clock")
        assert bool((stay_bound(cell.process, cell.noisy, s)[~moving] == 1).all())


@pytest.mark.parametrize(("noise", "coupling"), CELLS)
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
def test_the_bound_at_the_exact_posterior_is_the_entropy_where_the_chain_is_markov(
    noise: str, coupling: str, predicts: type[Posterior]
) -> None:
    """The maximal coupling pays more, unless w is 0 or 1 at every clean token: then it is Markov too."""
    process = process_of(noise, coupling)
    found = integral(process, continuous_bound(process, predicts), predicts)
    if process.tight:
        assert found == pytest.approx(ENTROPY, abs=1e-6)
    else:
        assert coupling == "maximal"
        assert found > ENTROPY + 0.01


@pytest.mark.parametrize("noise", [noise for noise in NOISES if noise != "hybrid"])
def test_redrawing_what_is_shown_follows_its_posterior(noise: str) -> None:
    """p(shown | x_0, x_s) at one time, from the definition of the path law: the redrawn U, and whether tau <= s."""
    process, coupling = process_of(noise, "absorbing"), tl.couplings.Absorbing()
    for s in sorted({time for step in TIMES for time in step}):
        alpha, mass = level_and_masses(noise, s)
        states = mass.shape[1]
        every = torch.cartesian_prod(torch.arange(K), torch.arange(states))
        x_0, x_s = (column.unsqueeze(1).repeat(1, L) for column in every.unbind(-1))
        time = torch.full((len(x_0),), s, dtype=torch.float64)
        state = tl.Noisy(x_s, time, process.alpha(time))
        noise_at, same = mass.gather(1, x_s.T).T, (x_s == x_0).double()
        possible = noise_at + alpha * same > 0
        lost = (noise_at / (noise_at + alpha * same))[possible]
        found = probability_lost(process, x_0, state)[possible]
        close(found, lost, "P(lost | x_0, x_s), `eq:mudm-tau-cond-x0-xs`")
        absorbed = torch.nn.functional.one_hot(x_s, states).double()
        joint = level_and_masses(noise, 1.0)[1] * (alpha * same.unsqueeze(-1) + (1 - alpha) * absorbed)
        law = coupling.resampling_law(process, x_0, state).dense()
        close_to_conditional(law, joint, "p(U | x_0, x_s), `eq:noise_cond_x0_xs`")


@pytest.mark.parametrize("coupling", ["maximal", "absorbing"])
def test_couplings_of_one_path_do_not_exist_for_noise_that_falls(coupling: str) -> None:
    with pytest.raises(ValueError, match=r"the .* coupling needs noise that only grows.*use the Markov coupling"):
        tl.Process(NOISES["hybrid"], COUPLINGS[coupling])
