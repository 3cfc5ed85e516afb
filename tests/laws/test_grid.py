"""The table of noise x coupling: every law of every cell equals its definition, by enumeration, to 1e-12."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.exact_network import from_evidence
from tests.laws.grid import CELLS, COUPLINGS, EXACT, NOISES, P0, TABLES, TIMES, Cell, K, L, level_and_masses, process_of
from tokenloom.couplings.base import probability_lost
from tokenloom.couplings.steps import rate_bound, stay_bound
from tokenloom.objectives.nelbo import continuous_bound
from tokenloom.posteriors import Posterior, convert_at

ENTROPY = -float((P0 * P0.log()).sum())
CASES = [(noise, coupling, s, t) for noise, coupling in CELLS for s, t in TIMES]
SCHEDULES = [tl.CosineSchedule(eps=0.0), tl.PolynomialSchedule(eps=1e-3, power=1.7), tl.GeometricSchedule()]
cell_of = cache(Cell)


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)))
def cell(request: pytest.FixtureRequest) -> Cell:
    return cell_of(*request.param)


def close(actual: Tensor, expected: Tensor, law: str) -> None:
    """Equal to 1e-12; a failure names the law."""
    worst = float((actual - expected).abs().max())
    assert worst < 1e-12, f"{law} is broken by {worst:.1e}"


def close_to_conditional(found: Tensor, table: Tensor, law: str) -> None:
    """A law is the table normalised over its last dimension, wherever that has any mass."""
    possible = table.sum(-1) > 0
    close(found[possible], (table / table.sum(-1, keepdim=True))[possible], law)


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
    """p_t(x_t^l = y | the other position, shown) = sum_k nu_k q(y, shown | k), normalised; divided by that at x_t."""
    tokens, shown, _ = cell.states
    table = torch.stack([cell.shown[at][..., shown[:, at]] for at in range(L)]).permute(3, 0, 1, 2)
    law = torch.einsum("rlk,rlky->rly", cell.leave_one_out, table)
    law = law / law.sum(-1, keepdim=True)
    nu = tl.LeaveOneOut(cell.leave_one_out.log())
    found = tl.conditional_log_probs(nu, cell.noisy, cell.process).exp()
    close(found, law, "p_t(x_t^l | x_t^{-l}), `eq:gibbs-conditional`")
    score = convert_at(nu, tl.Score, cell.noisy, cell.process).log_ratios.exp()
    close(score * law.gather(-1, tokens.unsqueeze(-1)), law, "the score, `eq:score-ratio-loo`")


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
    stay = torch.nn.functional.one_hot(cell.states[0], cell.pairs.shape[-1]).double()
    logits = torch.randn(*revealed.shape[:2], K, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    law = torch.softmax(logits.masked_fill(revealed & (stay[..., :K] > 0), -torch.inf), -1)
    plugged_in = torch.einsum("rlk,rlks->rls", law, cell.pairs)
    averaged = torch.einsum("rlk,rlks->rls", law, cell.bridges)
    for posterior, expected, equation in (
        (tl.LeaveOneOut(law.log()), plugged_in / plugged_in.sum(-1, keepdim=True), "eq:param_plug_in"),
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


@pytest.mark.parametrize(("noise", "coupling"), [case for case in CELLS if case[1] != "times"])
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
def test_rates_are_the_derivative_of_the_bridge(
    noise: str, coupling: str, predicts: type[tl.LeaveOneOut | tl.Denoiser]
) -> None:
    """To first order in a step of 1e-6, and never above the rate of the clock that proposes jumps."""
    step = 1e-6
    cell = cell_of(noise, coupling, 0.4, 0.4 + step)
    values = cell.leave_one_out if predicts is tl.LeaveOneOut else cell.denoiser
    rates = cell.process.reverse_rates(cell.noisy, predicts(values.log()))
    own = cell.noisy.tokens.unsqueeze(-1)
    expected = cell.reverse.scatter(-1, own, 0.0) / step
    torch.testing.assert_close(rates.off_diagonal(), expected, rtol=1e-4, atol=1e-4)
    assert bool((rates.elsewhere().sum(-1) <= rate_bound(cell.process, cell.noisy) * (1 + 1e-6)).all())  # float32 laws


@pytest.mark.parametrize(("noise", "coupling"), [case for case in CELLS if case[1] != "times"])
def test_the_clock_of_jumps_is_the_integral_of_their_largest_rate(noise: str, coupling: str) -> None:
    """P(nothing is renewed between s and t) = 1 - a - b = exp(-clock), whatever position and token."""
    cell = cell_of(noise, coupling, 0.3, 0.6)
    path = cell.process.path
    assert isinstance(path, tl.couplings.base.Clocked)
    pace = path.pace(cell.process, cell.noisy)
    for waiting in (0.01, 1.3):
        s = path.later(cell.process, cell.noisy.t, torch.full_like(cell.noisy.t, waiting))
        clean, fresh = path.shares(cell.process, cell.noisy, s)
        moving = pace > 0
        close((1 - clean - fresh)[moving], torch.exp(-waiting * pace)[moving], "the clock")
        assert bool((stay_bound(cell.process, cell.noisy, s)[~moving] == 1).all())


NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)


@cache
def weighted_states(noise: str, coupling: str) -> tuple[tl.Noisy, Tensor, Tensor]:
    """Every (x_0, z_t) at the nodes of an integral over t, with its weight times its probability.

    Gauss-Legendre in v with t = sin^2(pi u / 2), u = v^2 (3 - 2 v), which tames logarithms and roots at both ends.
    """
    states, clean, weights = [], [], []
    pairs = torch.cartesian_prod(torch.arange(K), torch.arange(K))
    for v, weight in zip((NODES + 1) / 2, WEIGHTS / 2, strict=True):
        u = v * v * (3 - 2 * v)
        t = float(np.sin(np.pi * u / 2) ** 2)
        cell = Cell(noise, coupling, t / 2, t)
        row, pair = (cell.states[2].flatten(1) > 0).nonzero(as_tuple=True)
        states.append(cell.noisy.sequences(row))
        clean.append(pairs[pair])
        density = weight * 6 * v * (1 - v) * np.pi / 2 * np.sin(np.pi * u)
        weights.append(density * cell.states[2].flatten(1)[row, pair])
    tokens, t_, alpha = (torch.cat([getattr(state, part) for state in states]) for part in ("tokens", "t", "alpha_t"))
    aux = None if states[0].aux is None else torch.cat([state.aux for state in states if state.aux is not None])
    return tl.Noisy(tokens, t_, alpha, aux), torch.cat(clean), torch.cat(weights)


def bound_at_oracle(noise: str, coupling: str, predicts: type[Posterior]) -> float:
    """The integral of the bound at the exact posterior."""
    process, (noisy, x_0, weights) = process_of(noise, coupling), weighted_states(noise, coupling)
    prediction = tl.Oracle(P0, process, predicts=predicts).predict(noisy)
    losses = continuous_bound(process, predicts).per_token(prediction, x_0, noisy, process)
    return float((weights * losses.sum(-1)).sum())


@pytest.mark.parametrize(("noise", "coupling"), CELLS)
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
def test_the_bound_at_the_exact_posterior_is_the_entropy_where_the_chain_is_markov(
    noise: str, coupling: str, predicts: type[Posterior]
) -> None:
    """The maximal coupling pays more, unless w is 0 or 1 at every clean token: then it is Markov too."""
    found, process = bound_at_oracle(noise, coupling, predicts), process_of(noise, coupling)
    if process.tight:
        assert found == pytest.approx(ENTROPY, abs=1e-6)
    else:
        assert coupling == "maximal"
        assert found > ENTROPY + 0.01


@pytest.mark.parametrize("noise", [noise for noise in NOISES if noise != "hybrid"])
def test_redrawing_what_is_shown_follows_its_posterior(noise: str) -> None:
    """p(shown | x_0, x_s) at one time, from the definition of the path law: the redrawn U, and whether tau <= s."""
    for s in sorted({time for step in TIMES for time in step}):
        alpha, mass = level_and_masses(noise, s)
        states = mass.shape[1]
        every = torch.cartesian_prod(torch.arange(K), torch.arange(states))
        x_0, x_s = (column.unsqueeze(1).repeat(1, L) for column in every.unbind(-1))
        for place in range(L):
            both = mass[place, x_s[:, place]] + alpha * (x_s[:, place] == x_0[:, place]).double()
            possible = both > 0
            process = process_of(noise, "absorbing")
            time = torch.full((len(x_0),), s, dtype=torch.float64)
            state = tl.Noisy(x_s, time, process.alpha(time))
            lost = probability_lost(process, x_0, state)[possible, place]
            close(lost, (mass[place, x_s[:, place]] / both)[possible], "P(lost | x_0, x_s), `eq:mudm-tau-cond-x0-xs`")
            w = level_and_masses(noise, 1.0)[1][place]
            absorbed = torch.nn.functional.one_hot(x_s[:, place], states).double()
            joint = w * (alpha * (x_s == x_0)[:, place, None].double() + (1 - alpha) * absorbed)
            coupling = process.coupling
            assert isinstance(coupling, tl.couplings.Absorbing)
            law = coupling.resampling_law(process, x_0, state).dense()[:, place]
            close(
                law[possible], (joint / joint.sum(-1, keepdim=True))[possible], "p(U | x_0, x_s), `eq:noise_cond_x0_xs`"
            )


@pytest.mark.parametrize("noise", list(NOISES))
def test_a_resampled_step_is_a_step_of_the_markov_chain_with_what_is_shown(noise: str) -> None:
    """x_0 ~ p(. | x_t, lost_t), x_s by the *Markov* bridge, lost_s ~ p(. | x_0, x_s): for one position, whose posterior
    is the joint one, the sum over lost_t is p(x_s, lost_s, x_t) of the Markov chain, so trajectories have its law.
    """
    p0 = P0.sum(1)
    part = tl.noise.Table(K, TABLES[noise][:1]) if noise in TABLES else NOISES[noise]
    times, chain = (tl.Process(part, COUPLINGS[name], EXACT) for name in ("times", "markov"))
    for s, t in TIMES:
        (alpha_s, m_s), (alpha_t, m_t) = level_and_masses(noise, s), level_and_masses(noise, t)
        eye = torch.eye(m_t.shape[1], dtype=torch.float64)
        q_s = m_s[0] + alpha_s * eye[:K]
        kept = alpha_t / alpha_s
        up = kept * eye + m_t[0] - kept * m_s[0]
        expected = torch.einsum("i,ia,ab->ab", p0, (m_s[0] / q_s).nan_to_num(0.0) * q_s, up)  # x_s is noise
        total, flagged = torch.zeros_like(up), torch.zeros_like(up)
        for lost in (True, False):
            shown = m_t[0].expand(K, -1) if lost else alpha_t * eye[:K]  # q(x_t, lost | x_0)
            possible = (p0 @ shown) > 0
            tokens = possible.nonzero()
            time = torch.full((len(tokens),), t, dtype=torch.float64)
            aux = torch.full_like(tokens, t if lost else 1, dtype=torch.float64)
            noisy = tl.Noisy(tokens, time, times.alpha(time), aux)
            mu = tl.Oracle(p0, times, predicts=tl.Denoiser).predict(noisy).log_probs.exp()[:, 0]
            for k in range(K):
                x_0 = torch.full_like(tokens, k)
                law = chain.bridge(noisy, torch.full_like(time, s), x_0).dense()[:, 0]
                states = torch.arange(len(eye)).unsqueeze(1)
                early = torch.full((len(eye),), s, dtype=torch.float64)
                x_s = tl.Noisy(states, early, chain.alpha(early))
                redrawn = probability_lost(times, torch.full_like(states, k), x_s)[:, 0].nan_to_num(0.0)
                weight = (p0 @ shown)[possible].unsqueeze(-1) * mu[:, k : k + 1] * law
                total[:, possible] += weight.T
                flagged[:, possible] += (weight * redrawn).T
        close(total, (p0 @ q_s)[:, None] * up, "p(x_s, x_t) of the Markov chain")
        close(flagged, expected, "p(x_s, lost_s, x_t) of the Markov chain")


@pytest.mark.parametrize("coupling", ["maximal", "absorbing"])
def test_couplings_of_one_path_do_not_exist_for_noise_that_falls(coupling: str) -> None:
    with pytest.raises(ValueError, match=r"the .* coupling needs noise that only grows.*use the Markov coupling"):
        tl.Process(NOISES["hybrid"], COUPLINGS[coupling])
