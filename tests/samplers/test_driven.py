"""A sampler whose network somebody else evaluates has the law of the chain, for either posterior.

Chi-square tests have a false-alarm rate of at most 1e-6.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tests.samplers.helpers import P0, SEQUENCES, K, L, generator, oracle, product
from tests.samplers.laws import bridge_law, pi_of, random_scan
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.posteriors import OverTokens
from tokenloom.samplers.driven import DrivenSampler, randomness_of

ROWS = 20_000
Step = Callable[[Tensor, int, Tensor], Tensor]
"""Takes logits, the index of a step and tokens to tokens."""


def logits_at(model: tl.Oracle, tokens: Tensor, index: int, count: int) -> Tensor:
    """What a network with exact posteriors says before step `index`."""
    t = torch.full((len(tokens),), (count - index) / count, dtype=torch.float64)
    prediction = model.predict(tl.Noisy(tokens, t, EXACT.alpha(t)))
    assert isinstance(prediction, OverTokens)
    return prediction.logits


def drive(model: tl.Oracle, count: int, step: Step, correct: Step | None, corrections: int = 1) -> Tensor:
    """Draw a canvas as the pipeline does: uniform tokens, steps, and corrections of all steps but the last."""
    tokens = torch.randint(K, (ROWS, L), generator=generator(5))
    for index in range(count):
        tokens = step(logits_at(model, tokens, index, count), index, tokens)
        for _ in range(corrections if correct is not None and index + 1 < count else 0):
            assert correct is not None
            tokens = correct(logits_at(model, tokens, index + 1, count), index, tokens)
    return tokens


def chain(count: int, corrections: int = 0) -> Tensor:
    """The law after `count` steps, with random-scan corrections between them, by enumeration."""
    law = torch.full((len(SEQUENCES),), 1 / len(SEQUENCES), dtype=torch.float64)
    for index in range(count):
        alpha = (index + 1) / count
        law = law @ product(bridge_law(tl.Uniform, alpha, index / count))
        for _ in range(corrections if index + 1 < count else 0):
            law = law @ random_scan(brute.marginal(P0, pi_of(tl.Uniform), alpha))
    return law


@pytest.mark.parametrize("corrections", [0, 2])
@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut])
def test_driven_steps_and_corrections_have_the_enumerated_law(predicts: type[OverTokens], corrections: int) -> None:
    corrector = f"random-scan:steps={corrections}" if corrections else None
    driven = DrivenSampler(tl.Sampler.parse("ancestral", corrector=corrector), predicts)
    source, count = generator(), 4
    tokens = drive(
        oracle(tl.Uniform, predicts),
        count,
        lambda logits, index, tokens: driven.step(logits, tokens, index, count, source)[0],
        (lambda logits, index, tokens: driven.correct(logits, tokens, index, count, source, 0))
        if corrections
        else None,
        corrections,
    )
    assert_frequencies(sequence_counts(tokens, K), chain(count, corrections))


def test_the_law_tends_to_p_0() -> None:
    distances = [float((chain(count, 1) - P0.flatten()).abs().sum() / 2) for count in (4, 64)]
    assert distances[1] < 0.01 < distances[0]


@pytest.mark.parametrize(
    ("sampler", "predicts"),
    [("psi", tl.Denoiser), ("planned", tl.LeaveOneOut), ("routing", tl.LeaveOneOut), ("dndm", tl.Denoiser)],
)
def test_a_driven_run_draws_what_the_sampler_draws(sampler: str, predicts: type[OverTokens]) -> None:
    """With its memory, its corrector's order and its truncation: token by token the run of `tl.Sampler`."""
    count, model = 4, oracle(tl.Uniform, predicts)
    chosen = tl.Sampler.parse(sampler, corrector="scan", top_p=0.9, steps=2 * count - 1, grid="uniform")
    expected = chosen.run(model, 50, length=L, generator=generator(3)).tokens
    source, driven, memory = generator(3), DrivenSampler(chosen, predicts), None
    driven.check()
    tokens = model.process.prior(50, L, source, torch.device("cpu")).tokens
    for index in range(count):
        tokens, memory = driven.step(logits_at(model, tokens, index, count), tokens, index, count, source, memory)
        if index + 1 < count:
            logits = logits_at(model, tokens, index + 1, count)
            tokens = driven.correct(logits, tokens, index, count, source, index)
    assert torch.equal(tokens, expected)


def test_a_row_with_its_own_generator_does_not_depend_on_its_batch() -> None:
    driven = DrivenSampler(tl.Sampler.parse("psi", corrector="informed"), tl.Denoiser)
    logits, tokens = torch.randn(3, 4, 6, generator=generator()), torch.zeros(3, 4, dtype=torch.int64)

    def drawn(rows: slice) -> Tensor:
        source = randomness_of([generator(row) for row in range(3)][rows], tokens[rows])
        assert isinstance(source, RowGenerators)
        stepped, _ = driven.step(logits[rows], tokens[rows], 1, 4, source)
        return driven.correct(logits[rows], stepped, 1, 4, source, 0)

    assert torch.equal(drawn(slice(1, 2)), drawn(slice(None))[1:2])


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        ("gillespie", "sampler gillespie cannot be used here: it asks the network about a state of its own"),
        ("ancestral + forward-backward", "corrector forward-backward cannot be used here"),
        ("confidence", "confidence needs a process whose lost tokens become the mask"),
    ],
)
def test_kernels_that_cannot_be_driven_are_refused(sampler: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DrivenSampler(tl.Sampler.parse(sampler), tl.Denoiser).check()


def test_after_the_last_step_nothing_is_corrected() -> None:
    driven = DrivenSampler(tl.Sampler.parse("ancestral + informed"), tl.Denoiser)
    tokens = torch.randint(5, (2, 3))
    assert torch.equal(driven.correct(torch.randn(2, 3, 5), tokens, 3, 4, None, 0), tokens)


def test_generators_that_do_not_fit_get_a_sentence() -> None:
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(ValueError, match="generators for 1 rows, but the batch has 2"):
        randomness_of([generator()], tokens)
    with pytest.raises(ValueError, match="generator is on cpu but the tokens are on meta"):
        randomness_of(generator(), tokens.to("meta"))


def test_corrections_that_a_caller_repeats_are_pieces_of_one() -> None:
    """Of a corrector with m steps each correction is one: `balanced` in parallel runs for its time, not m times it."""
    for text in ("random-scan:steps=3,parallel=2", "informed:steps=3"):
        corrector = tl.Sampler.parse("ancestral", corrector=text).corrector
        assert corrector is not None
        assert corrector.once() == replace(corrector, steps=1)  # type: ignore[call-arg]
    assert tl.samplers.Balanced(steps=4, time=2.0, parallel=True).once() == tl.samplers.Balanced(
        steps=1, time=0.5, parallel=True
    )
    assert tl.samplers.ForwardBackward().once() == tl.samplers.ForwardBackward()


def test_balanced_changes_as_many_tokens_when_driven_as_on_its_own() -> None:
    """Under a flat law, at half of the noise; means over 4,000 rows of 8 tokens, within five of their errors."""
    rows, length, size = 4000, 8, 16
    sampler = tl.Sampler.parse("ancestral", corrector="balanced:steps=4,time=2,parallel=true")
    driven, source = DrivenSampler(sampler, tl.LeaveOneOut), generator(2)
    start = torch.randint(size, (rows, length), generator=source)
    tokens = start
    for call in range(4):
        tokens = driven.correct(torch.zeros(rows, length, size), tokens, 0, 2, source, call)
    moved = (tokens != start).double().sum(1)
    assert float(moved.mean()) < 2.0  # jumps that are expected; without a limit it would be near 4 of 8
    assert float(moved.mean()) == pytest.approx(1.7, abs=0.3)
