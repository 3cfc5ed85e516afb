"""`tokenloom import` as its users meet it: a table, a model for every other command, and nothing half written."""

import json
from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tests.cli.helpers import refusal
from tests.models.interop.ddit_reference import Tensors, random_backbone, write_checkpoint
from tokenloom.cli import main

LETTERS = "abcdefghij"


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """A tokenizer of ten letters."""
    path = tmp_path / "letters.json"
    path.write_text(json.dumps({"kind": "characters", "alphabet": LETTERS}))
    return path


def lightning(path: Path, tensors: Tensors) -> Path:
    model = {"hidden_size": 32, "n_blocks": 3, "n_heads": 4, "cond_dim": 16, "length": 9}
    stored = {f"backbone.{name}": value for name, value in tensors.items()}
    config = {"parameterization": "subs", "model": model}
    torch.save({"state_dict": stored, "hyper_parameters": {"config": config}}, path)
    return path


def test_an_imported_checkpoint_is_sampled_and_scored_by_the_other_commands(
    tmp_path: Path, letters: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lightning(tmp_path / "run.ckpt", random_backbone(dtype=torch.float32))
    main(["import", "run.ckpt", "--to", "model", "--tokenizer", str(letters)])
    table = capsys.readouterr().out
    for words in ("MDLM", "53,547", "10 tokens, mask 10", "Denoiser", "none: it always saw 0", "10 ids"):
        assert words in table
    main(["sample", "model", "--num", "2", "--steps", "4", "--sampler", "mudm:resample=true"])
    assert sum(set(line) <= set(LETTERS) and len(line) == 9 for line in capsys.readouterr().out.splitlines()) == 2
    (tmp_path / "text.txt").write_text("abcdefghij" * 20)
    main(["evaluate", "model", "--data", "text.txt", "--out", "figures"])
    assert "nats per token" in capsys.readouterr().out
    record = json.loads(next((tmp_path / "figures").glob("likelihood-*.json")).read_text())
    assert record["provenance"]["process"] == "Masked"


def test_a_folder_of_another_library_is_a_run_for_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_checkpoint(tmp_path / "udlm", "udlm", random_backbone(dtype=torch.float32))
    main(["sample", "udlm", "--num", "1", "--steps", "2", "--out", "tokens.json"])
    assert "1 sequence" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_what_fails_writes_nothing(tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = random_backbone(dtype=torch.float32)
    if damage == "missing":
        del tensors["blocks.2.mlp.0.bias"]
    folder = write_checkpoint(tmp_path / "mdlm", "mdlm", tensors)
    if damage == "truncated":
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    sentence = refusal(capsys, "import", str(folder), "--to", str(tmp_path / "model"))
    assert ("lack blocks.2.mlp.0.bias" if damage == "missing" else "is not a safetensors file") in sentence
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mdlm"]


def test_a_folder_that_is_in_use_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("work of years")
    assert "thesis.txt" in refusal(capsys, "import", "nowhere/at-all", "--to", str(tmp_path / "home"))


def test_importing_again_replaces_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        folder = write_checkpoint(tmp_path / "duo", "duo", random_backbone(seed=seed, dtype=torch.float32))
        main(["import", str(folder), "--to", str(tmp_path / "model")])
    expected = random_backbone(seed=1, dtype=torch.float32)["output_layer.linear.weight"]
    assert torch.equal(tl.load(tmp_path / "model").get_parameter("network.head.weight"), expected)
    assert "Duo" in capsys.readouterr().out
