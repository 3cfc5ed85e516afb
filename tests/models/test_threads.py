"""One model asked by several threads: the mode of its modules is theirs together, and each gets what it gets alone."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

import pytest
import torch
from torch import Tensor, nn

import tokenloom as tl
from tokenloom.models.evaluating import evaluating

pytestmark = pytest.mark.usefixtures("as_a_user")  # shape checks take turns on one interpreter

K, L = 11, 6


class Dropping(nn.Module):
    """Drops half of its features in train mode; one part stays in eval mode, as a frozen one would."""

    length = L

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed, self.drop, self.out = nn.Embedding(K, 32), nn.Dropout(0.5), nn.Linear(32, K)
        self.frozen = nn.Sequential(nn.Dropout(0.5)).eval()

    def forward(self, tokens: Tensor, time: Tensor) -> Tensor:
        hidden = self.embed(tokens) + self.embed(tokens).mean(1, keepdim=True)
        logits: Tensor = self.out(self.drop(self.frozen(hidden)))
        return 3 * logits


MODEL = tl.DiffusionModel(Dropping(), tl.Uniform(K))
MODES = [module.training for module in MODEL.modules()]
"""Most of it in train mode, the frozen part in eval mode."""


def sampled() -> Tensor:
    return tl.sample(MODEL, 3, steps=3, generator=torch.Generator().manual_seed(5))


def bounded() -> Tensor:
    x_0 = torch.arange(4 * L).view(4, L) % K
    return tl.nelbo(MODEL, x_0, generator=torch.Generator().manual_seed(5)).per_sequence


def in_threads(work: Callable[[], Tensor], count: int = 4) -> list[Tensor]:
    """What each of several threads gets; they start together, and end at different times."""
    start = Barrier(count)

    def run(number: int) -> list[Tensor]:
        start.wait()
        return [work() for _ in range(1 + number % 2)]

    with ThreadPoolExecutor(count) as pool:
        return [one for found in pool.map(run, range(count)) for one in found]


@pytest.mark.parametrize(("work", "rounds"), [(sampled, 12), (bounded, 3)])
def test_threads_that_ask_one_model_in_train_mode_get_what_one_thread_gets_and_leave_every_mode(
    work: Callable[[], Tensor], rounds: int
) -> None:
    assert {True, False} == set(MODES)
    alone = work()
    for _ in range(rounds):
        found = in_threads(work)
        assert len(found) == 6
        assert all(torch.equal(one, alone) for one in found)
        assert [module.training for module in MODEL.modules()] == MODES


def test_a_model_that_shares_its_network_with_another_keeps_it_in_eval_mode() -> None:
    """One asked inside the other: the inner one ends first and must not end the outer one's mode."""
    network = Dropping()
    model = tl.DiffusionModel(network, tl.Uniform(K))
    other = model.with_process(tl.Uniform(K, schedule=tl.CosineSchedule()))
    with evaluating(model):
        tl.sample(other, 1, steps=2)
        assert not network.drop.training
    assert [module.training for module in model.modules()] == MODES


def test_sampling_between_the_steps_of_sampling_changes_neither_tokens_nor_modes() -> None:
    """As `on_step` may, which finds every module in the mode it was left in."""
    other = MODEL.with_process(tl.Uniform(K, schedule=tl.CosineSchedule()))
    seen: list[list[bool]] = []

    def inside(step: tl.Step) -> None:
        tl.sample(other, 1, steps=2)
        seen.append([module.training for module in MODEL.modules()])

    tokens = tl.sample(MODEL, 3, steps=3, generator=torch.Generator().manual_seed(5), on_step=inside)
    assert torch.equal(tokens, sampled())
    assert seen == [MODES] * 3


def test_modes_come_back_after_an_error() -> None:
    def fail(step: tl.Step) -> None:
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        tl.sample(MODEL, 2, steps=3, on_step=fail)
    assert [module.training for module in MODEL.modules()] == MODES
