"""What every schedule must do, over the registry and at settings of their own: a new one joins by being there."""

from collections.abc import Callable

import pytest
import torch

import tokenloom as tl
from tokenloom.schedules import SCHEDULES

SETTINGS = [tl.LinearSchedule(eps=0.0), tl.CosineSchedule(eps=0.0), tl.PolynomialSchedule(power=1.0)]
every_schedule = pytest.mark.parametrize("schedule", [*map(SCHEDULES.parse, SCHEDULES), *SETTINGS], ids=repr)


@every_schedule
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_alpha_is_exactly_1_at_0_decreasing_and_finite_at_1(schedule: tl.Schedule, dtype: torch.dtype) -> None:
    t = torch.linspace(0, 1, 1001, dtype=dtype)
    alpha, slope = schedule.alpha(t), schedule.alpha_prime(t)
    assert alpha[0] == 1
    assert schedule.inverse(torch.ones((), dtype=dtype)) == 0
    assert (alpha.diff() <= 0).all()
    assert (alpha[::10].diff() < 0).all()
    assert alpha[-1] >= 0
    assert slope.isfinite().all()
    assert (slope <= 0).all()


@every_schedule
def test_alpha_prime_is_the_derivative(schedule: tl.Schedule) -> None:
    t = torch.linspace(0.01, 0.99, 99, dtype=torch.float64, requires_grad=True)
    (derivative,) = torch.autograd.grad(schedule.alpha(t).sum(), t)
    torch.testing.assert_close(schedule.alpha_prime(t.detach()), derivative, rtol=1e-10, atol=1e-14)


@every_schedule
def test_inverse_undoes_alpha(schedule: tl.Schedule) -> None:
    t = torch.linspace(0, 1, 101, dtype=torch.float64)
    found = schedule.inverse(schedule.alpha(t))
    torch.testing.assert_close(found, t, rtol=0, atol=1e-7)
    torch.testing.assert_close(found[1:-1], t[1:-1], rtol=1e-7, atol=1e-9)


@every_schedule
def test_levels_below_the_last_transition_after_the_end(schedule: tl.Schedule) -> None:
    last = schedule.alpha(torch.ones((), dtype=torch.float64))
    if last > 1e-12:
        assert schedule.inverse(last / 2) > 1
    assert not schedule.inverse(torch.zeros((), dtype=torch.float64)).isnan()


@every_schedule
@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 5)])
def test_any_shape(schedule: tl.Schedule, shape: tuple[int, ...]) -> None:
    t = torch.rand(shape)
    for function in (schedule.alpha, schedule.alpha_prime, schedule.inverse):
        assert function(t).shape == shape


def test_linear_schedule_leaves_eps() -> None:
    schedule = tl.LinearSchedule(eps=1e-3)
    t = torch.tensor([0.0, 0.25, 1.0], dtype=torch.float64)
    torch.testing.assert_close(schedule.alpha(t), 1 - (1 - 1e-3) * t)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: tl.LinearSchedule(eps=1.0), r"eps must be in \[0, 1\), got 1.0"),
        (lambda: tl.CosineSchedule(eps=-0.1), r"eps must be in \[0, 1\), got -0.1"),
        (lambda: tl.PolynomialSchedule(power=0.5), "power must be at least 1, got 0.5"),
        (lambda: tl.GeometricSchedule(sigma_min=0.0), "need 0 < sigma_min < sigma_max, got 0.0"),
    ],
)
def test_wrong_parameters_are_named(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()
