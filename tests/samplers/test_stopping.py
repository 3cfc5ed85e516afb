"""Rows that stop at what the model finds most probable: they cost no more, and the others do not notice."""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.samplers.helpers import P0, Cell, K, generator, oracle, process_of
from tokenloom.samplers import STOPS, GreedyTail, Stable
from tokenloom.samplers.given import HeldPositions
from tokenloom.samplers.stopping import Stopping

BATCH = 6
SETTINGS = [
    (tl.Uniform, "ancestral"),
    (tl.Uniform, "ancestral + informed"),
    (tl.Uniform, "psi:kappa=0.9"),
    (tl.Masked, "ancestral"),
    (tl.Masked, "confidence"),
    (tl.Masked, "mudm"),
    (tl.AbsorbingUniform, "reaudm"),
    (tl.Uniform, "entropy-bound"),
    (tl.Uniform, "adaptive"),
]


def draw(kind: Cell, sampler: str, until: tl.samplers.Until | None) -> tl.samplers.Samples:
    given, seeds = (torch.tensor([1, 0]), torch.tensor([True, False])), tl.RowGenerators.spawn(0, BATCH)
    return tl.Sampler.parse(sampler, steps=8).run(oracle(kind), BATCH, given=given, generator=seeds, until=until)


@pytest.mark.filterwarnings("ignore:this model does not know which positions are given")
@pytest.mark.parametrize(("kind", "sampler"), SETTINGS)
def test_a_row_stops_where_it_is_told_and_the_others_are_drawn_as_before(kind: Cell, sampler: str) -> None:
    """Rows of odd number meet a condition that is never true."""
    stopped: dict[int, list[int]] = {}
    seen: list[int] = []

    def second_time(tokens: Tensor, rows: Tensor) -> Tensor:
        assert not stopped.keys() & set(rows.tolist())  # who has stopped is not asked again
        assert (tokens[:, 0] == 1).all()  # what is given is kept
        seen.extend(rows.tolist())
        done = torch.tensor([row % 2 == 0 and seen.count(row) == 2 for row in rows.tolist()], dtype=torch.bool)
        stopped.update(zip(rows[done].tolist(), tokens[done].tolist(), strict=True))
        return done

    plain, asked = draw(kind, sampler, None), draw(kind, sampler, second_time)
    for row in range(BATCH):
        if row in stopped:
            assert asked.tokens[row].tolist() == stopped[row]
            assert int(asked.evaluations[row]) == 2
        else:
            assert torch.equal(asked.tokens[row], plain.tokens[row])
            assert int(asked.evaluations[row]) == int(plain.evaluations[row])
    assert stopped or int(plain.evaluations.max()) < 2


def test_what_is_offered_is_the_most_probable_token_of_the_denoiser_at_each_position() -> None:
    """At t = 1 nothing is known: the marginals of the data decide."""
    samples = draw(tl.Masked, "ancestral", lambda tokens, rows: torch.ones(len(rows), dtype=torch.bool))
    assert samples.evaluations.tolist() == [1] * BATCH
    assert samples.tokens[:, 1].tolist() == [int(P0[1].argmax())] * BATCH


def test_the_network_sees_the_rows_that_are_left_and_the_run_ends_with_the_last() -> None:
    sizes: list[int] = []
    steps: list[tl.Step] = []

    def network(tokens: Tensor, time: Tensor) -> Tensor:
        sizes.append(len(tokens))
        return torch.zeros(*tokens.shape, K)

    model = tl.DiffusionModel(network, tl.Uniform(K), predicts=tl.LeaveOneOut)
    samples = tl.Sampler(steps=64).run(
        model, 4, length=30, on_step=steps.append, until=lambda tokens, rows: rows == rows.max()
    )
    assert sizes == [4, 3, 2, 1]
    assert samples.evaluations.tolist() == [4, 3, 2, 1]
    assert len(steps) == 4


# ------------------------------------------------------------------------------------------------- stable and confident

STEPS, L = 8, 3


def scripted(script: Tensor) -> tl.DiffusionModel:
    """A denoiser that says script[i], [L, K], at step i of an even grid, whatever it sees."""

    def network(tokens: Tensor, time: Tensor) -> Tensor:
        return script[((1 - time) * STEPS).round().long()].float()

    return tl.DiffusionModel(network, tl.Uniform(K), predicts=tl.Denoiser)


def scripts(count: int) -> Tensor:
    """Logits [count, STEPS, L, K] whose most probable sequence changes at some steps, sharper at some."""
    source = generator(5)
    best = torch.randint(0, 2, (count, STEPS, L), generator=source)
    best = torch.where(torch.rand(count, STEPS, 1, generator=source) < 0.6, best[:, :1], best)
    sharpness = 1 + 7 * torch.rand(count, STEPS, L, 1, generator=source)
    return sharpness * torch.nn.functional.one_hot(best, K)


def stop_at(script: Tensor, rule: Stable, temperature: float, free: list[int]) -> int:
    """The number of evaluations by the words of the rule, all of them where it never holds."""
    best = script.argmax(-1)[:, free].tolist()
    for index in range(STEPS):
        p = torch.softmax(script[index, free].double() / temperature, -1)
        mean = float(-(p * p.log()).sum(-1).mean())
        earlier = [best[index - back] if back <= index else None for back in range(1, rule.stability + 1)]
        if mean < rule.confidence and all(other == best[index] for other in earlier):
            return index + 1
    return STEPS


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("stability", [0, 1, 2])
def test_a_row_stops_where_it_is_stable_and_confident(stability: int, temperature: float) -> None:
    """Row by row, over the evaluations that each row has: not all rows have every one."""
    rule, said = Stable(stability, 0.15), scripts(40)
    blank = torch.zeros(40, L, dtype=torch.int64)
    held = HeldPositions(tl.Uniform(K))
    stopping = Stopping(rule, held, blank, lambda t: torch.full_like(t, temperature))
    cost, asked = torch.zeros(40, dtype=torch.int64), torch.arange(40) % 2 == 0
    for _ in range(2 * STEPS):  # even and odd rows take turns
        rows = (asked & ~stopping.done & (cost < STEPS)).nonzero().flatten()
        stopping.offer(rows, said[rows, cost[rows]], torch.full((len(rows),), 0.5, dtype=torch.float64))
        cost[rows] += 1
        asked = ~asked
    assert cost.tolist() == [stop_at(script, rule, temperature, [0, 1, 2]) for script in said]
    assert len(set(cost.tolist())) > 2  # early, later and never
    done = stopping.done.nonzero().flatten()
    assert torch.equal(stopping.result(blank)[done], said[done, cost[done] - 1].argmax(-1))


def test_given_positions_are_neither_compared_nor_counted() -> None:
    """The second position changes and is flat all the time; given, it is neither."""
    script = 9 * torch.nn.functional.one_hot(torch.zeros(STEPS, L, dtype=torch.int64), K)
    script[:, 1] = torch.eye(K, dtype=torch.int64)[torch.arange(STEPS) % K]
    run, model = tl.Sampler.parse("adaptive", steps=STEPS, show_given="noised").run, scripted(script)
    assert run(model, 2, length=L, until=Stable(1, 0.01)).evaluations.tolist() == [STEPS] * 2
    given = torch.tensor([0, 2, 0]), torch.tensor([False, True, False])
    found = run(model, 2, length=L, given=given, until=Stable(1, 0.01))
    assert found.evaluations.tolist() == [2, 2]
    assert found.tokens.tolist() == [[0, 2, 0]] * 2
    strict = Stable(1, 0.002)  # the two free positions have 0.0025 nats each
    assert run(model, 1, length=L, given=given, until=strict).evaluations.tolist() == [STEPS]


def test_the_entropy_is_that_of_the_draws_also_in_a_greedy_tail() -> None:
    """A temperature of 0.2 makes 3 nats between the best and the others 15."""
    script = 3 * torch.nn.functional.one_hot(torch.zeros(STEPS, L, dtype=torch.int64), K)
    cold = tl.samplers.EntropyBound(hot=0.2, cold=0.2)
    for predictor, cost in ((cold, 2), (GreedyTail(cold), 2), (tl.samplers.EntropyBound(hot=1.0, cold=1.0), STEPS)):
        sampler = tl.Sampler(predictor, steps=STEPS)
        assert int(sampler.run(scripted(script), 1, length=L, until=Stable()).evaluations[0]) == cost


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.filterwarnings("ignore:this model does not know which positions are given")
@pytest.mark.parametrize(("kind", "sampler"), SETTINGS)
def test_a_rule_stops_a_row_of_a_batch_where_it_would_stop_it_alone(kind: Cell, sampler: str) -> None:
    """Bit for bit; and a rule remembers nothing from one run to the next."""
    model, rule = tl.Oracle(brute.random_p0(K, 4), process_of(kind, length=4)), Stable(1, 0.45)
    run = tl.Sampler.parse(sampler, steps=9).run
    together = run(model, BATCH, generator=tl.RowGenerators(range(BATCH)), until=rule)
    for row in (0, BATCH - 1):
        alone = run(model, 1, generator=tl.RowGenerators([row]), until=rule)
        assert torch.equal(alone.tokens[0], together.tokens[row])
        assert int(alone.evaluations[0]) == int(together.evaluations[row])
    assert int(together.evaluations.min()) < 9
    assert run(model, 0, until=rule).tokens.shape == (0, 4)


def test_a_rule_is_known_by_name_and_its_options_are_checked() -> None:
    assert STOPS.parse("stable:confidence=0.1,stability=2") == Stable(2, 0.1)
    assert STOPS.parse("stable") == Stable(1, 0.005)
    with pytest.raises(ValueError, match="there is no stop rule 'stabel'; did you mean stable"):
        STOPS.parse("stabel")
    with pytest.raises(ValueError, match=r"stability must be at least 0, got -1"):
        Stable(-1)
    with pytest.raises(ValueError, match="until must be"):
        tl.Sampler().run(oracle(tl.Uniform), 1, until="stable")  # type: ignore[arg-type]
