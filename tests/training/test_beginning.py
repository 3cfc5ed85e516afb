"""A run begins with a model: the network, weights, process and tokenizer are the model's, and misfits are refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tests.models.interop.ddit_reference import write_checkpoint
from tests.training.helpers import train
from tokenloom.models.interop.importing import import_model
from tokenloom.models.tokenizer import Characters
from tokenloom.training.build import resolve
from tokenloom.training.config import TrainConfig, from_record
from tokenloom.training.recipes import settings_from

ALPHABET = "abcdefghij "


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    """A Duo-shaped model of eleven characters, in our own format."""
    folder = write_checkpoint(tmp_path / "duo", "duo")
    model = import_model(folder).model
    model.tokenizer = Characters("".join(sorted(ALPHABET)))
    model.describe(source={"kind": "text", "length": 9, "packing": "wrap"}).save(tmp_path / "native")
    return tmp_path / "native"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("abc defg hij " * 200)
    return path


def settings(imported: Path, text: Path, out: Path, steps: int = 3) -> TrainConfig:
    config = settings_from(str(imported))
    run = replace(config.run, validate_every=100, checkpoint_every=100, valid_rows=4)
    config = replace(config, data=replace(config.data, path=str(text)), run=run)  # type: ignore[call-arg]
    return resolve(replace(config, out=str(out), max_steps=steps, max_minutes=None))


def test_everything_the_model_says_of_itself_becomes_a_default(imported: Path) -> None:
    config = settings_from(str(imported))
    assert (config.method, config.predicts, config.schedule) == ("udm", "loo", "linear")
    assert config.data.length == 9  # type: ignore[attr-defined]
    assert from_record(config.record()) == config


def test_training_goes_on_from_the_weights_of_the_model(imported: Path, text: Path, tmp_path: Path) -> None:
    train(settings(imported, text, tmp_path / "run"))
    before, after = tl.load(imported), tl.load(tmp_path / "run")
    first, last = (model.get_parameter("network.head.weight") for model in (before, after))
    assert not torch.equal(first, last)
    assert (first - last).abs().max() < 0.01  # a few small steps away, not a fresh start
    assert after.process == before.process
    assert after.about.origin is not None
    assert after.about.origin["family"] == "Duo"
    assert after.tokenizer is not None


def test_a_run_from_a_model_resumes_when_the_model_is_gone(imported: Path, text: Path, tmp_path: Path) -> None:
    train(settings(imported, text, tmp_path / "run"))
    config = settings(imported, text, tmp_path / "run", steps=5)
    imported.rename(tmp_path / "moved")
    (tmp_path / "native").mkdir()
    (tmp_path / "moved" / "config.json").rename(tmp_path / "native" / "config.json")  # the tokenizer of the text
    result = train(config, resume=True)
    assert (result.resumed_at, result.steps) == (3, 5)


def test_another_method_is_trained_where_the_network_allows_it(imported: Path, text: Path, tmp_path: Path) -> None:
    config = settings(imported, text, tmp_path / "run")
    other = resolve(replace(config, method="max-coupling", out=str(tmp_path / "other")))
    train(other)
    assert tl.load(tmp_path / "other").process == tl.MaxCoupling(11)
    with pytest.raises(ValueError, match="embeds 11; set num_states=12"):
        resolve(replace(config, method="mdm", predicts=None, objective=None))


def test_data_that_does_not_fit_the_model_is_refused(imported: Path, text: Path, tmp_path: Path) -> None:
    config = settings(imported, text, tmp_path / "run")
    longer = replace(config, data=replace(config.data, length=10))  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="reads 9 tokens, got rows of 10"):
        train(longer)
    other = replace(config, data=replace(config.data, tokenizer="characters"))  # type: ignore[call-arg]
    text.write_text("abc defg hi " * 200)
    with pytest.raises(ValueError, match="has other tokens than"):
        train(other)


def test_a_checkpoint_of_another_library_is_imported_first(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "duo", "duo")
    with pytest.raises(ValueError, match=r"import it first: tokenloom import .*duo --to FOLDER"):
        settings_from(str(folder))
