"""A run with adapters: they alone are trained, averaged and kept; it resumes bit for bit, and only on its base."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import tokenloom as tl
from tests.cli.helpers import Shell
from tests.models.interop.test_causal import save_causal
from tests.training.helpers import saved, start, tiny, train, wait_until, weights
from tokenloom.cli import main
from tokenloom.data.markov import MarkovSource
from tokenloom.models.checkpoint import checkpoints
from tokenloom.models.interop.importing import import_model
from tokenloom.models.opening import open_run
from tokenloom.nn.lora import PARTS
from tokenloom.training.batches import validate
from tokenloom.training.build import build_model, resolve
from tokenloom.training.config import TrainConfig
from tokenloom.training.recipes import settings_from
from tokenloom.training.setup import Learner, launch

pytest.importorskip("peft", reason="peft is not installed; make test brings it")
OPTIONS = ["--optimiser.batch", "8", "--optimiser.warmup", "2", "--run.valid-rows", "8"]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A run of a small network with dropout."""
    saved(tiny(tmp_path / "base", network={"dropout": 0.1}), tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def causal(tmp_path: Path) -> Path:
    """A causal language model, begun as a denoiser of rows of 12 tokens."""
    (tmp_path / "llama").mkdir()
    save_causal(tmp_path / "llama", tie_word_embeddings=True)
    import_model(tmp_path / "llama", causal=True, length=12).model.save(tmp_path / "begun")
    return tmp_path / "begun"


def settings(base: Path, out: Path, steps: int = 3, **options: Any) -> TrainConfig:
    config = settings_from(str(base), adapters=True)
    run = replace(config.run, validate_every=100, checkpoint_every=100, valid_rows=8)
    optimiser = replace(config.optimiser, batch=8, warmup=2)
    config = replace(config, lora=2, run=run, optimiser=optimiser, max_minutes=None, max_steps=steps, **options)
    return resolve(replace(config, out=str(out)))


def adapters_of(names: Any) -> bool:
    return all(name.rpartition("lora_")[1] and f"lora_{name.rpartition('lora_')[2]}" in PARTS for name in names)


def test_a_run_keeps_its_adapters_alone_and_its_model_is_the_base_with_them(base: Path, tmp_path: Path) -> None:
    result = train(settings(base, tmp_path / "run"))
    checkpoint = tmp_path / "run" / "checkpoints" / "step_000000003"
    held = {name: load_file(checkpoint / f"{name}.safetensors") for name in ("model", "ema", "optimiser")}
    assert adapters_of(held["model"])
    assert adapters_of(held["ema"])
    assert held["model"].keys() == held["ema"].keys()
    assert {name.partition(".")[2] for name in held["optimiser"]} == set(held["model"])
    assert result.trained == sum(value.numel() for value in held["model"].values()) < result.parameters / 5
    first, second = (tl.load(place).state_dict() for place in (base, tmp_path / "run"))
    changed = {name for name in first if not torch.equal(first[name], second[name])}
    assert changed == {name.rpartition(".lora_")[0] + ".weight" for name in held["model"]}
    for name in changed:
        A, B = (held["ema"][f"{name.removesuffix('weight')}{part}"] for part in PARTS)
        torch.testing.assert_close(second[name], first[name] + 2 * B @ A)


def test_raw_weights_of_a_run_are_its_newest_adapters(base: Path, tmp_path: Path) -> None:
    train(settings(base, tmp_path / "run"))
    raw = load_file(tmp_path / "run" / "checkpoints" / "step_000000003" / "model.safetensors")
    name = "network.blocks.0.expand."
    A, B = (raw[f"{name}{part}"] for part in PARTS)
    found = open_run(tmp_path / "run", "raw").model.get_parameter(f"{name}weight")
    torch.testing.assert_close(found, tl.load(base).get_parameter(f"{name}weight") + 2 * B @ A)


def test_the_average_of_adapters_shares_what_is_frozen_and_averages_the_rest(base: Path, tmp_path: Path) -> None:
    config = settings(base, tmp_path / "run")
    learner = Learner(config, config.data.load(), launch(config), None)
    pairs = zip(learner.model.named_parameters(), learner.averaged_root.model.parameters(), strict=True)
    for (name, own), averaged in pairs:
        assert (own is averaged) == (not own.requires_grad), name
    before = {name: value.clone() for name, value in learner.averaged_root.model.state_dict().items()}
    for _ in range(2):  # the first copies
        learner.averaged.update_parameters(learner.model)
        with torch.no_grad():
            for parameter in learner.model.parameters():
                if parameter.requires_grad:
                    parameter.add_(1.0)
    after = learner.averaged_root.model.state_dict()
    moved = {name for name in after if not torch.equal(after[name], before[name])}
    assert adapters_of(moved)
    assert moved
    shift = 1 - 2 / 11  # the weight of the new one in the second update
    name = next(name for name in moved if "lora_B" in name)
    torch.testing.assert_close(after[name], torch.full_like(after[name], shift))


@pytest.mark.usefixtures("as_a_user")
def test_a_killed_and_resumed_run_is_bit_identical_to_an_uninterrupted_one(
    base: Path, tmp_path: Path, shell: Shell
) -> None:
    """kill -9 while it runs, with dropout: adapters, averages and moments agree."""
    options = ["--from", str(base), "--lora", "2", *OPTIONS, "--run.checkpoint-every", "4"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command = [sys.executable, "-m", "tokenloom", "train", *options, "--max-steps", "1000000", "--out", str(broken)]
    victim = start(*command)
    try:
        wait_until(lambda: len(checkpoints(broken / "checkpoints")) == 2)
    finally:
        victim.kill()
        victim.communicate()
    newest = max((broken / "checkpoints").glob("step_*"))
    end = int(newest.name.removeprefix("step_")) + 3
    said = " ".join(shell("train", "--resume", str(broken), "--max-steps", str(end)).err.split())
    assert f"resuming from step {end - 3}" in said
    main(["train", *options, "--max-steps", str(end), "--out", str(whole)])
    assert weights(whole, end) == weights(broken, end)
    refused = shell.refusal("train", "--resume", str(broken), "--max-steps", str(end + 1), "--lora", "3")
    assert "a resumed run must keep its config; these differ: lora (2 -> 3)" in refused


def test_a_run_resumes_only_on_its_base(base: Path, tmp_path: Path) -> None:
    train(settings(base, tmp_path / "run"))
    shutil.rmtree(base / "model")
    with pytest.raises(ValueError, match="base"):
        settings(base, tmp_path / "run", steps=5)
    saved(tiny(base, network={"dropout": 0.1}), base, std=0.3)
    with pytest.raises(ValueError, match=r"is not the model that the adapters in .* were trained on \(sha256"):
        train(settings(base, tmp_path / "run", steps=5), resume=True)


def test_an_adapter_run_is_sampled_scored_and_trained_further_like_any_other(
    base: Path, tmp_path: Path, shell: Shell
) -> None:
    """By whole weights, which then need no base, and by adapters to adapters."""
    run, tuned, second = (str(tmp_path / name) for name in ("run", "tuned", "second"))
    said = shell("train", "--from", str(base), "--lora", "2", *OPTIONS, "--max-steps", "2", "--out", run)
    assert "of them trained (rank 2)" in " ".join(said.out.replace("│", "").split())
    assert "1 sequence, " in shell("sample", run, "--num", "1", "--steps", "2").out
    assert "markov" in shell("evaluate", run, "--sequences", "8", "--samples", "1").out
    shell("train", "--from", run, "--lora", "3", *OPTIONS, "--max-steps", "1", "--out", second)
    shell("train", "--from", run, *OPTIONS, "--max-steps", "1", "--out", tuned)
    shutil.move(base, tmp_path / "away")
    assert tl.load(tuned).about.step == 1
    with pytest.raises(ValueError, match="is an adapter to"):
        tl.load(second)


def test_a_causal_beginning_is_trained_by_adapters_and_by_whole_weights(causal: Path, tmp_path: Path) -> None:
    """The loss falls, and what was no denoiser is one."""
    text = tmp_path / "text.txt"
    text.write_text("abc abd. " * 300)
    for lora in (2, None):
        out = tmp_path / f"lora-{lora}"
        config = settings(causal, out, steps=60)
        optimiser = replace(config.optimiser, lr=1e-2 if lora else 2e-3)
        config = replace(config, lora=lora, optimiser=optimiser, data=replace(config.data, path=str(text), length=12))  # type: ignore[call-arg]
        before = validate(build_model(config, config.data.load()), config.data.load(), 8, 1)
        after = next(iter(train(resolve(config)).figures.values()))
        assert after.per_token < before.per_token - 0.5
        assert "untrained" not in (tl.load(out).about.origin or {})
        size = (out / "model" / "model.safetensors").stat().st_size
        assert (size < (causal / "model.safetensors").stat().st_size / 3) == (lora is not None)


def test_adapters_begin_with_a_learning_rate_of_their_own(base: Path, tmp_path: Path, shell: Shell) -> None:
    assert settings_from(str(base), adapters=True).optimiser.lr == 10 * settings_from(str(base)).optimiser.lr
    assert "(default: 0.001)" in shell.ends(0, "train", "--from", str(base), "--lora", "2", "--help").out
    assert str(settings(base, tmp_path / "x", data=settings_from(str(base)).data).lora) == "2"
    assert (resolve(replace(settings(base, tmp_path / "x"), out=None)).out or "").endswith("-lora2")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--recipe", "markov", "--lora", "8"], "--lora 8 adapts a model that is there; name it with --from"),
        (["--from", "BASE", "--lora", "0"], "--lora must be a rank in 1..8, the smaller side of blocks.0.modulation"),
        (["--from", "BASE", "--lora", "9"], "--lora must be a rank in 1..8, the smaller side of blocks.0.modulation"),
    ],
)
def test_what_cannot_be_adapted_is_refused(
    arguments: list[str], sentence: str, base: Path, tmp_path: Path, shell: Shell
) -> None:
    given = [str(base) if word == "BASE" else word for word in arguments]
    assert sentence in shell.refusal("train", *given, "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_missing_library_is_named_before_anything_begins(
    base: Path, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    monkeypatch.setattr(MarkovSource, "load", None)
    said = shell.refusal("train", "--from", str(base), "--lora", "2", "--out", str(tmp_path / "run"))
    assert 'this needs the library peft; run pip install "tokenloom[lora]"' in said
    train_whole = settings_from(str(base))
    assert resolve(replace(train_whole, out=str(tmp_path / "whole"))).lora is None
