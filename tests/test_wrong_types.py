"""Wrong types in the Python interface: a ValueError that names the argument, what was got and what is expected."""
# ruff: noqa: E501
# mypy: disable-error-code="arg-type,call-overload,list-item"

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tokenloom as tl
from tokenloom import objectives
from tokenloom.models.model import DiffusionModel

pytestmark = pytest.mark.usefixtures("as_a_user")

K = 3
TABLE = torch.full((K, K), K**-2.0)
UNIFORM = tl.Uniform(K)
MODEL = tl.Oracle(TABLE, UNIFORM)
TOKENS = torch.tensor([[0, 1]])
HALF = torch.tensor([0.5])
LOGITS = torch.zeros(1, 2, K)


def returning(output: object) -> DiffusionModel:
    return DiffusionModel(lambda tokens, time: output, UNIFORM)


CASES: list[tuple[str, Callable[[], object], str]] = [
    ("a truncation beside its settings", lambda: tl.sample(MODEL, 1, truncation={"top_p": 0.5}), "a sampler has no setting 'truncation'; known are temperature, top_p"),
    ("a dict for a setting", lambda: tl.sample(MODEL, 1, top_p={"top_p": 0.5}), r"top_p must be a number, got \{'top_p': 0.5\}"),
    ("a function for a process", lambda: tl.Oracle(TABLE, tl.Uniform), r"process must be a Process, got the function Uniform itself; build one, as in Uniform\(...\)"),
    ("a class for a noise", lambda: tl.Process(tl.noise.Uniform), r"noise must be a Noise, got the class Uniform itself; build one, as in Uniform\(...\)"),
    ("a noise for a coupling", lambda: tl.Process(tl.noise.Uniform(K), tl.noise.Uniform(K)), "coupling must be a Coupling, got Uniform"),
    ("a class for a model", lambda: tl.sample(tl.Oracle, 1), "model must be a Model, got the class Oracle itself"),
    ("a class for a sampler", lambda: tl.sample(MODEL, 1, sampler=tl.samplers.Psi), "sampler must be a Sampler or a Predictor or a text, got the class Psi itself"),
    ("a process for a model", lambda: tl.sample(UNIFORM, 1), r"model must be a Model, got Process\(noise=Uniform\(vocab_size=3\)"),
    ("a list for tokens", lambda: UNIFORM.corrupt([[0, 1]], HALF), "x_0 must be an int64 tensor of shape .*, got a list; pass torch.tensor"),
    ("a list for a table", lambda: tl.Oracle([[1.0]], UNIFORM), "p0 must be a float tensor of shape .*, got a list; pass torch.tensor"),
    ("numpy tokens", lambda: UNIFORM.corrupt(np.zeros((1, 2), np.int64), HALF), r"x_0 must be an int64 tensor of shape .*, got a numpy array; pass torch.from_numpy\(x\)"),
    ("numpy logits", lambda: tl.draw(np.zeros((1, 2))), r"logits must be a float tensor of shape .*, got a numpy array; pass torch.from_numpy\(x\)"),
    ("numpy inside a prediction", lambda: tl.convert(tl.Denoiser(np.zeros((1, 2, K))), tl.LeaveOneOut, TOKENS, HALF, UNIFORM), r"logits must be a float tensor .*pass torch.from_numpy\(x\)"),
    ("swapped arguments", lambda: tl.Oracle(UNIFORM, TABLE), "p0 must be a float tensor of shape .*, got Process"),
    ("swapped model and batch", lambda: tl.sample(1, MODEL), "model must be a Model, got 1"),
    ("a float for a count", lambda: tl.sample(MODEL, 2.0), "batch must be a whole number, got 2.0"),
    ("a float for steps", lambda: tl.Sampler(steps=2.0), "steps must be a whole number, got 2.0"),
    ("a float for a vocabulary", lambda: tl.Masked(27.0), "vocab_size must be a whole number, got 27.0"),
    ("a float for a length", lambda: tl.sample(MODEL, 1, length=2.0), "length must be a whole number or None, got 2.0"),
    ("True for a count", lambda: tl.sample(MODEL, True), "batch must be a whole number, got True"),
    ("a text for a number", lambda: tl.Truncation(temperature="hot"), "temperature must be a number, got 'hot'"),
    ("a text for an option", lambda: tl.samplers.Psi(kappa="0.9"), "kappa must be a number, got '0.9'"),
    ("a text for corrector steps", lambda: tl.samplers.RandomScan(steps="2"), "steps must be a whole number, got '2'"),
    ("a text for eps", lambda: tl.LinearSchedule(eps="small"), "eps must be a number, got 'small'"),
    ("a text for a mask", lambda: tl.Masked(K, mask_id="[MASK]"), r"mask_id must be a whole number or None, got '\[MASK\]'"),
    ("None for a schedule", lambda: tl.Uniform(K, schedule=None), "schedule must be a Schedule, got None"),
    ("a number for a generator", lambda: tl.sample(MODEL, 1, generator=3), "generator must be a Generator or a RowGenerators or None, got 3"),
    ("flags alone for given", lambda: tl.sample(MODEL, 1, given=torch.ones(2).bool()), "given must be a pair .*, got a tensor of shape"),
    ("lists for given", lambda: tl.sample(MODEL, 1, given=([0, 1], [True, False])), "given must be a pair"),
    ("texts for forbidden tokens", lambda: tl.sample(MODEL, 1, forbid="a"), "forbid must be a sequence of whole numbers, got 'a'"),
    ("a seed for seeds", lambda: tl.RowGenerators(3), "seeds must be a sequence of whole numbers, got 3"),
    ("an objective by name", lambda: tl.training_loss(MODEL, "ce", TOKENS, HALF), "objective must be an Objective, got 'ce'"),
    ("a class for an objective", lambda: tl.training_loss(MODEL, objectives.CrossEntropy, TOKENS, HALF), "objective must be an Objective, got the class CrossEntropy itself"),
    ("a state for tokens", lambda: tl.convert(tl.Denoiser(LOGITS), tl.LeaveOneOut, tl.Noisy(TOKENS, HALF, HALF), HALF, UNIFORM), "x_t must be an int64 tensor"),
    ("logits for a prediction", lambda: tl.convert(LOGITS, tl.LeaveOneOut, TOKENS, HALF, UNIFORM), "posterior must be a Posterior, got a tensor of shape"),
    ("tokens for a state", lambda: UNIFORM.bridge(TOKENS, HALF, TOKENS), "noisy must be a Noisy, got a tensor of shape"),
    ("a state of lists", lambda: UNIFORM.bridge(tl.Noisy([[0, 1]], HALF, HALF), HALF / 2, TOKENS), "tokens must be an int64 tensor"),
    ("a marginal of tokens outside", lambda: UNIFORM.marginal(tl.Noisy(TOKENS, HALF, HALF), TOKENS + 5), r"x_0 must hold token ids in 0\.\.2, got 6"),
    ("a marginal at tokens outside", lambda: UNIFORM.marginal(tl.Noisy(TOKENS + 5, HALF, HALF), TOKENS), r"x_t must hold token ids in 0\.\.2, got 6"),
    ("a network that is none", lambda: DiffusionModel("dit", UNIFORM), "network must be a Callable, got 'dit'"),
    ("a network that returns a dict", lambda: tl.sample(returning({"logits": LOGITS}), 1, length=2), "the network must return logits of shape .*, got a dict; pass a function that returns its logits"),
    ("a network that returns an output", lambda: tl.sample(returning(SimpleNamespace(logits=LOGITS)), 1, length=2), r"got a SimpleNamespace with logits; pass lambda tokens, time: network\(tokens\).logits"),
    ("a network that returns nothing", lambda: tl.sample(returning(None), 1, length=2), "the network must return logits of shape .*, got a NoneType"),
    ("NaN in one row of a draw", lambda: tl.draw(torch.tensor([0.0, torch.nan])), "logits hold NaN"),
    ("NaN in one row of a truncation", lambda: tl.truncate(torch.tensor([0.0, torch.nan]), tl.Truncation(top_k=1)), "logits hold NaN"),
    ("one impossible row", lambda: tl.draw(torch.full((4,), -torch.inf)), "logits hold only -inf"),
    ("a number for a level", lambda: tl.LinearSchedule().alpha(0.5), "t must be a float tensor of shape .*, got 0.5"),
    ("flags for a level", lambda: tl.CosineSchedule().inverse(TOKENS > 0), "alpha must be a float tensor of shape .*, got a tensor of shape .* and torch.bool"),
    ("a number beyond 64 bits", lambda: tl.PolynomialSchedule(power=2**70), "power must fit into 64 bits, got a number of 22 digits"),
    ("more than a machine holds", lambda: UNIFORM.prior(2, 10**18), "a batch of 2 sequences of length 1000000000000000000 needs about .* GB"),
    ("an array for a representation", lambda: tl.convert(tl.Denoiser(LOGITS), np.zeros(3), TOKENS, HALF, UNIFORM), "converts to Denoiser, LeaveOneOut or Score, got array"),
    ("whole numbers for logits", lambda: tl.draw(torch.zeros(3).long()), "logits must be a float tensor with a last dimension, got torch.int64"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "sentence"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_wrong_type_gets_a_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_what_was_allowed_is_allowed() -> None:
    """A whole number where a number is asked for, a list where a tuple is, one given sequence for all rows."""
    drawn = tl.sample(
        MODEL, 3, steps=2, temperature=1, forbid=[0], given=[TOKENS[0], torch.tensor([True, False])], corrector="none"
    )
    assert drawn.shape == (3, 2)
    assert tl.samplers.Psi(kappa=1).kappa == 1


def test_none_as_a_corrector_means_the_same_as_no_corrector() -> None:
    assert tl.Sampler() == tl.Sampler.parse("ancestral", corrector="none") == tl.Sampler.parse("ancestral + none")
