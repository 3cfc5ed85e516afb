"""The learning rate follows its law at every step, weights decay by theirs, and a resumed run sees the same of both."""

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.helpers import losses, tiny, train, weights
from tokenloom.training.build import build_model
from tokenloom.training.config import OptimiserConfig
from tokenloom.training.rates import learning_rate
from tokenloom.training.reporting import Reporter
from tokenloom.training.setup import optimiser_of

LR, WARM = 8.0, 4
RISE = [2.0, 4.0, 6.0]
LAWS: list[tuple[dict[str, Any], list[float]]] = [
    ({"decay": "constant"}, [*RISE, *[8.0] * 9]),
    ({"decay": "step", "halve_every": 3}, [*RISE, 8.0, 8.0, 8.0, 8.0, 4.0, 4.0, 4.0, 2.0, 2.0]),
    ({"decay": "linear"}, [rise * (12 - i) / 12 for i, rise in enumerate([*RISE, *[8.0] * 9])]),
    ({"decay": "cosine"}, [*RISE, 8.0, *(4 + 4 * math.cos(math.pi * i / 8) for i in range(8))]),
    (
        {"decay": "cosine", "final_lr": 2.0},
        [*RISE, 8.0, *(2 + 6 * math.cos(math.pi * i / 16) ** 2 for i in range(8))],
    ),
]


def never() -> float:
    raise AssertionError("a run of so many steps does not look at the clock")


@pytest.mark.parametrize(("options", "rates"), LAWS)
def test_the_rate_rises_and_then_follows_its_law(options: dict[str, Any], rates: list[float]) -> None:
    config = OptimiserConfig(lr=LR, warmup=WARM, **options)
    assert [learning_rate(config, step, 12, never) for step in range(12)] == pytest.approx(rates, rel=1e-12)


@pytest.mark.parametrize(
    ("decay", "shares"), [("constant", {}), ("step", {}), ("linear", {0.25: 6.0, 1.0: 0.0}), ("cosine", {0.5: 5.0})]
)
def test_without_a_number_of_steps_a_fall_follows_the_time(decay: Any, shares: dict[float, float]) -> None:
    config = OptimiserConfig(lr=LR, warmup=WARM, decay=decay, final_lr=2.0)
    for share, rate in shares.items():
        assert learning_rate(config, 9, None, lambda share=share: share) == pytest.approx(rate)  # type: ignore[misc]
    if not shares:
        assert learning_rate(config, 9, None, never) == LR


@pytest.mark.parametrize(("warmup", "steps"), [(0, 1), (0, 7), (5, 3), (7, 7)])
@pytest.mark.parametrize("decay", ["constant", "linear", "cosine", "step"])
def test_no_warm_up_and_one_longer_than_the_run_have_finite_rates(decay: Any, warmup: int, steps: int) -> None:
    config = OptimiserConfig(lr=LR, warmup=warmup, decay=decay, halve_every=1)
    found = [learning_rate(config, step, steps, never) for step in range(steps + 2)]
    assert found[0] == LR * min(1.0, 1 / max(1, warmup))
    assert all(0 <= rate <= LR for rate in found)


def test_weights_decay_by_the_rate_and_beside_the_moments(tmp_path: Path) -> None:
    """A step without a gradient multiplies every weight with 1 - lr decay; without decay the step is Adam's."""
    config = tiny(tmp_path, optimiser={"lr": 0.25, "weight_decay": 0.5})
    data = config.data.load()
    model = build_model(config, data)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimiser = optimiser_of(model, config)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    for old, new in zip(before, model.parameters(), strict=True):
        torch.testing.assert_close(new.detach(), old * (1 - 0.25 * 0.5), rtol=0, atol=1e-7)
    plain = replace(config, optimiser=replace(config.optimiser, weight_decay=0.0))
    first, second = build_model(plain, data), build_model(plain, data)
    second.load_state_dict(first.state_dict())
    options = plain.optimiser
    theirs = torch.optim.Adam(second.parameters(), options.lr, (options.beta1, options.beta2), options.eps)
    for model, stepper in ((first, optimiser_of(first, plain)), (second, theirs)):
        for number, parameter in enumerate(model.parameters()):
            parameter.grad = torch.full_like(parameter, 0.1 * number)
        stepper.step()
    assert all(map(torch.equal, first.state_dict().values(), second.state_dict().values()))


@pytest.mark.parametrize(
    ("kind", "decay", "weight_decay"), [("adamw", "cosine", 0.1), ("adamw", "step", 0.0), ("muon", "cosine", 0.1)]
)
def test_a_resumed_run_is_the_uninterrupted_one(kind: str, decay: str, weight_decay: float, tmp_path: Path) -> None:
    own: dict[str, float] = {"halve_every": 2} if decay == "step" else {"final_lr": 1e-5}
    optimiser = {"kind": kind, "decay": decay, "weight_decay": weight_decay, "warmup": 1} | own
    whole, cut = (
        tiny(tmp_path / name, optimiser=optimiser, run={"checkpoint_every": 3, "valid_rows": 8}, max_steps=6)
        for name in ("whole", "cut")
    )
    train(whole, reporter=Reporter())
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut" / "checkpoints" / "step_000000006")
    train(cut, resume=True, reporter=Reporter())
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    assert weights(tmp_path / "cut", 6) == weights(tmp_path / "whole", 6)
