"""Wrong types and values: a ValueError that names the argument, the value and the limit, before any computation."""
# mypy: disable-error-code="arg-type,call-overload,list-item,type-var"

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tokenloom as tl
from tokenloom.drawing.randomness import starting_at
from tokenloom.samplers import Evaluator, LazyPrediction
from tokenloom.support.checks import check_device

pytestmark = pytest.mark.usefixtures("as_a_user")

K = 5
UNIFORM, MASKED = tl.Uniform(K), tl.Masked(K)
LAW = torch.full((K,), 0.2)
TABLE = torch.full((K, K, K), K**-3.0)
MODEL = tl.Oracle(TABLE, UNIFORM)
TOKENS = torch.tensor([[0, 1, 4]])
HALF = torch.tensor([0.5])
NOISY = tl.Noisy(TOKENS, HALF, HALF)
LOGITS = torch.zeros(1, 3, K)


def with_entry(value: float) -> torch.Tensor:
    logits = LOGITS.clone()
    logits[0, 1, 2] = value
    return logits


def returning(output: object) -> tl.DiffusionModel:
    return tl.DiffusionModel(lambda tokens, time: output, UNIFORM)


CASES: list[tuple[str, Callable[[], object], str]] = [
    ("a truncation beside its settings", lambda: tl.sample(MODEL, 1, truncation={"top_p": 0.5}), "a sampler has no setting 'truncation'; known are temperature, top_p"),
    ("a dict for a setting", lambda: tl.sample(MODEL, 1, top_p={"top_p": 0.5}), r"top_p must be a number, got \{'top_p': 0.5\}"),
    ("a function for a process", lambda: tl.Oracle(TABLE, tl.Uniform), r"process must be a Process, got the function Uniform itself; build one, as in Uniform\(...\)"),
    ("a class for a noise", lambda: tl.Process(tl.noise.Uniform), r"noise must be a Noise, got the class Uniform itself; build one, as in Uniform\(...\)"),
    ("a noise for a coupling", lambda: tl.Process(tl.noise.Uniform(K), tl.noise.Uniform(K)), "coupling must be a Coupling, got Uniform"),
    ("a class for a model", lambda: tl.sample(tl.Oracle, 1), "model must be a Model, got the class Oracle itself"),
    ("a class for a sampler", lambda: tl.sample(MODEL, 1, sampler=tl.samplers.Psi), "sampler must be a Sampler or a Predictor or a text, got the class Psi itself"),
    ("a process for a model", lambda: tl.sample(UNIFORM, 1), r"model must be a Model, got Process\(noise=Uniform\(vocab_size=5\)"),
    ("a list for tokens", lambda: UNIFORM.corrupt([[0, 1]], HALF), "x_0 must be an int64 tensor of shape .*, got a list; pass torch.tensor"),
    ("a list for a table", lambda: tl.Oracle([[1.0]], UNIFORM), "p0 must be a float tensor of shape .*, got a list; pass torch.tensor"),
    ("numpy tokens", lambda: UNIFORM.corrupt(np.zeros((1, 2), np.int64), HALF), r"x_0 must be an int64 tensor of shape .*, got a numpy array; pass torch.from_numpy\(x\)"),
    ("numpy logits", lambda: tl.draw(np.zeros((1, 2))), r"logits must be a float tensor of shape .*, got a numpy array; pass torch.from_numpy\(x\)"),
    ("numpy inside a prediction", lambda: tl.convert(tl.Denoiser(np.zeros((1, 3, K))), tl.LeaveOneOut, TOKENS, HALF, UNIFORM), r"logits must be a float tensor .*pass torch.from_numpy\(x\)"),
    ("swapped arguments", lambda: tl.Oracle(UNIFORM, TABLE), "p0 must be a float tensor of shape .*, got Process"),
    ("swapped model and batch", lambda: tl.sample(1, MODEL), "model must be a Model, got 1"),
    ("a float for steps", lambda: tl.Sampler(steps=2.0), "steps must be a whole number, got 2.0"),
    ("a float for a vocabulary", lambda: tl.Masked(27.0), "vocab_size must be a whole number, got 27.0"),
    ("a float for a length", lambda: tl.sample(MODEL, 1, length=2.0), "length must be a whole number or None, got 2.0"),
    ("True for a count", lambda: tl.sample(MODEL, True), "batch must be a whole number, got True"),
    ("a text for a number", lambda: tl.Truncation(temperature="hot"), "temperature must be a number, got 'hot'"),
    ("a text for an option", lambda: tl.samplers.Psi(kappa="0.9"), "kappa must be a number, got '0.9'"),
    ("a text for corrector steps", lambda: tl.samplers.RandomScan(steps="2"), "steps must be a whole number, got '2'"),
    ("a text for eps", lambda: tl.LinearSchedule(eps="small"), "eps must be a number, got 'small'"),
    ("an eps of 1", lambda: tl.LinearSchedule(eps=1.0), r"eps must be in \[0, 1\), got 1.0"),
    ("an eps below 0", lambda: tl.CosineSchedule(eps=-0.1), r"eps must be in \[0, 1\), got -0.1"),
    ("a power below 1", lambda: tl.PolynomialSchedule(power=0.5), "power must be at least 1, got 0.5"),
    ("a sigma_min of 0", lambda: tl.GeometricSchedule(sigma_min=0.0), "need 0 < sigma_min < sigma_max, got 0.0"),
    ("a text for a mask", lambda: tl.Masked(K, mask_id="[MASK]"), r"mask_id must be a whole number or None, got '\[MASK\]'"),
    ("None for a schedule", lambda: tl.Uniform(K, schedule=None), "schedule must be a Schedule, got None"),
    ("a number for a generator", lambda: tl.sample(MODEL, 1, generator=3), "generator must be a Generator or a RowGenerators or None, got 3"),
    ("flags alone for given", lambda: tl.sample(MODEL, 1, given=torch.ones(2).bool()), "given must be a pair .*, got a tensor of shape"),
    ("lists for given", lambda: tl.sample(MODEL, 1, given=([0, 1], [True, False])), "given must be a pair"),
    ("texts for forbidden tokens", lambda: tl.sample(MODEL, 1, forbid="a"), "forbid must be a sequence of whole numbers, got 'a'"),
    ("a seed of 80 digits", lambda: starting_at(10**79), "seed must fit into 64 bits, got a number of 80 digits"),
    ("a seed for seeds", lambda: tl.RowGenerators(3), "seeds must be a sequence of whole numbers, got 3"),
    ("an objective by name", lambda: tl.training_loss(MODEL, "ce", TOKENS, HALF), "objective must be an Objective, got 'ce'"),
    ("a class for an objective", lambda: tl.training_loss(MODEL, tl.objectives.CrossEntropy, TOKENS, HALF), "objective must be an Objective, got the class CrossEntropy itself"),
    ("a state for tokens", lambda: tl.convert(tl.Denoiser(LOGITS), tl.LeaveOneOut, tl.Noisy(TOKENS, HALF, HALF), HALF, UNIFORM), "x_t must be an int64 tensor"),
    ("logits for a prediction", lambda: tl.convert(LOGITS, tl.LeaveOneOut, TOKENS, HALF, UNIFORM), "posterior must be a Posterior, got a tensor of shape"),
    ("tokens for a state", lambda: UNIFORM.bridge(TOKENS, HALF, TOKENS), "noisy must be a Noisy, got a tensor of shape"),
    ("a state of lists", lambda: UNIFORM.bridge(tl.Noisy([[0, 1]], HALF, HALF), HALF / 2, TOKENS), "tokens must be an int64 tensor"),
    ("a marginal of tokens outside", lambda: UNIFORM.marginal(tl.Noisy(TOKENS, HALF, HALF), TOKENS + 5), r"x_0 must hold token ids in 0\.\.4, got 9"),
    ("a marginal at tokens outside", lambda: UNIFORM.marginal(tl.Noisy(TOKENS + 5, HALF, HALF), TOKENS), r"x_t must hold token ids in 0\.\.4, got 9"),
    ("other clean tokens for a resampling", lambda: tl.MaskedUniform(K).resample(TOKENS[:, :2], TOKENS, HALF), r"x_0 must have the tokens' shape \[1, 3\], got \[1, 2\]"),
    ("a network that is none", lambda: tl.DiffusionModel("dit", UNIFORM), "network must be a Callable, got 'dit'"),
    ("sparse logits", lambda: tl.draw(LOGITS.to_sparse()), r"logits must be a float tensor .*, got a tensor of layout torch.sparse_coo; call .to_dense\(\) first"),
    ("meta logits", lambda: tl.draw(LOGITS.to("meta")), "logits must be .*, got a tensor on meta, where tensors hold no values"),
    ("logits that are dense first and sparse then", lambda: [tl.draw(x) for x in (LOGITS, LOGITS.to_sparse())], "sparse_coo"),
    ("integer logits", lambda: tl.draw(LOGITS.long()), "logits must be a float tensor .*, got torch.int64"),
    ("bool logits", lambda: tl.draw(LOGITS.bool()), "logits must be a float tensor .*torch.bool"),
    ("sparse logits in a prediction", lambda: tl.convert(tl.Denoiser(LOGITS.to_sparse()), tl.LeaveOneOut, TOKENS, HALF, UNIFORM), "sparse_coo"),
    ("meta logits in a prediction", lambda: tl.convert(tl.Denoiser(LOGITS.to("meta")), tl.LeaveOneOut, TOKENS, HALF, UNIFORM), "on meta"),
    ("integer logits in a prediction", lambda: tl.convert(tl.Denoiser(LOGITS.long()), tl.LeaveOneOut, TOKENS, HALF, UNIFORM), "logits must be a float tensor"),
    ("a network that returns integers", lambda: tl.sample(returning(LOGITS.long()), 1, length=3), "logits must be a float tensor .*, got torch.int64"),
    ("a network that returns a sparse tensor", lambda: tl.sample(returning(LOGITS.to_sparse()), 1, length=3), "the network must return a dense tensor .*sparse_coo"),
    ("a network that returns a meta tensor", lambda: tl.training_loss(returning(LOGITS.to("meta")), tl.objectives.CrossEntropy(), TOKENS, HALF), "the network must return .* on meta"),
    ("a model on meta", lambda: tl.sample(tl.DiffusionModel(torch.nn.Embedding(K, K, device="meta"), UNIFORM), 1, length=3), "the model is on meta"),
    ("rows of no length to train on", lambda: tl.training_loss(MODEL, tl.objectives.CrossEntropy(), TOKENS[:, :0], HALF), r"x_0 has shape \[1, 0\]; a row has at least one position"),
    ("rows of no length to score", lambda: tl.nelbo(MODEL, TOKENS[:, :0]), r"x_0 has shape \[1, 0\]"),
    ("a network that does not embed the mask", lambda: tl.sample(tl.DiffusionModel(lambda tokens, time: torch.nn.Embedding(K, K)(tokens), MASKED), 1, length=3), r"the network fails on ids 0\.\.5, where 5 is the mask; it must embed 6 ids"),
    ("a network that returns a dict", lambda: tl.sample(returning({"logits": LOGITS}), 1, length=3), "the network must return logits of shape .*, got a dict; pass a function that returns its logits"),
    ("a network that returns an output", lambda: tl.sample(returning(SimpleNamespace(logits=LOGITS)), 1, length=3), r"got a SimpleNamespace with logits; pass lambda tokens, time: network\(tokens\).logits"),
    ("a network that returns nothing", lambda: tl.sample(returning(None), 1, length=3), "the network must return logits of shape .*, got a NoneType"),
    ("NaN in one row of a draw", lambda: tl.draw(torch.tensor([0.0, torch.nan])), "logits hold NaN"),
    ("NaN in one row of a truncation", lambda: tl.truncate(torch.tensor([0.0, torch.nan]), tl.Truncation(top_k=1)), "logits hold NaN"),
    ("one impossible row", lambda: tl.draw(torch.full((4,), -torch.inf)), "logits hold only -inf"),
    ("a number for a level", lambda: tl.LinearSchedule().alpha(0.5), "t must be a float tensor of shape .*, got 0.5"),
    ("flags for a level", lambda: tl.CosineSchedule().inverse(TOKENS > 0), "alpha must be a float tensor of shape .*, got a tensor of shape .* and torch.bool"),
    ("a number beyond 64 bits", lambda: tl.PolynomialSchedule(power=2**70), "power must fit into 64 bits, got a number of 22 digits"),
    ("more than a machine holds", lambda: UNIFORM.prior(2, 10**18), "a batch of 2 sequences of length 1000000000000000000 needs about .* GB"),
    ("an array for a representation", lambda: tl.convert(tl.Denoiser(LOGITS), np.zeros(3), TOKENS, HALF, UNIFORM), "converts to Denoiser, LeaveOneOut or Score, got array"),
    ("whole numbers for logits", lambda: tl.draw(torch.zeros(3).long()), "logits must be a float tensor with a last dimension, got torch.int64"),
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
    ("a tensor on another device", lambda: check_device("t", SimpleNamespace(device="cuda:0"), TOKENS), "t is on cuda:0 but the tokens are on cpu"),
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
    ("rates where nothing is left", lambda: (process := tl.Hybrid(K)).reverse_rates(process.prior(1, 3), tl.LeaveOneOut(LOGITS)), "rates of Hybrid are infinite at t = 1; ask for them inside"),
    ("rates at the start of a root", lambda: (process := tl.Hybrid(K)).forward_rates(process.corrupt(TOKENS, torch.zeros(1))), "rates of Hybrid are infinite at t = 0; ask for them inside"),
    ("left to right rates", lambda: tl.LeftToRight(K).reverse_rates(NOISY, tl.LeaveOneOut(LOGITS)), "LeftToRight has no reverse rates"),
    ("left to right forward rates", lambda: tl.LeftToRight(K).forward_rates(NOISY), "LeftToRight is not Markov"),
    ("an oracle from left to right", lambda: tl.Oracle(LAW, tl.LeftToRight(K)), "an oracle sees every position, and under LeftToRight a prediction"),
    ("an oracle moved to left to right", lambda: tl.Oracle(LAW, UNIFORM).with_process(tl.LeftToRight(K)), "an oracle sees every position"),
    ("max coupling forward rates", lambda: tl.MaxCoupling(K).forward_rates(NOISY), "MaxCoupling is not Markov: x_t depends on x_0 beyond x_s; use corrupt"),
    ("no absorbing sequence", lambda: tl.AbsorbingUniform(K).bridge(NOISY, HALF / 2, tl.Denoiser(LOGITS)), "the state lacks the absorbing sequence U, its auxiliary variable"),
    ("no transition times", lambda: tl.MaskedUniform(K).bridge(NOISY, HALF / 2, tl.Denoiser(LOGITS)), "the state lacks the transition times tau, its auxiliary variable"),
    ("alpha above 1", lambda: tl.convert(tl.Denoiser(LOGITS), tl.LeaveOneOut, TOKENS, HALF * 3, UNIFORM), r"alpha_t must be in \[0, 1\], got 1.5"),
    ("alpha below 0", lambda: tl.convert(tl.Denoiser(LOGITS), tl.LeaveOneOut, TOKENS, -HALF, UNIFORM), r"alpha_t must be in \[0, 1\], got -0.5"),
    ("a score over tokens only", lambda: tl.convert(tl.Score(LOGITS), tl.LeaveOneOut, TOKENS, HALF, MASKED), r"log_ratios must have shape \[1, 3, 6\]"),
    ("no such representation", lambda: tl.convert(tl.Denoiser(LOGITS), torch.Tensor, TOKENS, HALF, UNIFORM), "converts to Denoiser, LeaveOneOut or Score, got <class 'torch.Tensor'>"),
    ("pi of another vocabulary", lambda: tl.Interpolating(K, torch.full((3, 4), 0.25)), r"pi must be a float table of shape \[length, 5\], got \[3, 4\]"),
    ("pi that is no distribution", lambda: tl.Interpolating(K, torch.ones(3, K)), "every row of pi must be a distribution"),
    ("pi of another length", lambda: tl.Interpolating(K, torch.full((2, K), 0.2)).corrupt(TOKENS, HALF), "the noise is given for length 2, got tokens of length 3"),
    ("p0 of another vocabulary", lambda: tl.Oracle(torch.full((4, 4), 1 / 16), UNIFORM), r"shape \[K\] \* L with K = 5 as in the process, got \[4, 4\]"),
    ("p0 that does not sum to 1", lambda: tl.Oracle(torch.ones(K), UNIFORM), "p0 must sum to 1, got 5"),
    ("p0 below 0", lambda: tl.Oracle(torch.tensor([1.5, -0.5, 0, 0, 0]), UNIFORM), "p0 must not be negative or NaN, got -0.5"),
    ("p0 on the mask", lambda: tl.Oracle(LAW, tl.Masked(K, mask_id=3)), "p_0 puts mass on token 3, which is the mask"),
    ("p0 on the mask, by a chain", lambda: tl.MarkovOracle(LAW, LAW.expand(K, K), 3, tl.Masked(K, mask_id=3)), "p_0 puts mass on token 3"),
    ("a chain of another vocabulary", lambda: tl.MarkovOracle(torch.full((4,), 0.25), torch.full((4, 4), 0.25), 3, UNIFORM), r"must have shapes \[5\] and \[5, 5\] as in the process, got \[4\] and \[4, 4\]"),
    ("an empty chain", lambda: tl.MarkovOracle(LAW, LAW.expand(K, K), 0, UNIFORM), "length must be at least 1, got 0"),
    ("a state of another length", lambda: tl.Oracle(LAW, UNIFORM).predict(NOISY), "knows sequences of length 1, got 3"),
    ("a function for an evaluated model", lambda: Evaluator(len, None, 1), "model must be a Model, got <built-in"),
    ("a number for a truncation", lambda: Evaluator(MODEL, 0.9, 1), "truncation must be a Truncation or None, got 0.9"),
    ("a negative number of rows", lambda: Evaluator(MODEL, None, -1), "batch must be at least 0, got -1"),
    ("more rows than fit", lambda: Evaluator(MODEL, None, 10**18), "a batch of 1000000000000000000 rows needs about"),
    ("tokens to evaluate at", lambda: Evaluator(MODEL, None, 1)(TOKENS), "noisy must be a Noisy, got a tensor of shape"),
    ("a state of other tokens", lambda: Evaluator(MODEL, None, 1)(tl.Noisy(TOKENS + 9, HALF, HALF)), r"x_t must hold token ids in 0\.\.4, got 13"),
    ("a state of another batch", lambda: Evaluator(MODEL, None, 2)(NOISY), "the state has 1 rows, but the evaluator counts 2"),
    ("a model for an evaluator", lambda: LazyPrediction(MODEL, NOISY, None), "evaluator must be an Evaluator, got"),
    ("a state for a prediction", lambda: LazyPrediction(Evaluator(MODEL, None, 1), NOISY, NOISY), "previous must be a LazyPrediction or None, got Noisy"),
    ("a step without an evaluator", lambda: tl.samplers.Ancestral().step(MODEL, NOISY, HALF / 2, None), "evaluate must be an Evaluator, got"),
    ("a step of a kernel with a memory from tokens", lambda: tl.samplers.DNDM().step(Evaluator(MODEL, None, 1), TOKENS, HALF / 2, None), "noisy must be a Noisy, got a tensor"),
    ("a step upwards", lambda: tl.samplers.Ancestral().step(Evaluator(MODEL, None, 1), NOISY, HALF * 1.5, None), r"needs s < t, got s = 0.75 and t = 0.5"),
    ("a step with generators of other rows", lambda: tl.samplers.Ancestral().step(Evaluator(MODEL, None, 1), NOISY, HALF / 2, tl.RowGenerators([1, 2])), "generators for 2 rows, but the state has 1"),
    ("a step of a model that is not prepared", lambda: tl.samplers.MUDM().step(Evaluator(tl.DiffusionModel(len, tl.Masked(5)), None, 1), NOISY, HALF / 2, None), r"mudm .* evaluate what its prepare\(model\) returns"),
    ("a correction where nothing is noise", lambda: tl.samplers.RandomScan().correct(Evaluator(MODEL, None, 1), tl.Noisy(TOKENS, HALF * 0, HALF * 2), None, 0), r"a row of the state has none \(alpha_t = 1\)"),
    ("a correction that is not numbered", lambda: tl.samplers.RandomScan().correct(Evaluator(MODEL, None, 1), NOISY, None, "first"), "call must be a whole number, got 'first'"),
    ("flags of another batch", lambda: Evaluator(MODEL, None, 1)(NOISY).at(TOKENS > 0, tl.Denoiser).among(TOKENS[:, :2] > 0), r"flags must have the batch's shape \[1, 3\], got \[1, 2\]"),
    ("indices for flags", lambda: Evaluator(MODEL, None, 1)(NOISY).at(TOKENS, tl.Denoiser), "where must be a bool mask, got torch.int64"),
    ("sparse flags", lambda: Evaluator(MODEL, None, 1)(NOISY).at((TOKENS > 0).to_sparse(), tl.Denoiser), "where must be .*sparse_coo"),
    ("a score at some positions", lambda: Evaluator(MODEL, None, 1)(NOISY).everywhere(tl.Score), "kind must be Denoiser or LeaveOneOut, got <class"),
    ("a vocabulary beyond memory", lambda: tl.LeftToRight(10**18), "a vocabulary of 1000000000000000000 tokens needs about"),
    ("a negative batch of a prior", lambda: UNIFORM.prior(-1, 3), "at least 0 rows of length at least 1, got batch=-1"),
    ("one token to decode", lambda: returning(LOGITS).decode(TOKENS[0, 0]), r"tokens must have shape \[batch, length\], got \[\]"),
    ("a name that no file can have", lambda: tl.DiffusionModel(tl.nn.DiT(tl.nn.TransformerConfig(K, K, 3, width=8, depth=1, heads=1, condition=4)), UNIFORM).save("\ud800"), "is not a name that a file can have"),
    ("times of another shape", lambda: tl.convert(tl.LeaveOneOut(LOGITS), tl.Score, TOKENS, HALF, tl.MaskedUniform(K), LOGITS), r"aux must have the tokens' shape \[1, 3\], got \[1, 3, 5\]"),
    ("a number to score", lambda: tl.nelbo(MODEL, HALF[0]), "x_0 must hold int64 token ids, got torch.float32"),
    ("times of another state", lambda: tl.convert(tl.LeaveOneOut(LOGITS), tl.Score, TOKENS, HALF, tl.Process(tl.noise.Mask(K), tl.couplings.TransitionTimes()), torch.full((1, 3), 0.1).double()), "the token 0 at row 0, position 0 is impossible at its level and auxiliary variable"),
    ("an unknown prediction", lambda: tl.Oracle(LAW, UNIFORM, predicts=int), "predicts must be Denoiser, LeaveOneOut or Score"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "sentence"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_wrong_input_gets_a_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_what_was_allowed_is_allowed() -> None:
    """A whole number where a number is asked for, a list where a tuple is, one given sequence for all rows."""
    drawn = tl.sample(
        MODEL,
        3,
        steps=2,
        temperature=1,
        forbid=[0],
        given=[TOKENS[0], torch.tensor([True, False, False])],
        corrector="none",
    )
    assert drawn.shape == (3, 3)
    assert tl.samplers.Psi(kappa=1).kappa == 1


def test_none_as_a_corrector_means_the_same_as_no_corrector() -> None:
    assert tl.Sampler() == tl.Sampler.parse("ancestral", corrector="none") == tl.Sampler.parse("ancestral + none")
