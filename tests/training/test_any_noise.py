"""`--method any`: one network, one bound for each process, and the same weights used under each of them."""

import math
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tests import brute
from tests.cli.helpers import Shell
from tests.exact_network import ExactNetwork
from tests.laws.helpers import EXACT
from tests.training.helpers import TINY, losses, records, tiny, train, weights
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.objectives import CrossEntropy
from tokenloom.objectives.head_loss import loss_at
from tokenloom.training.batches import validate
from tokenloom.training.build import build_model, resolve
from tokenloom.training.config import TrainConfig
from tokenloom.training.methods import method_of
from tokenloom.training.reporting import Reporter

NAMES = ["uniform", "masked", "absorbing", "hybrid"]


def anything(out: Path, method: str = "any", **changes: object) -> TrainConfig:
    return tiny(out, method=method, predicts=None, objective=None, **changes)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six steps with a checkpoint after three."""
    folder = tmp_path_factory.mktemp("runs") / "any"
    train(anything(folder, max_steps=6, run={"checkpoint_every": 3}), reporter=Reporter())
    return folder


def test_a_run_reports_one_bound_for_each_process_and_is_saved_with_the_first(trained: Path) -> None:
    last, model = records(trained)[-1], tl.load(trained)
    assert model.process == tl.Uniform(5, schedule=model.schedule)
    assert model.reads_evidence
    validation = model.about.validation or {}
    figures = validation["processes"]
    assert list(figures) == NAMES
    for name in NAMES:
        assert math.isfinite(figures[name]["per_token"])
        assert last[f"valid_nats_{name}"] == figures[name]["per_token"]
        assert last[f"valid_standard_error_{name}"] == figures[name]["per_token_error"]
    assert len({figure["per_token"] for figure in figures.values()}) == len(NAMES)
    assert last["valid_nats"] == validation["per_token"] == figures["uniform"]["per_token"]


def test_the_saved_network_has_under_each_process_the_bound_that_the_run_reported(trained: Path) -> None:
    config = anything(trained)
    data, model = config.data.load(), tl.load(trained)
    reported = (model.about.validation or {})["processes"]
    for part in method_of("any", 5, model.schedule).processes:
        found = validate(model.with_process(part), data, config.run.valid_rows, config.run.seed)
        assert found.per_token == pytest.approx(reported[part.name]["per_token"], rel=1e-6)


def test_a_resumed_run_is_the_uninterrupted_one(trained: Path, tmp_path: Path) -> None:
    train(anything(tmp_path / "run", max_steps=3), reporter=Reporter())
    train(anything(tmp_path / "run", max_steps=6), resume=True, reporter=Reporter())
    assert losses(tmp_path / "run") == losses(trained)
    assert weights(tmp_path / "run", 6) == weights(trained, 6)


def test_fewer_noises_make_fewer_bounds_and_another_one_a_warning(tmp_path: Path) -> None:
    result = train(anything(tmp_path / "run", "any:noises=masked+hybrid", max_steps=2))
    assert list(result.figures) == ["masked", "hybrid"]
    model = tl.load(tmp_path / "run")
    assert model.process.name == "masked"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of these it has seen the like
        for process in (tl.Masked(5), tl.MaskedUniform(5), tl.Hybrid(5, schedule=model.process.schedule)):
            model.with_process(process)
    with pytest.warns(UserWarning, match="trained with masked, hybrid; under AbsorbingUniform .* untested"):
        model.with_process(tl.AbsorbingUniform(5))
    with pytest.warns(UserWarning, match="trained with evidence up to .*, and this reaches"):
        model.with_process(tl.Hybrid(5, p_uniform=0.001))


@pytest.mark.parametrize(("method", "names"), [("any", NAMES), ("any:noises=absorbing", ["absorbing"])])
def test_train_prints_one_bound_for_each_process(method: str, names: list[str], tmp_path: Path, shell: Shell) -> None:
    steps = ["--max-steps", "1", "--run.valid-rows", "8"]
    printed = shell("train", *TINY, *steps, "--method", method, "--out", str(tmp_path / "run"))
    titles = [f"bound, {name}" for name in names] if len(names) > 1 else ["validation bound"]
    assert all(title in printed.out for title in titles)
    assert all(f"{name} " in printed.err for name in names if len(names) > 1)
    model = tl.load(tmp_path / "run")
    assert model.process.name == names[0]
    assert model.reads_evidence


def test_only_a_leave_one_out_network_that_reads_the_evidence_is_trained(tmp_path: Path) -> None:
    train(tiny(tmp_path / "plain", max_steps=1))
    config = anything(tmp_path / "run")
    with pytest.raises(ValueError, match=r"any needs a network that reads the evidence, .* got .*plain$"):
        resolve(replace(config, begin=str(tmp_path / "plain")))
    with pytest.raises(ValueError, match="reads the evidence predicts LeaveOneOut"):
        build_model(replace(config, predicts="denoiser"), config.data.load())


# ---------------------------------------------------------------- what the loss asks for

P0 = brute.random_p0(3, 2)


def test_with_the_exact_posterior_the_bound_of_every_process_is_the_entropy() -> None:
    """Within 5 standard errors, which a right one exceeds in 6 of 10 million; the same figure for every process."""
    oracle = tl.Oracle(P0, tl.Uniform(3, schedule=EXACT))
    x_0 = oracle.sample(400, torch.Generator().manual_seed(1))
    exact = -float(oracle.log_likelihood(x_0).mean())
    for process in method_of("any", 3, EXACT).processes:
        model = tl.DiffusionModel(ExactNetwork(P0), process)
        found = tl.nelbo(model, x_0, samples=8, generator=torch.Generator().manual_seed(2), batch=3200)
        assert 0 < found.standard_error < 0.15
        assert abs(found.nats - oracle.entropy()) < 5 * found.standard_error
        assert abs(found.nats - exact) < 5 * found.standard_error


@pytest.mark.parametrize("seed", [0, 1])
def test_cross_entropy_over_any_noise_is_least_at_the_exact_posterior(seed: int) -> None:
    """Against logits that are off by normal numbers of size 1.5, on the same 3,000 states: the difference is positive
    by more than 5 of its standard errors."""
    method = method_of("any", 3, EXACT)
    x_0 = tl.Oracle(P0, tl.Uniform(3)).sample(3_000, torch.Generator().manual_seed(3))
    t = torch.linspace(0.001, 1, len(x_0), dtype=torch.float64)
    off = 1.5 * torch.randn(2, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    noisy = method.corrupted(x_0, t, RowGenerators.spawn(4, len(x_0)), None)
    assert noisy.evidence is not None
    exact, moved = (
        loss_at(tl.DiffusionModel(ExactNetwork(P0, by), method.process), CrossEntropy(), x_0, noisy).per_token.sum(-1)
        for by in (0.0, off)
    )
    difference = moved - exact
    assert difference.mean() > 5 * difference.std() / len(x_0) ** 0.5


# ---------------------------------------------------------------- the commands


def test_a_command_samples_and_evaluates_one_run_under_several_processes(trained: Path, shell: Shell) -> None:
    for process, sampler in (("masked", "mudm"), ("absorbing", "reaudm"), ("hybrid:p_uniform=0.2", "ancestral")):
        options = ["--num", "2", "--steps", "2", "--process", process, "--sampler", sampler]
        assert torch.tensor(shell.json("sample", str(trained), *options)["tokens"]).shape == (2, 8)
    shown = shell("evaluate", str(trained), "--process", *NAMES, "--sequences", "16", "--samples", "1").out
    assert all(f"@{name}" in shown for name in NAMES)


def test_the_weight_of_the_cross_entropy_is_a_power_of_the_lost_share() -> None:
    generator, process = torch.Generator().manual_seed(0), tl.Uniform(5)
    x_0 = torch.randint(5, (4, 6), generator=generator)
    noisy = process.corrupt(x_0, torch.rand(4, generator=generator), generator)
    prediction = tl.LeaveOneOut(torch.randn(4, 6, 5, generator=generator))
    plain, half, whole = (CrossEntropy(weight).per_token(prediction, x_0, noisy, process) for weight in (0.0, 0.5, 1.0))
    lost = 1 - noisy.alpha_t[:, None]
    torch.testing.assert_close(half, plain / lost.sqrt())
    torch.testing.assert_close(whole, plain / lost)
    assert (plain > 0).all()
    with pytest.raises(ValueError, match=r"weight must be in \[0, 1\], got 2"):
        CrossEntropy(2.0)
