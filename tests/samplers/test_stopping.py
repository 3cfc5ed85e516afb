"""Rows that stop at what the model finds most probable: they cost no more, and the others do not notice."""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.samplers.helpers import P0, Cell, K, oracle

BATCH = 6
SETTINGS = [
    (tl.Uniform, "ancestral"),
    (tl.Uniform, "ancestral + informed"),
    (tl.Uniform, "psi:kappa=0.9"),
    (tl.Masked, "ancestral"),
    (tl.Masked, "confidence"),
    (tl.Masked, "mudm"),
    (tl.AbsorbingUniform, "reaudm"),
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
