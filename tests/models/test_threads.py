"""The number of threads is the one on which the work is fastest, unless the user has chosen."""

from collections.abc import Iterator

import pytest
import torch

import tokenloom as tl
from tokenloom.models import threads
from tokenloom.models.threads import fastest_threads, fit_threads


@pytest.fixture(autouse=True)
def four_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        ({4: 1.0, 2: 2.0}, (4, 1.0)),
        ({4: 1.0, 2: 0.5, 1: 0.6}, (2, 0.5)),
        ({4: 1.0, 2: 0.5, 1: 0.2}, (1, 0.2)),
    ],
)
def test_half_as_many_are_tried_as_long_as_that_is_faster(seconds: dict[int, float], found: tuple[int, float]) -> None:
    assert fastest_threads(lambda: seconds[torch.get_num_threads()]) == found
    assert torch.get_num_threads() == 4


def test_a_number_in_the_environment_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert fastest_threads(lambda: {4: 1.0}[torch.get_num_threads()]) == (4, 1.0)


def test_a_model_runs_on_what_is_fastest_unless_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tl.DiffusionModel(lambda tokens, time: torch.zeros(*tokens.shape, 3), tl.Uniform(3))
    monkeypatch.setattr(threads, "repeat", lambda work, repeat, number: [float(torch.get_num_threads())])
    monkeypatch.setattr(threads, "timeit", lambda work, number: 0.2)
    fit_threads(model, 2, 5)
    assert torch.get_num_threads() == 4  # enough work to make up for waiting
    monkeypatch.setattr(threads, "timeit", lambda work, number: 0.01)
    fit_threads(model, 2, 5)
    assert torch.get_num_threads() == 1
