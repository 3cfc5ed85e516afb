"""Wrong input: a ValueError with a sentence, before any computation, as a user meets it (shape checks off)."""

from collections.abc import Callable

import pytest
import torch

import tokenloom as tl

pytestmark = pytest.mark.usefixtures("as_a_user")

K = 5
UNIFORM, MASKED = tl.Uniform(K), tl.Masked(K)
TOKENS = torch.tensor([[0, 1, 4]])
HALF = torch.tensor([0.5])
NOISY = tl.Noisy(TOKENS, HALF, HALF)
LOGITS = torch.zeros(1, 3, K)


def with_entry(value: float) -> torch.Tensor:
    logits = LOGITS.clone()
    logits[0, 1, 2] = value
    return logits


CASES: list[tuple[str, Callable[[], object], str]] = [
    ("float tokens", lambda: UNIFORM.corrupt(TOKENS.float(), HALF), "x_0 must hold int64 token ids, got torch.float32"),
    ("int32 tokens", lambda: UNIFORM.corrupt(TOKENS.int(), HALF), "x_0 must hold int64 token ids, got torch.int32"),
    ("one-dimensional tokens", lambda: UNIFORM.corrupt(TOKENS[0], HALF), r"x_0 must have shape \[batch, length\], got \[3\]"),
    ("a token too large", lambda: UNIFORM.corrupt(TOKENS + 1, HALF), r"x_0 must hold token ids in 0\.\.4, got 5"),
    ("a negative token", lambda: UNIFORM.corrupt(TOKENS - 1, HALF), r"x_0 must hold token ids in 0\.\.4, got -1"),
    ("a mask in clean data", lambda: tl.Masked(K, mask_id=1).corrupt(TOKENS, HALF), "must not contain the mask id 1"),
    ("an integer time", lambda: UNIFORM.corrupt(TOKENS, torch.tensor([1])), "t must be a float tensor, got torch.int64"),
    ("a time after 1", lambda: UNIFORM.corrupt(TOKENS, HALF * 3), r"t must be in \[0, 1\], got 1.5"),
    ("a time that is NaN", lambda: UNIFORM.corrupt(TOKENS, HALF * torch.nan), r"t must be in \[0, 1\], got nan"),
    ("times of another batch", lambda: UNIFORM.corrupt(TOKENS, torch.rand(2)), r"t must have shape \[1\], one value per sequence, got \[2\]"),
    ("times on another device", lambda: UNIFORM.corrupt(TOKENS, HALF.to("meta")), "t is on meta but the tokens are on cpu"),
    ("a mask of another dtype", lambda: UNIFORM.corrupt(TOKENS, HALF, None, TOKENS), "given must be a bool mask, got torch.int64"),
    ("a mask of another shape", lambda: UNIFORM.corrupt(TOKENS, HALF, None, TOKENS[:, :2] > 0), r"given must have the tokens' shape \[1, 3\]"),
    ("a mask id beyond K", lambda: tl.Masked(K, mask_id=6), r"mask_id must be in 0\.\.4 \(inside the vocabulary\) or 5"),
    ("a negative mask id", lambda: tl.MaskedUniform(K, mask_id=-1), r"mask_id must be in 0\.\.4"),
    ("a vocabulary of one", lambda: tl.Uniform(1), "at least 2 tokens, got 1"),
    ("a state with a level above 1", lambda: UNIFORM.bridge(tl.Noisy(TOKENS, HALF, HALF * 4), HALF / 2, TOKENS), r"alpha_t must be in \[0, 1\], got 2"),
    ("an auxiliary sequence of another shape", lambda: tl.AbsorbingUniform(K).bridge(tl.Noisy(TOKENS, HALF, HALF, TOKENS[:, :1]), HALF / 2, TOKENS), r"aux must have the tokens' shape \[1, 3\], got \[1, 1\]"),
    ("an auxiliary token outside", lambda: tl.AbsorbingUniform(K).bridge(tl.Noisy(TOKENS, HALF, HALF, TOKENS + 9), HALF / 2, TOKENS), r"aux must hold token ids in 0\.\.4, got 13"),
    ("clean tokens of another shape", lambda: UNIFORM.bridge(NOISY, HALF / 2, TOKENS[:, :1]), r"x_0 must have the tokens' shape \[1, 3\], got \[1, 1\]"),
    ("s = t", lambda: UNIFORM.bridge(NOISY, HALF, tl.Denoiser(LOGITS)), "needs s < t, got s = 0.5 and t = 0.5"),
    ("a forward step back", lambda: UNIFORM.forward(NOISY, HALF / 2), "a forward step needs s < t, got s = 0.5 and t = 0.25"),
    ("logits of another length", lambda: UNIFORM.bridge(NOISY, HALF / 2, tl.Denoiser(LOGITS[:, :2])), r"logits must have shape \[1, 3, 5\] \(batch, length, vocabulary\), got \[1, 2, 5\]"),
    ("logits over another vocabulary", lambda: MASKED.bridge(NOISY, HALF / 2, tl.Denoiser(torch.zeros(1, 3, K + 1))), r"logits must have shape \[1, 3, 5\]"),
    ("integer logits", lambda: UNIFORM.bridge(NOISY, HALF / 2, tl.Denoiser(LOGITS.long())), "logits must be a float tensor"),
    ("NaN logits", lambda: UNIFORM.bridge(NOISY, HALF / 2, tl.Denoiser(with_entry(torch.nan))), r"logits at \[0, 1\] hold NaN"),
    ("infinite logits", lambda: UNIFORM.reverse_rates(NOISY, tl.LeaveOneOut(with_entry(torch.inf))), r"logits at \[0, 1\] hold \+inf"),
    ("an impossible position", lambda: tl.draw(torch.full((2, 4), -torch.inf)), r"logits at \[0\] hold only -inf"),
    ("NaN in a draw", lambda: tl.draw(with_entry(torch.nan)), r"logits at \[0, 1\] hold NaN"),
    ("NaN in a truncation", lambda: tl.truncate(with_entry(torch.nan), tl.Truncation(top_p=0.5)), r"logits at \[0, 1\] hold NaN"),
    ("a score in a bridge", lambda: UNIFORM.bridge(NOISY, HALF / 2, tl.Score(LOGITS)), r"a step of Uniform takes a Denoiser, a LeaveOneOut or clean tokens, got a Score; convert\(..., LeaveOneOut, x_t, alpha_t, process\) first"),
    ("clean tokens outside", lambda: UNIFORM.bridge(NOISY, HALF / 2, TOKENS + 1), r"x_0 must hold token ids in 0\.\.4, got 5"),
    ("a score in rates given times", lambda: tl.MaskedUniform(K).reverse_rates(NOISY, tl.Score(LOGITS)), r"a step of MaskedUniform takes .*, got a Score; convert\(..., Denoiser,"),
    ("a coupling that does not exist", lambda: tl.Hybrid(K).with_coupling(tl.couplings.Maximal()), "the Maximal coupling needs noise that only grows, .* MaskAndUniform noise falls before t = 1; use the Markov coupling"),
    ("max coupling forward", lambda: tl.MaxCoupling(K).forward(NOISY, HALF + 0.1), "MaxCoupling is not Markov: x_t depends on x_0 beyond x_s"),
    ("left to right forward", lambda: tl.LeftToRight(K).forward(NOISY, HALF + 0.1), "LeftToRight is not Markov: x_t depends on x_0 beyond x_s"),
    ("left to right bridge", lambda: tl.LeftToRight(K).bridge(NOISY, HALF / 2, tl.LeaveOneOut(LOGITS)), "LeftToRight has no bridge: .* use the autoregressive sampler"),
    ("a clean sequence of another length", lambda: tl.MaxCoupling(K).forward_rates(NOISY, TOKENS[:, :2]), r"x_0 must .* shape \[1, 3\], got \[1, 2\]"),
    ("one row of a generator per row", lambda: tl.draw(torch.zeros(K), tl.RowGenerators([0])), "generators for 1 rows, but the batch has no rows"),
    ("left to right rates", lambda: tl.LeftToRight(K).reverse_rates(NOISY, tl.LeaveOneOut(LOGITS)), "LeftToRight has no reverse rates"),
    ("left to right forward rates", lambda: tl.LeftToRight(K).forward_rates(NOISY), "LeftToRight is not Markov"),
    ("an oracle from left to right", lambda: tl.Oracle(torch.full((K,), 0.2), tl.LeftToRight(K)), "an oracle sees every position, and under LeftToRight a prediction"),
    ("an oracle moved to left to right", lambda: tl.Oracle(torch.full((K,), 0.2), UNIFORM).with_process(tl.LeftToRight(K)), "an oracle sees every position"),
    ("max coupling forward rates", lambda: tl.MaxCoupling(K).forward_rates(NOISY), "MaxCoupling is not Markov: x_t depends on x_0 beyond x_s; use corrupt"),
    ("no absorbing sequence", lambda: tl.AbsorbingUniform(K).bridge(NOISY, HALF / 2, tl.Denoiser(LOGITS)), "the state lacks the absorbing sequence U, its auxiliary variable"),
    ("no transition times", lambda: tl.MaskedUniform(K).bridge(NOISY, HALF / 2, tl.Denoiser(LOGITS)), "the state lacks the transition times tau, its auxiliary variable"),
    ("alpha above 1", lambda: tl.convert(tl.Denoiser(LOGITS), tl.LeaveOneOut, TOKENS, HALF * 3, UNIFORM), r"alpha_t must be in \[0, 1\], got 1.5"),
    ("alpha below 0", lambda: tl.convert(tl.Denoiser(LOGITS), tl.LeaveOneOut, TOKENS, -HALF, UNIFORM), r"alpha_t must be in \[0, 1\], got -0.5"),
    ("logits on another device", lambda: tl.convert(tl.Denoiser(LOGITS.to("meta")), tl.LeaveOneOut, TOKENS, HALF, UNIFORM), "logits is on meta but the tokens are on cpu"),
    ("a score over tokens only", lambda: tl.convert(tl.Score(LOGITS), tl.LeaveOneOut, TOKENS, HALF, MASKED), r"log_ratios must have shape \[1, 3, 6\]"),
    ("no such representation", lambda: tl.convert(tl.Denoiser(LOGITS), torch.Tensor, TOKENS, HALF, UNIFORM), "converts to Denoiser, LeaveOneOut or Score, got <class 'torch.Tensor'>"),  # type: ignore[type-var]
    ("pi of another vocabulary", lambda: tl.Interpolating(K, torch.full((3, 4), 0.25)), r"pi must be a float table of shape \[length, 5\], got \[3, 4\]"),
    ("pi that is no distribution", lambda: tl.Interpolating(K, torch.ones(3, K)), "every row of pi must be a distribution"),
    ("pi of another length", lambda: tl.Interpolating(K, torch.full((2, K), 0.2)).corrupt(TOKENS, HALF), "the noise is given for length 2, got tokens of length 3"),
    ("p0 of another vocabulary", lambda: tl.Oracle(torch.full((4, 4), 1 / 16), UNIFORM), r"shape \[K\] \* L with K = 5 as in the process, got \[4, 4\]"),
    ("p0 that does not sum to 1", lambda: tl.Oracle(torch.ones(K), UNIFORM), "p0 must sum to 1, got 5"),
    ("p0 below 0", lambda: tl.Oracle(torch.tensor([1.5, -0.5, 0, 0, 0]), UNIFORM), "p0 must not be negative or NaN, got -0.5"),
    ("p0 on the mask", lambda: tl.Oracle(torch.full((K,), 0.2), tl.Masked(K, mask_id=3)), "p_0 puts mass on token 3, which is the mask"),
    ("p0 on the mask, by a chain", lambda: tl.MarkovOracle(torch.full((K,), 0.2), torch.full((K, K), 0.2), 3, tl.Masked(K, mask_id=3)), "p_0 puts mass on token 3"),
    ("a chain of another vocabulary", lambda: tl.MarkovOracle(torch.full((4,), 0.25), torch.full((4, 4), 0.25), 3, UNIFORM), r"must have shapes \[5\] and \[5, 5\] as in the process, got \[4\] and \[4, 4\]"),
    ("an empty chain", lambda: tl.MarkovOracle(torch.full((K,), 0.2), torch.full((K, K), 0.2), 0, UNIFORM), "length must be at least 1, got 0"),
    ("a state of another length", lambda: tl.Oracle(torch.full((K,), 0.2), UNIFORM).predict(NOISY), "knows sequences of length 1, got 3"),
    ("an unknown prediction", lambda: tl.Oracle(torch.full((K,), 0.2), UNIFORM, predicts=int), "predicts must be Denoiser, LeaveOneOut or Score"),  # type: ignore[type-var]
]  # fmt: skip


@pytest.mark.parametrize(("make", "sentence"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_wrong_input_gets_a_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()
