"""Bounds on a chain are measured against an exact model that sees the same states."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

import tokenloom as tl
from evidence.measures import exact
from evidence.measures.exact import exact_model, floor, floor_groups, nats_per_token
from tokenloom.data.markov import MarkovSource
from tokenloom.models.protocol import Model
from tokenloom.oracles import MarkovOracle
from tokenloom.posteriors import Posterior
from tokenloom.process import Process
from tokenloom.schedules import LinearSchedule
from tokenloom.training.methods import method_of
from tokenloom.types import Tokens

SOURCE = MarkovSource(vocab_size=5, length=8)
CASES = [("udm", tl.LeaveOneOut), ("udm", tl.Denoiser), ("max-coupling", tl.LeaveOneOut), ("audm", tl.Denoiser),
         ("audm", tl.LeaveOneOut), ("mdm", tl.Denoiser)]  # fmt: skip
ROWS, SAMPLES = 400, 4


def process(method: str) -> Process:
    return method_of(method, SOURCE.vocab_size, LinearSchedule()).process


def model(method: str, predicts: type[Posterior], blur: float = 0.0) -> Model:
    """Exact posteriors of the chain, or of one whose transitions are blurred."""
    chain = SOURCE.oracle()
    transition = (1 - blur) * chain.transition + blur / SOURCE.vocab_size
    return MarkovOracle(chain.initial, transition, chain.length, process(method), predicts=predicts)


def rows(count: int = ROWS) -> Tokens:
    return SOURCE.oracle().sample(count, torch.Generator().manual_seed(5))


def excess(model: Model) -> torch.Tensor:
    own = nats_per_token(model, rows(), SAMPLES, 0)
    return exact.excess(own, model, SOURCE, rows(), SAMPLES, 0)


def error(values: torch.Tensor) -> float:
    return float(values.std() / len(values) ** 0.5)


@dataclass
class Watched:
    """A network that remembers the tokens it was shown."""

    seen: list[Tokens] = field(default_factory=list)

    def __call__(self, tokens: Tokens, time: torch.Tensor) -> torch.Tensor:
        self.seen.append(tokens.clone())
        return torch.zeros(*tokens.shape, SOURCE.vocab_size)


class WatchedOracle(MarkovOracle[tl.LeaveOneOut]):
    """Exact posteriors that remember the tokens they were asked about."""

    seen: list[Tokens]

    def logits(self, noisy: tl.Noisy) -> torch.Tensor:
        self.seen.append(noisy.tokens.clone())
        return self.body(noisy)


@pytest.mark.parametrize("method", ["udm", "max-coupling"])
def test_a_network_and_the_exact_model_see_the_same_states(method: str) -> None:
    network, chain, x_0 = Watched(), SOURCE.oracle(), rows(30)
    oracle = WatchedOracle(chain.initial, chain.transition, chain.length, process(method), predicts=tl.LeaveOneOut)
    watched = tl.DiffusionModel(network, process(method), predicts=tl.LeaveOneOut)
    network.seen, oracle.seen = [], []
    nats_per_token(watched, x_0, SAMPLES, 0)
    nats_per_token(oracle, x_0, SAMPLES, 0)
    assert len(oracle.seen) > 1
    for ours, theirs in zip(network.seen, oracle.seen, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(("method", "predicts"), CASES)
def test_an_exact_model_has_no_excess_and_no_error(method: str, predicts: type[Posterior]) -> None:
    assert torch.equal(excess(model(method, predicts)), torch.zeros(ROWS).double())


@pytest.mark.parametrize(("method", "predicts"), CASES)
def test_the_error_of_an_excess_is_a_fifth_of_a_bounds_or_less(method: str, predicts: type[Posterior]) -> None:
    near = model(method, predicts, blur=0.02)
    found, plain = excess(near), nats_per_token(near, rows(), SAMPLES, 0)
    assert 5 * error(found) < error(plain)


@pytest.mark.parametrize(("method", "predicts"), CASES)
def test_the_floor_of_an_exact_model_is_the_looseness_of_the_bound(method: str, predicts: type[Posterior]) -> None:
    """Five standard errors, a false-alarm rate of 1e-6."""
    found = floor(model(method, predicts), SOURCE, 2000, SAMPLES, 9)
    if method == "max-coupling":
        assert float(found.mean()) > 0.05
    else:
        assert abs(float(found.mean())) < 5 * error(found)


def test_excess_and_floor_are_the_bound_above_the_entropy() -> None:
    near = model("udm", tl.LeaveOneOut, blur=0.2)
    fresh = rows(2000)
    plain = nats_per_token(near, fresh, SAMPLES, 3) + SOURCE.oracle().log_likelihood(fresh) / SOURCE.length
    parts = [excess(near), floor(near, SOURCE, 2000, SAMPLES, 9)]
    spread = sum(error(values) ** 2 for values in (plain, *parts)) ** 0.5
    assert abs(float(plain.mean() - parts[0].mean() - parts[1].mean())) < 5 * spread


def test_a_causal_network_is_measured_against_the_likelihood() -> None:
    uniform = tl.DiffusionModel(Watched(), process("ar"))
    found = excess(uniform)
    expected = torch.tensor(5.0).log().double() + SOURCE.oracle().log_likelihood(rows()) / SOURCE.length
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert not floor(uniform, SOURCE, 10, SAMPLES, 9).any()


def test_a_floor_is_measured_once(tmp_path: Path) -> None:
    network = model("mdm", tl.Denoiser)
    first = floor_groups(network, SOURCE, 200, SAMPLES, 9, tmp_path)
    (path,) = tmp_path.iterdir()
    written = path.stat().st_mtime_ns
    assert torch.equal(floor_groups(network, SOURCE, 200, SAMPLES, 9, tmp_path), first)
    assert path.stat().st_mtime_ns == written
    assert len(floor_groups(network, SOURCE, 300, SAMPLES, 9, tmp_path)) == 100
    assert path.stat().st_mtime_ns > written
    assert exact_model(SOURCE, network).predicts is tl.Denoiser
