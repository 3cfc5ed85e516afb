"""`--method` names a noise and a coupling: what it trains is saved, loaded and sampled, and a slip is named."""

import math
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tests.cli.helpers import Shell
from tests.training.helpers import TINY, records
from tokenloom.noise import NOISES, unigrams
from tokenloom.training.config import from_record
from tokenloom.training.methods import method_of, method_text

FEW = ["--max-steps", "3", "--run.valid-rows", "8", "--run.validate-every", "2"]
LINEAR = tl.LinearSchedule()


@pytest.mark.parametrize(
    ("method", "schedule", "coupling", "sampler"),
    [
        ("hybrid", "cosine", tl.couplings.Markov, "ancestral"),  # noise that sets in slowly
        ("hybrid", "polynomial:power=3", tl.couplings.Markov, "ancestral"),
        ("audm:noise=unigram", "linear", tl.couplings.Absorbing, "reaudm"),
        ("udm:noise=unigram", "linear", tl.couplings.Markov, "ancestral"),
        ("max-coupling:noise=unigram", "linear", tl.couplings.Maximal, "ancestral"),
        ("transition-times:noise=unigram", "linear", tl.couplings.TransitionTimes, "mudm"),
    ],
)
def test_every_noise_under_every_coupling_is_trained_with_finite_figures_and_sampled(
    method: str, schedule: str, coupling: type[tl.couplings.Coupling], sampler: str, tmp_path: Path, shell: Shell
) -> None:
    run = tmp_path / "run"
    shell("train", *TINY, *FEW, "--method", method, "--schedule", schedule, "--out", str(run))
    model, lines = tl.load(run / "best"), records(run)
    assert type(model.process.coupling) is coupling
    data = from_record(model.about.training).data.load()
    assert (model.process.noise == unigrams(torch.as_tensor(data.train), 5)) == ("unigram" in method)
    assert [line["step"] for line in lines if "valid_nats" in line]
    assert all(math.isfinite(value) for line in lines for value in line.values())
    assert math.isfinite((model.about.validation or {})["per_token"])
    drawn = shell.json("sample", str(run), "--num", "2", "--steps", "4", "--sampler", sampler)
    assert torch.tensor(drawn["tokens"]).shape == (2, 8)


def test_a_fusion_is_trained_by_its_option_saved_and_sampled(tmp_path: Path, shell: Shell) -> None:
    run = tmp_path / "run"
    option = ["--network.fusion", "separate_linear"]
    assert "is for networks that read U" in shell.refusal("train", *TINY, *FEW, *option, "--out", str(run))
    shell("train", *TINY, *FEW, *option, "--method", "audm", "--out", str(run))
    model = tl.load(run / "best")
    assert isinstance(model.network, tl.nn.DiT)
    assert model.network.config.fusion == "separate_linear"
    drawn = shell.json("sample", str(run), "--num", "2", "--steps", "4", "--sampler", "reaudm")
    assert torch.tensor(drawn["tokens"]).shape == (2, 8)


UNIGRAM = [f"{name}:noise=unigram" for name in ("udm", "audm", "max-coupling", "transition-times")]
PLAIN = ["udm", "mdm", "mdm:mask_id=2", "audm", "max-coupling", "hybrid:p_uniform=0.25", "ar", "transition-times"]
PLAIN += ["audm:noise=mask", "max-coupling:noise=mask,mask_id=2", "transition-times:noise=mask"]


@pytest.mark.parametrize("text", [*PLAIN, *UNIGRAM])
def test_a_process_says_the_method_that_trains_it(text: str) -> None:
    process = method_of(text, 5, LINEAR, torch.tensor([[0, 1, 1, 4]])).process
    assert method_text(process) == text
    if text in UNIGRAM:
        assert isinstance(process.noise, tl.noise.Table)
        torch.testing.assert_close(process.noise.pi, torch.tensor([[2.0, 3, 1, 1, 2]]).double() / 9)
    else:
        assert method_of(method_text(process), 5, LINEAR).process == process


@pytest.mark.parametrize("name", ["udm", "max-coupling", "audm", "transition-times"])
def test_a_registered_noise_is_trained_under_every_coupling(name: str, tmp_path: Path, shell: Shell) -> None:
    """A noise of one's own is its class, in one file, and no more."""
    with NOISES.scratch():

        @NOISES.register("rising")
        @dataclass(frozen=True)
        class Rising(tl.noise.Noise):
            power: float = 1.0

            def law(self) -> tl.noise.Law:
                weights = torch.arange(1, self.vocab_size + 1, dtype=torch.float64) ** self.power
                return tl.noise.TableLaw((weights / weights.sum()).view(1, 1, -1))

        method = f"{name}:noise=rising,power=2.0"
        shell("train", *TINY, *FEW, "--method", method, "--out", str(tmp_path / "run"))
        process = tl.load(tmp_path / "run").process
        assert process.noise == Rising(process.vocab_size, 2.0)
        assert type(process.coupling) is type(method_of(name, 5, LINEAR).process.coupling)
        assert method_text(process) == method


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        ("audm:noise=unifrm", "did you mean uniform"),
        ("audm:noise=table", "noise must be unigram"),
        ("audm:noise=unigram,power=2", "unigram"),
        ("audm:noise=mask,maskid=2", "did you mean mask_id"),
        ("mdm:noise=uniform", "goes with udm"),
        ("ar:noise=unigram", "goes with udm"),
    ],
)
def test_a_wrong_noise_gets_a_sentence(method: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        method_of(method, 5, LINEAR)
