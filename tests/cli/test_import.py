"""`tokenloom import` as its users meet it: a table, a model for every other command, and nothing half written."""

import json
from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tests.cli.helpers import Shell
from tests.models.interop.ddit_reference import MODEL, random_backbone, write_checkpoint

LETTERS = "abcdefghij"


def test_an_imported_checkpoint_is_sampled_and_scored_by_the_other_commands(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "letters.json").write_text(json.dumps({"kind": "characters", "alphabet": LETTERS}))
    stored = {f"backbone.{name}": value for name, value in random_backbone(dtype=torch.float32).items()}
    config = {"parameterization": "subs", "model": MODEL}
    torch.save({"state_dict": stored, "hyper_parameters": {"config": config}}, tmp_path / "run.ckpt")
    table = shell("import", "run.ckpt", "--to", "model", "--tokenizer", "letters.json").out
    for words in ("MDLM", "53,547", "10 tokens, mask 10", "Denoiser", "none: it always saw 0", "10 ids"):
        assert words in table
    drawn = shell("sample", "model", "--num", "2", "--steps", "4", "--sampler", "mudm:resample=true").out.splitlines()
    assert sum(set(line) <= set(LETTERS) and len(line) == 9 for line in drawn) == 2
    (tmp_path / "text.txt").write_text("abcdefghij" * 20)
    assert "nats per token" in shell("evaluate", "model", "--data", "text.txt", "--out", "figures").out
    record = json.loads(next((tmp_path / "figures").glob("likelihood-*.json")).read_text())
    assert record["provenance"]["process"] == "Masked"


def test_a_folder_of_another_library_is_a_run_for_every_command(tmp_path: Path, shell: Shell) -> None:
    write_checkpoint(tmp_path / "udlm", "udlm")
    assert "1 sequence" in shell("sample", "udlm", "--num", "1", "--steps", "2", "--out", "tokens.json").out


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_what_fails_writes_nothing(tmp_path: Path, damage: str, shell: Shell) -> None:
    tensors = random_backbone(dtype=torch.float32)
    if damage == "missing":
        del tensors["blocks.2.mlp.0.bias"]
    folder = write_checkpoint(tmp_path / "mdlm", "mdlm", tensors)
    if damage == "truncated":
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    sentence = shell.refusal("import", "mdlm", "--to", "model")
    assert ("lack blocks.2.mlp.0.bias" if damage == "missing" else "is not a safetensors file") in sentence
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mdlm"]


def test_a_folder_that_is_in_use_is_refused_before_anything_is_read(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "thesis.txt").write_text("work of years")
    assert "thesis.txt" in shell.refusal("import", "nowhere/at-all", "--to", str(tmp_path))


def test_importing_again_replaces_the_model(tmp_path: Path, shell: Shell) -> None:
    for seed in (0, 1):
        tensors = random_backbone(seed=seed, dtype=torch.float32)
        write_checkpoint(tmp_path / "duo", "duo", tensors)
        assert "Duo" in shell("import", "duo", "--to", "model").out
        found = tl.load(tmp_path / "model").get_parameter("network.head.weight")
        assert torch.equal(found, tensors["output_layer.linear.weight"])
