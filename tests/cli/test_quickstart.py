import subprocess
import sys

import pytest
import torch

from tokenloom import cli
from tokenloom.cli import main
from tokenloom.cli.quickstart import example_distribution, frequencies, reverse_chain
from tokenloom.oracle import Oracle
from tokenloom.posteriors import Denoiser
from tokenloom.processes import Masked


def test_quickstart_prints_the_exact_law_beside_two_empirical_ones() -> None:
    command = [sys.executable, "-m", "tokenloom", "quickstart", "--samples", "500", "--steps", "4"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env={"COLUMNS": "120"})
    assert "loom warp" in result.stdout
    assert "0.1622" in result.stdout  # 6/37
    assert "total variation" in result.stdout


def test_the_chains_come_close_to_the_exact_law() -> None:
    """10,000 chains of 64 steps: total variation below 0.02 (sampling noise 0.012, bias of the steps 0.003)."""
    p0 = example_distribution()
    drawn = reverse_chain(Oracle(p0, Masked(3), predicts=Denoiser), 10_000, 64, torch.Generator().manual_seed(1), "")
    assert float(0.5 * (frequencies(drawn) - p0).abs().sum()) < 0.02


@pytest.mark.parametrize(("option", "value"), [("--steps", "0"), ("--samples", "-3")])
def test_a_wrong_option_ends_in_one_sentence(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["quickstart", option, value])
    assert exit_info.value.code == 2
    assert f"{option[2:]} must be at least 1, got {value}" in capsys.readouterr().err


def test_an_error_keeps_its_brackets(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(args: object) -> None:
        raise ValueError("x_0 must have shape [batch, length], got [3]")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit):
        main([])
    assert "shape [batch, length], got [3]" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert capsys.readouterr().out.startswith("tokenloom ")


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["quickstart", "--help"])
    text = capsys.readouterr().out
    assert all(option in text for option in ("--samples", "--steps", "--seed"))
