"""What a step or a validation draws depends on the seed and the step alone, and is spread evenly."""

import torch

import tokenloom as tl
from tokenloom.data.markov import MarkovSource
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.training.batches import rows_of, training_batch, validate

SMALL = MarkovSource(vocab_size=5, length=8, rows=100)


def test_an_epoch_visits_every_row_once_in_an_order_of_its_own() -> None:
    steps = [rows_of(10, 4, step, seed=3) for step in range(5)]
    drawn = torch.cat(steps)
    assert sorted(drawn[:10].tolist()) == sorted(drawn[10:].tolist()) == list(range(10))
    assert drawn[:10].tolist() != drawn[10:].tolist()
    assert torch.equal(rows_of(10, 4, 2, seed=3), steps[2])
    assert not torch.equal(rows_of(10, 4, 2, seed=4), steps[2])


def test_times_are_antithetic_over_the_batch_and_a_power_moves_them_as_its_law_says() -> None:
    """t = floor + (1 - floor) u^power with u evenly spread."""
    moved, plain = (training_batch(SMALL.load(), 64, 7, 1, 0.1, power) for power in (0.5, 1.0))
    assert plain.t.min() >= 0.1
    assert plain.t.max() <= 1
    gaps = plain.t.sort().values.diff()
    torch.testing.assert_close(gaps, torch.full_like(gaps, 0.9 / 64))
    torch.testing.assert_close(((moved.t - 0.1) / 0.9).square(), (plain.t - 0.1) / 0.9)
    assert torch.equal(moved.x_0, plain.x_0)


def test_a_batch_depends_on_the_seed_and_the_step_alone() -> None:
    data = SMALL.load()
    first, again, later, other = (
        training_batch(data, 8, step, seed, 1e-3) for step, seed in ((7, 1), (7, 1), (8, 1), (7, 2))
    )
    assert torch.equal(first.x_0, again.x_0)
    assert torch.equal(first.t, again.t)
    assert first.seeds == again.seeds
    assert len(set(first.seeds)) == 8
    for changed in (later, other):
        assert not torch.equal(first.x_0, changed.x_0)
        assert not torch.equal(first.t, changed.t)
        assert not set(first.seeds) & set(changed.seeds)


def test_the_noise_of_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    """So two processes, each with its rows of the batch, see what one process would have seen."""
    process = tl.AbsorbingUniform(5)
    batch = training_batch(SMALL.load(), 8, 3, 1, 1e-3)
    whole = process.corrupt(batch.x_0, batch.t, RowGenerators(batch.seeds))
    parts = [batch.part(slice(0, 3)), batch.part(slice(3, 8))]
    alone = [process.corrupt(part.x_0, part.t, RowGenerators(part.seeds)) for part in parts]
    assert torch.equal(torch.cat([part.tokens for part in alone]), whole.tokens)
    assert whole.aux is not None
    assert torch.equal(torch.cat([part.aux for part in alone if part.aux is not None]), whole.aux)
    assert (whole.tokens != batch.x_0).any()
    torch.testing.assert_close(sum(part.weights.sum() for part in parts), torch.tensor(1.0, dtype=torch.float64))


def test_the_validation_figure_of_an_oracle_is_the_entropy() -> None:
    """Within 5 of its own standard errors (false-alarm rate 6e-7); the prior term is the rest of the bound."""
    source = MarkovSource(vocab_size=5, length=8, rows=10, valid_rows=4000)
    data, oracle = source.load(), source.oracle()
    figure = validate(oracle, data, 4000, 2)
    assert data.entropy is not None
    assert abs(figure.per_token - data.entropy) < 5 * figure.per_token_error
    assert figure.per_token_error < 0.02
