"""What a step or a validation draws depends on the seed and the step alone, and is spread evenly."""

import torch
from torch import Tensor, nn

import tokenloom as tl
from tokenloom.data.markov import load_markov, markov_chain
from tokenloom.model import DiffusionModel
from tokenloom.objectives import CrossEntropy, UniformNELBO
from tokenloom.posteriors import LeaveOneOut
from tokenloom.training.batches import antithetic_times, rows_of, seeded, training_batch
from tokenloom.training.validation import validate


def test_an_epoch_visits_every_row_once_in_an_order_of_its_own() -> None:
    steps = [rows_of(10, 4, step, seed=3) for step in range(5)]
    drawn = torch.cat(steps)
    assert sorted(drawn[:10].tolist()) == sorted(drawn[10:].tolist()) == list(range(10))
    assert drawn[:10].tolist() != drawn[10:].tolist()
    assert torch.equal(rows_of(10, 4, 2, seed=3), steps[2])
    assert not torch.equal(rows_of(10, 4, 2, seed=4), steps[2])


def test_times_are_antithetic_over_the_batch_and_respect_the_floor() -> None:
    times = antithetic_times(64, seeded(1), floor=0.1)
    assert times.min() >= 0.1
    assert times.max() <= 1
    gaps = times.sort().values.diff()
    torch.testing.assert_close(gaps, torch.full_like(gaps, 0.9 / 64))


def test_a_batch_depends_on_the_seed_and_the_step_alone() -> None:
    data, process = load_markov(5, 8, 100), tl.AbsorbingUniform(5)
    first, again, other = (training_batch(data, process, CrossEntropy(), 8, step, 1, 1e-3) for step in (7, 7, 8))
    assert torch.equal(first.noisy.tokens, again.noisy.tokens)
    assert first.noisy.aux is not None
    assert again.noisy.aux is not None
    assert torch.equal(first.noisy.aux, again.noisy.aux)
    assert not torch.equal(first.x_0, other.x_0)


class OracleNetwork(nn.Module):
    """A Markov oracle behind the interface of a network."""

    def __init__(self, oracle: tl.MarkovOracle) -> None:
        super().__init__()
        self.oracle, self.unused = oracle, nn.Parameter(torch.zeros(1))

    def forward(self, tokens: Tensor, time: Tensor) -> Tensor:
        predicted = self.oracle.predict(tl.Noisy(tokens, time, self.oracle.process.alpha(time)))
        assert isinstance(predicted, LeaveOneOut)
        return predicted.logits


def test_the_validation_figure_of_an_oracle_is_the_entropy() -> None:
    """Within 5 of its own standard errors (false-alarm rate 6e-7); the prior term is the rest of the bound."""
    data = load_markov(5, 8, rows=10, valid_rows=4000)
    process = tl.Uniform(5)
    oracle = tl.MarkovOracle(*markov_chain(5, 0), 8, process)
    figure = validate(DiffusionModel(OracleNetwork(oracle), process), UniformNELBO(), data, 4000, 1)
    assert data.entropy is not None
    assert abs(figure.nats - data.entropy) < 5 * figure.standard_error
    assert figure.standard_error < 0.02
