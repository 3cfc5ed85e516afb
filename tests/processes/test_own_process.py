"""One file adds a process: the one below, unknown to the package, is trained, sampled, scored, saved and loaded."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tests import brute
from tokenloom.cli import main
from tokenloom.processes.base import PROCESSES, Process
from tokenloom.processes.noise import Noise, TableNoise
from tokenloom.samplers import CORRECTORS, PREDICTORS
from tokenloom.state import Noisy

K, L = 4, 3
P0 = brute.random_p0(K, L)


@dataclass(frozen=True)
class Zipf(Process):
    """A lost token becomes token k with probability proportional to (k + 1)^-exponent: frequent tokens are noise."""

    exponent: float = 1.0

    method = "zipf"

    def noise(self, noisy: Noisy) -> Noise:
        weights = torch.arange(1, self.vocab_size + 1, device=noisy.tokens.device, dtype=noisy.alpha_t.dtype)
        weights = weights**-self.exponent
        return TableNoise((weights / weights.sum()).expand(1, noisy.tokens.shape[1], -1))


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with PROCESSES.scratch():
        PROCESSES.register("zipf")(Zipf)
        yield


def test_its_bound_at_the_exact_posterior_is_the_entropy() -> None:
    """Within five standard errors, a false alarm of 6e-7 at a fixed seed."""
    oracle = tl.Oracle(P0, Zipf(K))
    generator = torch.Generator().manual_seed(0)
    found = tl.nelbo(oracle, oracle.sample(800, generator), generator=generator)
    assert abs(found.nats - oracle.entropy()) < 5 * found.standard_error + 0.01


@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser, tl.Score])
def test_every_kernel_whose_needs_it_meets_samples_it(predicts: type[tl.LeaveOneOut]) -> None:
    oracle, met = tl.Oracle(P0, Zipf(K), predicts=predicts), []
    for name in [*PREDICTORS, *CORRECTORS]:
        kernel = (PREDICTORS if name in PREDICTORS else CORRECTORS)[name]
        if not kernel.supports(oracle.process):
            continue
        sampler, corrector = (name, None) if name in PREDICTORS else ("ancestral", name)
        generator = torch.Generator().manual_seed(0)
        tokens = tl.sample(oracle, 4, steps=3, sampler=sampler, corrector=corrector, generator=generator)
        assert tokens.shape == (4, L)
        assert bool(((tokens >= 0) & (tokens < K)).all())
        met.append(name)
    assert {"ancestral", "euler", "gillespie", "planned", "psi", "tau-leaping", "greedy-tail"} <= set(met)
    assert {"informed", "random-scan", "scan", "forward-backward"} <= set(met)
    assert not {"confidence", "remasking", "reaudm", "mudm", "dndm", "routing", "autoregressive"} & set(met)


def test_it_is_trained_sampled_and_evaluated_by_command_and_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    size = ("--network.width", "16", "--network.depth", "1", "--network.heads", "2", "--optimiser.batch", "16")
    data = ("--data.vocab-size", "5", "--data.length", "6", "--data.rows", "200", "--data.valid-rows", "40")
    main(["train", "--method", "zipf:exponent=0.5", "--max-steps", "3", "--out", str(folder), *size, *data])
    main(["sample", str(folder), "--num", "2", "--steps", "4", "--sampler", "psi", "--corrector", "random-scan"])
    capsys.readouterr()
    main(["evaluate", str(folder), "--rows", "16"])
    assert "run (ema, step 3)" in capsys.readouterr().out
    model = tl.load(folder)
    assert model.process == Zipf(5, 0.5)
    model.save(tmp_path / "again")
    again = tl.load(tmp_path / "again")
    x_0 = torch.randint(0, 5, (8, 6), generator=torch.Generator().manual_seed(0))
    first, second = (tl.nelbo(either, x_0, generator=torch.Generator().manual_seed(1)) for either in (model, again))
    assert math.isfinite(first.nats)
    assert torch.equal(first.per_sequence, second.per_sequence)
