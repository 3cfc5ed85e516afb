"""A run at an address is the run that it would be here, and goes on elsewhere."""

from dataclasses import replace
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

import tokenloom as tl
from tests.cli.helpers import Shell
from tests.support.elsewhere import address, cache, failing  # noqa: F401
from tests.training.helpers import TINY, tiny, train, weights
from tokenloom.models.opening import open_run
from tokenloom.support.addresses import fetched, listing, opened
from tokenloom.training.config import TrainConfig
from tokenloom.training.folder import run_config
from tokenloom.training.reporting import Reporter

PLACE = "memory://bucket/run"


def config(out: object, steps: int) -> TrainConfig:
    """A run that is saved every two steps."""
    return replace(tiny(Path("none"), max_steps=steps, run={"checkpoint_every": 2, "validate_every": 4}), out=str(out))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The weights of a run in a folder."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(config(folder, 6))
    return weights(folder, 6)


def test_a_run_at_an_address_goes_on_elsewhere_bit_for_bit(
    address: str,  # noqa: F811
    reference: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train(config(address, 3), reporter=Reporter())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))  # another machine
    resumed = run_config(address)
    assert (resumed.out, resumed.max_steps) == (address, 3)
    assert train(config(address, 6), resume=True, reporter=Reporter()).resumed_at == 3
    there = fetched(address)
    assert weights(there, 6) == reference
    assert tl.load(address).about.step == 6
    assert {path.name for path in (there / "checkpoints").iterdir()} == {"step_000000004", "step_000000006"}
    fs, root = opened(address)
    assert len(fs.ls(f"{root}/checkpoints")) == 2
    steps = [line.split(",")[0] for line in (there / "metrics.jsonl").read_text().splitlines()]
    assert '{"step": 1' in steps
    assert '{"step": 6' in steps


@pytest.mark.parametrize("calls", range(2, 36, 5))
def test_a_run_whose_uploads_end_anywhere_is_trained_here_and_goes_on_elsewhere_from_what_arrived(
    calls: int, reference: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, reporter = list[str](), Reporter(quiet=True)
    reporter.say = said.append  # type: ignore[method-assign, assignment]
    with failing(calls), pytest.raises(ValueError, match="cannot be written"):
        train(config(PLACE, 6), reporter=reporter)
    assert any("was lost); it is tried again at the next checkpoint or at the end" in sentence for sentence in said)
    assert weights(config(PLACE, 6).folder, 6) == reference
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    there = listing(PLACE)
    if "model/config.json" in there:
        assert tl.load(PLACE).about.step in (4, 6)
    if any(name.endswith("manifest.json") for name in there):
        train(config(PLACE, 6), resume=True)
        assert weights(fetched(PLACE), 6) == reference
        assert not [name for name in MemoryFileSystem.store if "/." in name]


def test_a_run_whose_uploads_failed_goes_on_from_what_is_here(reference: dict[str, bytes]) -> None:
    with failing(30), pytest.raises(ValueError, match="cannot be written"):
        train(config(PLACE, 5))
    assert train(config(PLACE, 6), resume=True).resumed_at == 5
    assert weights(fetched(PLACE), 6) == reference


def test_commands_take_an_address_where_they_take_a_folder(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    new = ("train", *TINY, "--max-steps", "2", "--out", PLACE)
    assert f"tokenloom sample {PLACE}" in shell(*new).out.replace("\n", " ")
    assert f"{PLACE} already holds a run: continue it with --resume {PLACE}, or choose" in shell.refusal(*new)
    assert "nothing is left to do" in shell("train", "--resume", PLACE).err
    assert len(shell.json("sample", PLACE, "--num", "2", "--steps", "4")["tokens"]) == 2
    shell("evaluate", PLACE, f"{PLACE}/best", "--weights", "both", "--sequences", "8")
    assert len(list((tmp_path / "runs" / "run" / "evaluation").iterdir())) == 4
    assert [open_run(name).name for name in (PLACE, f"{PLACE}/model", f"{PLACE}/best")] == ["run", "run", "run/best"]
    shell("train", "--from", PLACE, "--max-steps", "1", "--out", str(tmp_path / "more"))
    assert tl.load(tmp_path / "more").about.origin == {"begun_from": PLACE}
    assert "--sweep trains in folders of this machine" in shell.refusal(*new, "--sweep", "run.seed=1,2")
    MemoryFileSystem().pipe_file("/bucket/else/thesis.tex", b"x")
    assert "else holds thesis.tex, which is not part of a run" in shell.refusal(*new[:-1], "memory://bucket/else")
    for command in (("sample", PLACE, "--num", "1", "--steps", "2"), ("evaluate", PLACE)):
        assert "is an address, where figures and samples are not written" in shell.refusal(
            *command, "--out", "memory://bucket/a.json"
        )
    assert list(tmp_path.glob("*:*")) == []
