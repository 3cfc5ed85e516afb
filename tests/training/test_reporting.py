"""Nothing is silent for long: lines where the output is piped, and after the first steps what to expect."""

import io
import math
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

import tokenloom as tl
from tests.training.helpers import tiny, train, wait_until
from tokenloom.data.markov import MarkovSource
from tokenloom.objectives.likelihood import Likelihood
from tokenloom.support import display
from tokenloom.support.display import Display
from tokenloom.training import reporting
from tokenloom.training.batches import validate
from tokenloom.training.reporting import Reporter, Smoothed, in_nats, kind


def test_piped_work_is_a_line_now_and_then_of_the_innermost_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "OFTEN", 0.03)
    file = io.StringIO()
    shown = Display(Console(file=file))

    def said_twice(text: str) -> None:
        wait_until(lambda: [line.split("  ")[0] for line in file.getvalue().splitlines()[-2:]] == [text, text])

    with shown.status("loading [the] data"):
        said_twice("loading [the] data")
        with shown.status("validating"):
            said_twice("validating")
        said_twice("loading [the] data")


def test_a_terminal_has_one_bar() -> None:
    file = io.StringIO()
    shown = Display(Console(file=file, force_terminal=True, width=100))
    with shown.status("training"):
        shown.update("step 3", 0.5)
        with shown.status("saving"):
            time.sleep(0.2)
    assert "saving" in file.getvalue()


def test_a_run_says_what_to_expect_and_is_heard_of_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(display, "OFTEN", 0.02)
    monkeypatch.setattr(reporting, "FIRST_SECONDS", 0.0)
    train(tiny(tmp_path / "run", max_steps=40, run={"validate_every": 30}), reporter=Reporter())
    said = capsys.readouterr().err
    assert "tokens per second: expect about 40 steps (2,560 tokens) in " in said
    assert "a validation at step 30 in " in said
    assert "step 30: validation bound " in said
    assert "mean loss (ce) " in said


@pytest.mark.parametrize(("warmup", "warned"), [(200, True), (20, False)])
def test_a_warm_up_that_outlasts_the_run_is_said(
    warmup: int, warned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reporting, "FIRST_SECONDS", 0.0)
    train(tiny(tmp_path / "run", max_steps=20, optimiser={"warmup": warmup}), reporter=Reporter())
    said = capsys.readouterr().err
    assert ("warm-up of 200 steps is longer than the run, whose learning rate ends at 10% of" in said) == warned


def test_a_figure_says_what_it_is_of_in_which_unit_and_of_how_many() -> None:
    figure = Likelihood(20.0, 1.0, 2.5, 0.1, 7, 56, 1, "", False, torch.zeros(7))
    assert (kind(figure), kind(replace(figure, exact=True))) == ("bound", "negative log-likelihood")
    assert in_nats(replace(figure, sequences=100), None) == "2.5000 ± 0.1000 nats per token"
    assert in_nats(figure, 1.0) == "2.5000 ± 0.1000 nats per character (7 sequences)"
    assert in_nats(figure, 4.0) == "2.5000 ± 0.1000 nats per token, 0.6250 per character (7 sequences)"


def test_the_loss_that_is_shown_is_a_mean_over_the_last() -> None:
    smoothed, values = Smoothed(), [float(number % 2) for number in range(400)]
    shown = [smoothed(value) for value in values]
    assert shown[0] == 0
    assert abs(shown[-1] - 0.5) < 0.01
    assert smoothed(math.nan) == shown[-1]


def test_few_validation_rows_have_more_noise_each(tmp_path: Path) -> None:
    data = MarkovSource(vocab_size=5, length=8, rows=8, valid_rows=10).load()
    model = tl.Oracle(torch.full((5,) * 4, 5**-4.0), tl.Uniform(5))
    few = replace(data, train=data.train[:, :4], valid=data.valid[:, :4])
    assert [validate(model, few, rows, 0).time_samples for rows in (10, 11, 512)] == [1, 2, 52]
