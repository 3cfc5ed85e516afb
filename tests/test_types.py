"""What a type checker knows of the public names: this file is right where mypy passes it."""

import torch
from typing_extensions import assert_type

import tokenloom as tl


def test_a_model_predicts_what_its_type_says() -> None:
    process = tl.Uniform(3)
    noisy = process.prior(2, 4)

    def network(tokens: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return torch.zeros(*tokens.shape, 3)

    plain = tl.DiffusionModel(network, process)
    assert_type(plain, tl.DiffusionModel[tl.LeaveOneOut])
    assert_type(plain.predict(noisy), tl.LeaveOneOut)
    scoring = tl.DiffusionModel(network, process, predicts=tl.Score)
    assert_type(scoring.predict(noisy), tl.Score)
    exact = tl.Oracle(torch.full((3, 3), 1 / 9), process, predicts=tl.Denoiser)
    assert_type(exact, tl.Oracle[tl.Denoiser])
    assert isinstance(exact.predict(process.prior(2, 2)), tl.Denoiser)
    model: tl.Model[tl.LeaveOneOut] = plain
    assert isinstance(model, tl.Model)


def test_cells_kernels_and_steps_are_typed() -> None:
    assert_type(tl.Hybrid(3, 0.2), tl.Process)
    assert_type(tl.samplers.Psi(kappa=0.9), tl.samplers.Psi)
    sampler = tl.Sampler(tl.samplers.Psi(kappa=0.9), tl.samplers.RandomScan(), top_p=0.9, steps=8)
    assert_type(tl.Sampler.parse("psi + random-scan", steps=8), tl.Sampler)
    assert sampler.steps == 8
    for step in sampler.steps(tl.Oracle(torch.full((3, 3), 1 / 9), tl.Uniform(3)), batch=2):
        assert_type(step, tl.Step)
        assert_type(step.tokens, torch.Tensor)
        break
