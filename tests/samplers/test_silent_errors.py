"""What would draw from a wrong law, or answer about the wrong thing, without a word.

Draws have fixed seeds; the false-alarm rate of a comparison of frequencies is below 1e-6 (4.9 standard deviations).
"""

import pytest
import torch
from torch import Tensor, nn

import tokenloom as tl
from tests.laws.helpers import EXACT
from tests.samplers.helpers import P0, SEQUENCES, K, oracle, states
from tests.samplers.test_conformance import generator
from tokenloom.samplers import Evaluator

ROWS = 4_000
FAR = 4.9


# ------------------------------------------------------------------------------------------------ clocks of Gillespie


@pytest.mark.parametrize("schedule", [EXACT, tl.LinearSchedule(), tl.CosineSchedule()])
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
def test_gillespie_draws_p_0_where_one_token_is_never_noise(
    schedule: tl.Schedule, predicts: type[tl.LeaveOneOut | tl.Denoiser]
) -> None:
    """All noise is token 1: a clock that ran faster than its rates would make token 0 almost certain."""
    process = tl.Interpolating(2, torch.tensor([[0.0, 1.0]]), schedule=schedule)
    model = tl.Oracle(torch.tensor([0.7, 0.3]).double(), process, predicts=predicts)
    drawn = tl.sample(model, ROWS, steps=4, sampler="gillespie", generator=generator())
    spread = (0.7 * 0.3 / ROWS) ** 0.5
    assert float((drawn == 0).double().mean()) == pytest.approx(0.7, abs=FAR * spread)


def test_gillespie_draws_p_0_where_some_positions_have_point_masses_and_others_do_not() -> None:
    """One clock for the positions of a row must not run any of them faster than its own rate."""
    pi = torch.tensor([[0.0, 1.0], [0.5, 0.5]]).double()
    p0 = torch.tensor([[0.6, 0.1], [0.1, 0.2]]).double()
    model = tl.Oracle(p0, tl.Interpolating(2, pi, schedule=EXACT))
    drawn = tl.sample(model, ROWS, steps=4, sampler="gillespie", generator=generator())
    for position, marginal in enumerate((p0.sum(1), p0.sum(0))):
        share = float(marginal[0])
        spread = (share * (1 - share) / ROWS) ** 0.5
        assert float((drawn[:, position] == 0).double().mean()) == pytest.approx(share, abs=FAR * spread)
    equal = float((drawn[:, 0] == drawn[:, 1]).double().mean())
    assert equal == pytest.approx(0.8, abs=FAR * (0.16 / ROWS) ** 0.5)


# --------------------------------------------------------------------------------------------- answers about positions


def test_what_is_taken_among_predictions_is_never_about_other_positions() -> None:
    noisy = states(SEQUENCES, 0.4)
    prediction = Evaluator(oracle(tl.Uniform), None, len(SEQUENCES))(noisy)
    flags = torch.rand(3, *SEQUENCES.shape, generator=generator()) < 0.5
    every, asked, other = torch.ones_like(flags[0]), flags[0], flags[1]
    local = prediction.at(asked, tl.Denoiser)
    for chosen in (every, other, ~asked, torch.zeros_like(every)):
        among, directly = local.among(chosen), prediction.at(asked & chosen, tl.Denoiser)
        assert torch.equal(among.where.row, directly.where.row)
        assert torch.equal(among.where.column, directly.where.column)
        torch.testing.assert_close(among.posterior.logits, directly.posterior.logits, check_dtype=False)
        assert torch.equal(among.noisy.tokens, noisy.tokens[asked & chosen].unsqueeze(1))
        drawn = among.draw(noisy.tokens, torch.rand(noisy.tokens.shape, generator=generator(1)).double())
        assert torch.equal(drawn[~(asked & chosen)], noisy.tokens[~(asked & chosen)])


# ------------------------------------------------------------------------------------------------ checks inside a run


@pytest.mark.usefixtures("as_a_user")
def test_types_and_values_are_checked_inside_a_callback_too() -> None:
    """A process, a conversion and a draw look at what they are given, wherever they are called from."""
    model = oracle(tl.Uniform)
    for step in tl.Sampler(steps=2).steps(model, 2):
        with pytest.raises(ValueError, match=r"token ids in 0\.\.2, got 3"):
            model.process.corrupt(torch.full((2, 2), K), torch.ones(2).double())
        with pytest.raises(ValueError, match="logits"):
            tl.draw(torch.full((1, 3), torch.nan))
        with pytest.raises(ValueError, match="logits must be a float tensor"):
            tl.draw([[0.0, 1.0]])  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="x_t"):
            model.predict(tl.Noisy(step.tokens + K, step.after.t, step.after.alpha_t))


# ------------------------------------------------------------------------------------------------------ step by step


class Counted(nn.Module):
    """A network with dropout that counts how often it is asked."""

    length = 4

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.drop, self.out = nn.Embedding(K, 8), nn.Dropout(0.5), nn.Linear(8, K)
        self.calls = 0

    def forward(self, tokens: Tensor, time: Tensor) -> Tensor:
        self.calls += 1
        logits: Tensor = self.out(self.drop(self.embed(tokens)))
        return logits


def test_a_run_that_is_left_asks_the_network_no_more() -> None:
    network = Counted()
    model = tl.DiffusionModel(network, tl.Uniform(K))
    for step in tl.Sampler(steps=8).steps(model, 30, generator=generator()):
        if step.index == 3:
            break
    asked = network.calls
    assert 0 < asked <= 3
    assert step.time == pytest.approx(5 / 8)
    whole = tl.Sampler(steps=8).steps(model, 30, generator=generator())
    third = [next(whole) for _ in range(3)][-1]
    assert torch.equal(third.tokens, step.tokens)
    assert network.calls == 2 * asked
    assert torch.equal(whole.samples.tokens, third.tokens)


@pytest.mark.parametrize("training", [True, False])
def test_between_steps_the_model_is_in_the_mode_that_its_owner_chose(training: bool) -> None:
    """Whatever it is, and also after the owner has changed it; dropout is off in every step."""
    network = Counted().train(training)
    model = tl.DiffusionModel(network, tl.Uniform(K))
    modes = [module.training for module in model.modules()]
    run = tl.Sampler(steps=6).steps(model, 5, generator=generator())
    for step in run:
        assert [module.training for module in model.modules()] == modes
        if step.index == 3:
            model.train(not training)
            modes = [module.training for module in model.modules()]
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(run.samples.tokens, tl.sample(model, 5, steps=6, generator=generator()))


def test_a_step_that_is_kept_says_what_its_row_had_cost_by_then() -> None:
    run = tl.Sampler(steps=4).steps(oracle(tl.Uniform, p0=P0), 30, generator=generator())
    seen = [(step, step.evaluations.clone()) for step in run]
    assert all(torch.equal(step.evaluations, then) for step, then in seen)
    assert int(seen[0][1].sum()) < int(seen[-1][1].sum())
