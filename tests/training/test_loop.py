"""The loop from inside: what it draws, skips, saves and reports."""

import json
import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tokenloom as tl
from tests.training.helpers import tiny
from tokenloom.data.digits import load_digits, quantise, read_idx
from tokenloom.data.markov import load_markov, markov_chain
from tokenloom.model import DiffusionModel
from tokenloom.objectives import CrossEntropy, UniformNELBO
from tokenloom.posteriors import LeaveOneOut
from tokenloom.store import load_model, save_model
from tokenloom.training import loop
from tokenloom.training.batches import antithetic_times, rows_of, seeded, training_batch
from tokenloom.training.build import build_bound, build_data, build_model, resolve
from tokenloom.training.checkpoint import (
    Checkpoint,
    checkpoints,
    damage,
    newest_intact,
    read_checkpoint,
    write_checkpoint,
)
from tokenloom.training.config import RECIPES, TrainConfig, differences, from_dict, recipe
from tokenloom.training.reporting import Reporter
from tokenloom.training.validation import validate

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(autouse=True)
def restore_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


METHODS = [
    ("udm", "loo", "ce", "dit"),
    ("udm", "loo", "nelbo", "dit"),
    ("udm", "denoiser", "ce", "dit"),
    ("udm", "denoiser", "hybrid", "dit"),
    ("udm", "score", "score-entropy", "dit"),
    ("udm", "loo", "crm", "hollow"),
    ("udm", "loo", "finite-step", "dit"),
    ("mdm", "denoiser", "nelbo", "dit"),
    ("max-coupling", "loo", "nelbo", "dit"),
    ("audm", "denoiser", "nelbo", "dit"),
    ("ar", None, None, "dit"),
]


@pytest.mark.parametrize(("method", "predicts", "objective", "kind"), METHODS)
def test_every_method_trains(
    method: str, predicts: str | None, objective: str | None, kind: str, tmp_path: Path
) -> None:
    base = tiny(tmp_path / "probe")
    network, optimiser = replace(base.network, kind=kind), replace(base.optimiser, lr=3e-3)  # type: ignore[arg-type]
    config = tiny(
        tmp_path / "run",
        method=method,
        predicts=predicts,
        objective=objective,
        network=network,
        optimiser=optimiser,
        max_steps=150,
    )
    untrained = validate(
        build_model(config, build_data(config.data)), build_bound(config), build_data(config.data), 64, 1
    )
    result = loop.train(config, False, Reporter(quiet=True))
    assert result.steps == 150
    assert result.figure.nats < untrained.nats - 0.05
    assert result.entropy is not None
    assert result.figure.nats > result.entropy - 5 * result.figure.standard_error
    loaded = load_model(tmp_path / "run" / "model")
    assert type(loaded.process) is type(build_model(config, build_data(config.data)).process)


def test_a_step_that_is_not_finite_is_skipped_and_five_in_a_row_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bad step changes nothing; a run of them ends with the last good checkpoint intact."""
    calls = 0
    real = CrossEntropy.per_token

    def poisoned(self: CrossEntropy, *arguments: object) -> Tensor:
        nonlocal calls
        calls += 1
        losses = real(self, *arguments)  # type: ignore[arg-type]
        return losses * float("nan") if calls == 5 or calls > 20 else losses

    monkeypatch.setattr(CrossEntropy, "per_token", poisoned)
    said: list[str] = []
    reporter = Reporter(quiet=True)
    monkeypatch.setattr(reporter, "say", said.append)
    base = tiny(tmp_path / "run")
    config = tiny(tmp_path / "run", max_steps=100, run=replace(base.run, checkpoint_every=10))
    with pytest.raises(ValueError, match="not finite 5 times in a row, last at step 24"):
        loop.train(config, False, reporter)
    assert [sentence.split(":")[0] for sentence in said] == [f"step {step}" for step in (4, 20, 21, 22, 23, 24)]
    newest = checkpoints(tmp_path / "run" / "checkpoints")[0]
    assert newest.name == "step_000000020"
    assert damage(newest) is None
    assert all(value.isfinite().all() for value in read_checkpoint(newest).tensors["model"].values())


def example(step: int) -> Checkpoint:
    return Checkpoint(step, {"model": {"weight": torch.full((50_000,), float(step))}}, {"best": 1.0})


def test_checkpoints_keep_the_newest_and_know_damage(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, example(step))
    assert [path.name for path in checkpoints(tmp_path)] == ["step_000000003", "step_000000002"]
    assert not list(tmp_path.glob(".writing*"))
    torch.testing.assert_close(read_checkpoint(tmp_path / "step_000000003").tensors, example(3).tensors)
    for break_it, sentence in (
        (lambda path: (path / "model.safetensors").write_bytes(b"x"), "model.safetensors does not match its checksum"),
        (lambda path: (path / "state.json").write_text("{}"), "state.json does not match its checksum"),
        (lambda path: (path / "model.safetensors").unlink(), "model.safetensors is missing or unreadable"),
        (lambda path: (path / "manifest.json").write_text("{"), "manifest.json is no JSON"),
    ):
        path = write_checkpoint(tmp_path, example(9))
        break_it(path)  # type: ignore[no-untyped-call]
        assert damage(path) == sentence
        with pytest.raises(ValueError, match="is damaged"):
            read_checkpoint(path)
        newest, said = newest_intact(tmp_path)
        assert newest is not None
        assert newest.name != path.name
        assert path.name in said[0]


def test_a_write_that_fails_leaves_the_earlier_checkpoint_intact(tmp_path: Path) -> None:
    """A limit of the operating system on file sizes stands in for a full disk: the write itself fails."""
    write_checkpoint(tmp_path, example(1))
    code = (
        "import resource, signal, sys; from pathlib import Path; from tests.training.test_loop import example;"
        "from tokenloom.training.checkpoint import write_checkpoint;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000));"
        "write_checkpoint(Path(sys.argv[1]), example(2))"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "ValueError: could not write the checkpoint of step 2" in result.stderr
    assert "earlier checkpoints are intact" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["step_000000001"]
    assert damage(tmp_path / "step_000000001") is None


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
    assert figure.standard_error < 0.05


@pytest.mark.parametrize("name", list(RECIPES))
def test_recipes_resolve_and_survive_json(name: str) -> None:
    for method in ("udm", "mdm", "audm", "max-coupling", "ar"):
        config = resolve(replace(recipe(name), method=method))
        again = from_dict(TrainConfig(), json.loads(json.dumps(asdict(config))))
        assert again == config
        assert differences(again, config) == []


def test_an_unknown_key_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"no key optimiser[.]l; did you mean lr"):
        from_dict(TrainConfig(), {"optimiser": {"l": 1.0}})
    with pytest.raises(ValueError, match="the config has no key methd; did you mean method"):
        from_dict(TrainConfig(), {"methd": "udm"})


@pytest.mark.parametrize("method", ["udm", "mdm", "audm", "ar"])
def test_a_saved_model_predicts_the_same(method: str, tmp_path: Path) -> None:
    config = tiny(tmp_path, method=method)
    model = build_model(config, build_data(config.data)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    save_model(model, tmp_path / "model", {"note": "test"})
    loaded = load_model(tmp_path / "model")
    noisy = model.process.corrupt(torch.randint(0, 5, (3, 8)), torch.rand(3), torch.Generator().manual_seed(1))
    first, second = model.predict(noisy), loaded.predict(noisy)
    assert type(first) is type(second)
    assert torch.equal(first.logits, second.logits)  # type: ignore[attr-defined]
    assert loaded.process == model.process
    model.save(tmp_path / "model")
    assert torch.equal(first.logits, tl.load(tmp_path / "model").predict(noisy).logits)  # type: ignore[attr-defined]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    with pytest.raises(ValueError, match=r"holds no model: config\.json is missing"):
        load_model(tmp_path / "nothing")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ValueError, match="cannot be read"):
        load_model(tmp_path / "model")


def test_a_grid_network_is_saved_with_its_relations(tmp_path: Path) -> None:
    config = resolve(replace(recipe("sudoku4"), out=str(tmp_path)))
    model = build_model(config, build_data(config.data)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    save_model(model, tmp_path / "model")
    noisy = model.process.corrupt(torch.randint(0, 4, (2, 16)), torch.rand(2), torch.Generator().manual_seed(1))
    assert torch.equal(model.predict(noisy).logits, load_model(tmp_path / "model").predict(noisy).logits)  # type: ignore[attr-defined]


def test_a_text_run_carries_its_tokenizer_and_writes_tensorboard_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "text.txt").write_text("the loom weaves the warp and the weft\n" * 200)
    base = tiny(tmp_path / "run")
    data = replace(base.data, kind="text", path=str(tmp_path / "text.txt"), length=16)
    run = replace(base.run, tensorboard=True)
    loop.train(
        tiny(tmp_path / "run", data=data, run=run, method="mdm", predicts=None, objective=None), False, Reporter()
    )
    about = json.loads((tmp_path / "run" / "model" / "config.json").read_text())["about"]
    assert "adefhlmnoprstvw" in json.dumps(about["tokenizer"])
    assert list((tmp_path / "run").glob("events.out.tfevents*"))


def test_a_batch_that_cannot_be_divided_is_named(tmp_path: Path) -> None:
    base = tiny(tmp_path / "run")
    config = tiny(tmp_path / "run", optimiser=replace(base.optimiser, accumulate=3))
    with pytest.raises(ValueError, match=r"batch must be a multiple of processes x accumulate = 3, got 8"):
        loop.train(config, False, Reporter(quiet=True))


def test_digits_of_scikit_learn_and_idx_files(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    data = load_digits()
    assert (data.vocab_size, data.length) == (17, 64)
    assert int(data.train.max()) == 16
    assert data.decode(data.valid[:1].long())[0].count("\n") == 7
    images = torch.arange(8, dtype=torch.uint8).view(2, 4) * 30
    header = b"".join(number.to_bytes(4, "big") for number in (2051, 2, 2, 2))
    (tmp_path / "train-images-idx3-ubyte").write_bytes(header + images.numpy().tobytes())
    assert torch.equal(read_idx(tmp_path / "train-images-idx3-ubyte"), images)
    assert quantise(images, 4).max() == 3
    (tmp_path / "train-images-idx3-ubyte").write_bytes(header + b"short")
    with pytest.raises(ValueError, match="cut short"):
        read_idx(tmp_path / "train-images-idx3-ubyte")
    (tmp_path / "train-images-idx3-ubyte").write_bytes(header + images.numpy().tobytes())
    with pytest.raises(ValueError, match="holds no t10k-images-idx3-ubyte"):
        load_digits(tmp_path, levels=4)


def test_mnist_loads() -> None:
    if not (SHARED / "mnist").is_dir():
        pytest.skip("MNIST's idx files are not here")
    data = load_digits(SHARED / "mnist")
    assert (len(data.train), len(data.valid), data.length, data.vocab_size) == (60_000, 10_000, 784, 8)


def test_markov_data_is_drawn_from_its_chain() -> None:
    """Mean log-likelihood within 5 standard errors of the entropy (false-alarm rate 6e-7)."""
    data = load_markov(6, 16, rows=4000)
    oracle = tl.MarkovOracle(*markov_chain(6, 0), 16, tl.Uniform(6))
    nats = -oracle.log_likelihood(data.train.long()) / 16
    assert data.entropy is not None
    assert abs(float(nats.mean()) - data.entropy) < 5 * float(nats.std()) / math.sqrt(4000)
    assert data.fingerprint != load_markov(6, 16, rows=4000, seed=1).fingerprint
