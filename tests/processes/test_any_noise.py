"""Any noise: every row is a state of one process of the mixture, and its evidence is all that is kept of that."""

import itertools
import math
from collections import Counter

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.statistics import assert_frequencies
from tokenloom.cells import PROCESSES
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.training.methods import Method, method_of

K, L, ROWS = 3, 2, 60
SCHEDULE = tl.CosineSchedule(eps=1e-3)
ANY = method_of("any", K, SCHEDULE)


def batch(rows: int = ROWS) -> tuple[Tensor, Tensor, Tensor]:
    """Clean tokens, times and given positions."""
    generator = torch.Generator().manual_seed(4)
    x_0 = torch.randint(0, K, (rows, L), generator=generator)
    return (
        x_0,
        torch.rand(rows, generator=generator, dtype=torch.float64),
        torch.rand(rows, L, generator=generator) < 0.3,
    )


def worth(process: tl.Process, noisy: tl.Noisy) -> Tensor:
    """The evidence, by the table of the docs."""
    alpha, tokens = noisy.alpha_t[:, None], noisy.tokens
    masked = torch.where(tokens == K, 0.0, math.inf).double()
    uniform = torch.log1p(K * alpha / (1 - alpha)).expand(len(tokens), L)
    if process.name == "hybrid":
        tau = 1 - SCHEDULE.alpha(noisy.t)[:, None]
        lost = 2 * 0.1 / 0.9 * (tau * (1 - tau)).sqrt() / K  # of q(x_t | x_0) at another real token, over C
        return torch.where(tokens == K, 0, torch.log1p((1 - tau) / lost))
    if process.name == "absorbing":
        assert noisy.aux is not None
        return torch.where(tokens == noisy.aux, -torch.log1p(-alpha), math.inf)
    return masked if process.name == "masked" else uniform


def test_each_row_is_what_one_process_draws_at_the_same_share_of_lost_tokens() -> None:
    """Bit for bit, by drawing each row again from its own generator: first which process, then the state."""
    x_0, t, given = batch()
    noisy = ANY.corrupted(x_0, t, RowGenerators.spawn(7, ROWS), given)
    assert noisy.evidence is not None
    again, drawn = RowGenerators.spawn(7, ROWS), Counter[str]()
    for row in range(ROWS):
        own = again.select([row])
        process = ANY.processes[int(own.uniform((1, 1)) * 4)]
        time = process.masses.time_at_lost(t[row : row + 1]).clamp(0, 1)
        assert process.alpha(time).item() == pytest.approx(1 - t[row].item(), abs=2e-3)  # eps, where less is left
        state = process.corrupt(x_0[row : row + 1], time, own, given[row : row + 1])
        evidence = worth(process, state).masked_fill(given[row], math.inf)
        assert torch.equal(noisy.tokens[row], state.tokens[0])
        torch.testing.assert_close(noisy.evidence[row], evidence[0], rtol=1e-12, atol=1e-12)
        drawn[process.name] += 1
    assert set(drawn) == {"uniform", "masked", "absorbing", "hybrid"}
    assert torch.equal(noisy.tokens[given], x_0[given])
    assert noisy.evidence[given].isposinf().all()
    assert not noisy.evidence[~given].isnan().any()
    assert torch.equal(noisy.alpha_t, 1 - t)
    for process in ANY.processes:
        assert torch.equal(process.evidence(noisy), noisy.evidence)


def test_a_row_does_not_depend_on_its_batch() -> None:
    x_0, t, given = batch(12)
    whole = ANY.corrupted(x_0, t, RowGenerators.spawn(3, 12), given)
    rows = torch.tensor([9, 2, 5])
    part = ANY.corrupted(x_0[rows], t[rows], RowGenerators.spawn(3, 12).select(rows.tolist()), given[rows])
    assert part.evidence is not None
    assert whole.evidence is not None
    assert torch.equal(part.tokens, whole.tokens[rows])
    assert torch.equal(part.evidence, whole.evidence[rows])


def enumerated(alpha: float, x_0: tuple[int, ...]) -> dict[tuple[object, ...], float]:
    """The law of tokens and evidence of a row, from the definitions: four processes, equally likely."""
    law: dict[tuple[object, ...], float] = {}

    def add(weight: float, each: list[list[tuple[int, float, float]]]) -> None:
        """Positions as lists of (token, evidence, probability)."""
        for row in itertools.product(*each):
            key = tuple(item for token, evidence, _ in row for item in (token, round(evidence, 6)))
            law[key] = law.get(key, 0.0) + weight * math.prod(probability for *_, probability in row)

    def uniform(clean: int, kept: float, other: float, mask: float = 0.0) -> list[tuple[int, float, float]]:
        evidence = math.log1p(kept / other)
        return [(token, evidence, kept * (token == clean) + other) for token in range(K)] + [(K, 0.0, mask)]

    def absorbing(clean: int, u: int) -> list[tuple[int, float, float]]:
        equal = -math.log1p(-alpha)
        return [(u, equal, 1.0)] if u == clean else [(clean, math.inf, alpha), (u, equal, 1 - alpha)]

    add(0.25, [uniform(clean, alpha, (1 - alpha) / K) for clean in x_0])
    add(0.25, [[(clean, math.inf, alpha), (K, 0.0, 1 - alpha)] for clean in x_0])
    for u in itertools.product(range(K), repeat=L):
        add(0.25 / K**L, [absorbing(clean, own) for clean, own in zip(x_0, u, strict=True)])
    tau = float(
        1
        - SCHEDULE.alpha(
            PROCESSES.parse("hybrid", vocab_size=K, schedule=SCHEDULE).time_at(torch.tensor([alpha]).double())
        )
    )
    noise = 2 * 0.1 / 0.9 * math.sqrt(tau * (1 - tau))
    total = 1 + noise
    assert (1 - tau) / total == pytest.approx(alpha)
    add(0.25, [uniform(clean, (1 - tau) / total, noise / K / total, tau / total) for clean in x_0])
    return law


@pytest.mark.parametrize("lost", [0.3, 0.75])
def test_tokens_and_evidence_follow_the_mixture(lost: float) -> None:
    """40,000 rows of one x_0; false-alarm rate 1e-6."""
    x_0, rows = (0, 2), 40_000
    noisy = ANY.corrupted(
        torch.tensor([x_0]).expand(rows, L),
        torch.full((rows,), lost, dtype=torch.float64),
        torch.Generator().manual_seed(11),
        None,
    )
    assert noisy.evidence is not None
    evidence = noisy.evidence.tolist()
    seen = Counter(
        tuple(item for token, worth in zip(*row, strict=True) for item in (token, round(worth, 6)))
        for row in zip(noisy.tokens.tolist(), evidence, strict=True)
    )
    law = enumerated(1 - lost, x_0)
    assert not seen.keys() - law.keys()
    counts = torch.tensor([seen[key] for key in law])
    assert_frequencies(counts, torch.tensor(list(law.values()), dtype=torch.float64))


def test_the_processes_of_a_mixture_share_its_vocabulary_and_schedule() -> None:
    mixture = method_of("any:noises=masked+hybrid:p_uniform=0.4", K, SCHEDULE)
    assert [process.name for process in mixture.processes] == ["masked", "hybrid"]
    assert {(process.vocab_size, process.schedule) for process in mixture.processes} == {(K, SCHEDULE)}
    assert mixture.processes[1] == tl.Hybrid(K, 0.4, schedule=SCHEDULE)
    assert (mixture.input_states, method_of("any:noises=uniform+absorbing", K, SCHEDULE).input_states) == (K + 1, K)
    assert mixture.mixed
    assert mixture.process == tl.Masked(K, schedule=SCHEDULE)


def test_one_process_is_corrupted_as_it_is() -> None:
    x_0, t, given = batch(8)
    for process in (tl.Uniform(K), tl.MaskedUniform(K), tl.Hybrid(K)):
        mine, its = (
            corrupted(x_0, t, RowGenerators.spawn(2, 8), given)
            for corrupted in (Method((process,)).corrupted, process.corrupted)
        )
        assert torch.equal(mine.tokens, its.tokens)
        assert mine.evidence is None
        assert (mine.aux is None) == (its.aux is None)


def test_the_ends_of_the_level_are_clean_and_empty() -> None:
    x_0, _, _ = batch(64)
    for lost, expected in ((0.0, math.inf), (1.0, 0.0)):
        noisy = method_of("any", K, tl.LinearSchedule(eps=0.0)).corrupted(
            x_0, torch.full((64,), lost, dtype=torch.float64), RowGenerators.spawn(1, 64), None
        )
        assert noisy.evidence is not None
        assert (noisy.evidence == expected).all()
        assert lost == 1 or torch.equal(noisy.tokens, x_0)


@pytest.mark.parametrize(
    ("noises", "sentence"),
    [
        ("uniform+mask", "there is no process 'mask'; did you mean masked"),
        ("uniform+any", "there is no process 'any'"),
        ("left-to-right", r"noises are processes that see every position, joined by \+, got 'left-to-right'"),
        ("uniform+ar", "there is no process 'ar'"),
        ("", "there is no process ''"),
        ("interpolating", "interpolating needs its option pi"),
        ("hybrid:p_uniform=0.1+hybrid:p_uniform=0.5", "noises names 'hybrid' twice; each process may be there once"),
    ],
)
def test_what_is_not_a_noise_is_named(noises: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        method_of(f"any:noises={noises}", K, SCHEDULE)
