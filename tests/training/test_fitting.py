"""A run sizes itself to its time and machine; what the user gives is kept, and what was chosen is written down."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from tests.cli.helpers import Shell
from tokenloom.data.text import TextSource
from tokenloom.nn.size import count_parameters
from tokenloom.training import fitting
from tokenloom.training.build import resolve, task_of
from tokenloom.training.config import TrainConfig, read_config
from tokenloom.training.ending import Clock
from tokenloom.training.fitting import SIZES, TOKENS_PER_PARAMETER, fitted
from tokenloom.training.recipes import recipe
from tokenloom.training.reporting import Reporter
from tokenloom.training.setup import launch


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text("the loom weaves the warp and the weft, and the weft the warp\n" * 300)
    return str(path)


KINDS: tuple[Literal["adamw", "muon"], ...] = ("adamw", "muon")


def machine(flops: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of this speed, whose steps are not taken."""

    def seconds(config: TrainConfig, data: Any, fabric: Any, limit: float) -> float:
        parameters = count_parameters(config.network, task_of(config, data.outline))
        return float(6 * parameters * config.optimiser.batch * data.length / flops)

    monkeypatch.setattr(fitting, "_step_seconds", seconds)


def chosen(config: TrainConfig) -> TrainConfig:
    return fitted(config, config.data.load(), launch(config), Clock(config.max_minutes), Reporter(quiet=True))


def chars(text: str, minutes: float, **changes: Any) -> TrainConfig:
    base = recipe("chars")
    return resolve(replace(base, data=replace(base.data, path=text), max_minutes=minutes, **changes))  # type: ignore[call-arg]


def test_more_time_or_a_faster_machine_trains_a_larger_network_on_enough_tokens(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each network but the smallest sees its tokens per parameter, and the next larger one would not."""
    widths: list[int] = []
    data = chars(text, 1.0).data.load()
    monkeypatch.setattr(TextSource, "load", lambda source: data)
    for minutes, flops in ((0.01, 1e10), (5.0, 6e10), (60.0, 1e11), (6000.0, 1e14)):
        machine(flops, monkeypatch)
        config = chosen(chars(text, minutes))
        parameters = count_parameters(config.network, task_of(config, data.outline))
        tokens = flops * minutes * 60 / (6 * parameters)
        assert config.fit == ()
        widths.append(config.network.width)  # type: ignore[attr-defined]
        assert widths[-1] == SIZES[0].width or tokens > 0.99 * TOKENS_PER_PARAMETER * parameters
    assert widths == sorted(set(widths))
    assert (widths[0], widths[-1]) == (SIZES[0].width, SIZES[-1].width)


def test_muon_takes_a_higher_rate(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(1e11, monkeypatch)
    base = chars(text, 10.0)
    plain, muon = (chosen(replace(base, optimiser=replace(base.optimiser, kind=kind))) for kind in KINDS)
    assert muon.optimiser.lr == pytest.approx(3 * plain.optimiser.lr)
    assert recipe("text").optimiser.lr == pytest.approx(3 * recipe("chars").optimiser.lr)


def test_options_that_are_not_to_be_chosen_are_kept(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(1e11, monkeypatch)
    base = chars(text, 10.0)
    fit = tuple(name for name in base.fit if name not in ("network.width", "optimiser.lr"))
    network: Any = base.network
    optimiser = replace(base.optimiser, lr=0.5)
    config = chosen(replace(base, fit=fit, network=replace(network, width=100), optimiser=optimiser))
    assert (config.network.width, config.network.heads, config.optimiser.lr) == (100, 2, 0.5)  # type: ignore[attr-defined]
    assert config.optimiser.ema != base.optimiser.ema


def test_a_busy_machine_is_given_fewer_threads(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads take twice as long as four, and two no less than four."""
    asked: list[int] = []

    def seconds(*arguments: Any) -> float:
        asked.append(torch.get_num_threads())
        return {8: 2.0, 4: 1.0}.get(asked[-1], 1.5)

    monkeypatch.setattr(fitting, "_step_seconds", seconds)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(8)
        chosen(chars(text, 0.1))
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
    assert asked[:3] == [8, 4, 2]


def test_a_run_without_a_time_is_not_sized(text: str) -> None:
    config = chars(text, 10.0, max_steps=5)
    assert chosen(replace(config, max_minutes=None)) == replace(config, max_minutes=None, fit=())


def test_the_command_keeps_what_is_given_and_writes_down_what_it_chose(text: str, tmp_path: Path, shell: Shell) -> None:
    """Three timed steps and three real ones; resuming and repeating use the same sizes."""
    run = tmp_path / "run"
    small = ["--network.width", "16", "--network.depth", "1", "--optimiser.batch", "4", "--data.length", "16"]
    said = shell("train", "--recipe", "chars", "--data.path", text, *small, "--max-steps", "3", "--out", str(run)).err
    assert "sized to this machine and the time" in said
    assert "--network.heads 1 --optimiser.lr 0.003 --optimiser.warmup 0" in said
    config = read_config(run / "config.json")
    assert (config.network.width, config.optimiser.batch, config.optimiser.lr) == (16, 4, 3e-3)  # type: ignore[attr-defined]
    assert config.fit == ()
    assert "sized to this machine" not in shell("train", "--resume", str(run), "--max-steps", "4").err
    assert replace(read_config(run / "config.json"), max_steps=3) == config
