"""Compiled networks and recomputed blocks train the same model; where they cannot be had, a sentence says so."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import Shell
from tests.training.helpers import TINY, losses, tiny
from tokenloom.cli import main
from tokenloom.models import compiled
from tokenloom.nn.block import Block
from tokenloom.training.build import build_model
from tokenloom.training.setup import prepare

RUN = [*TINY, "--optimiser.warmup", "0", "--optimiser.lr", "0.03", "--max-steps", "8", "--run.valid-rows", "8"]
"""Far enough for the blocks, whose gates start closed, to matter; validated on the shape of a step."""

pytestmark = [
    pytest.mark.usefixtures("as_a_user"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain") / "run"
    main(["train", *RUN, "--out", str(folder)])
    return folder


@pytest.mark.parametrize("option", ["--run.compile", "--run.recompute"])
def test_the_curve_is_the_plain_one(option: str, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "BACKEND", "eager")  # gradients: tests/models/test_compiled.py
    main(["train", *RUN, option, "--out", str(tmp_path / "run")])
    assert losses(tmp_path / "run") == pytest.approx(losses(plain), rel=1e-3)


def test_the_config_reaches_the_model(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    model = build_model(config, config.data.load())
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    assert blocks
    for compile_it, recompute in ((False, True), (True, False)):
        prepare(model, tiny(tmp_path, run={"compile": compile_it, "recompute": recompute}))
        assert all(block.recompute == recompute for block in blocks)
        assert model.compiled == compile_it


def test_a_network_without_such_blocks_is_named(tmp_path: Path, shell: Shell) -> None:
    options = ("--recipe", "sudoku4", "--network.kind", "grid", "--run.recompute", "--max-steps", "1")
    said = shell.refusal("train", *options, "--out", str(tmp_path / "run"))
    assert "--run.recompute is for dit, causal and hollow, got grid" in said


def test_compiled_parts_of_parameters_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = tiny(tmp_path, run={"compile": True, "strategy": "fsdp"})
    model = build_model(parts, parts.data.load())
    prepare(model, parts)  # a single process holds all of every parameter
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"--run\.compile cannot be combined with --run\.strategy fsdp"):
        prepare(model, parts)


def test_the_command_samples_through_the_compiled_network(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its graphs are tested in tests/models/test_compiled.py; here the plain network stands for them."""
    backends: list[str] = []

    def record(backend: str) -> Callable[..., Any]:
        backends.append(backend)
        return compiled.run

    monkeypatch.setattr(compiled, "_compiled", record)
    draw = ("sample", str(plain), "--num", "4", "--steps", "3", "--shard", "4")
    for name, options in (("plain", ()), ("compiled", ("--compile",))):
        assert not backends
        main([*draw, *options, "--out", str(tmp_path / name)])
    assert backends
    one, other = ((tmp_path / name / "samples-00000.jsonl").read_text() for name in ("plain", "compiled"))
    assert one == other
