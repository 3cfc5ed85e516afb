"""Every wrong input of a sampler gets a sentence with the value, the limit and the way out."""
# ruff: noqa: E501

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.samplers.helpers import K, oracle
from tests.samplers.test_autoregressive import chain
from tests.samplers.test_given import speller
from tokenloom.samplers import Autoregressive, GreedyTail

UNIFORM, MASKED = oracle(tl.Uniform), oracle(tl.Masked)
ONES = torch.ones(2, dtype=torch.bool)


def tokens_given(*tokens: int) -> tuple[Tensor, Tensor]:
    return torch.tensor(tokens), torch.ones(len(tokens), dtype=torch.bool)


CASES: list[tuple[str, Callable[[], object], str]] = [
    ("no steps", lambda: tl.sample(UNIFORM, 1, steps=0), "steps must be a whole number, at least 1, got 0"),
    ("half a step", lambda: tl.sample(UNIFORM, 1, steps=2.5), "steps must be a whole number, got 2.5"),
    ("no room to correct", lambda: tl.sample(UNIFORM, 1, steps=6, corrector="scan:steps=5"), "at least 7 evaluations, got steps=6"),
    ("fewer than no rows", lambda: tl.sample(UNIFORM, -1), "batch must be a whole number, at least 0, got -1"),
    ("half a row", lambda: tl.sample(UNIFORM, 2.5), "batch must be a whole number, got 2.5"),  # type: ignore[arg-type]
    ("no length", lambda: tl.sample(UNIFORM, 1, length=0), "length must be at least 1, got 0"),
    ("another length", lambda: tl.sample(UNIFORM, 1, length=3), "knows sequences of length 2, got 3"),
    ("unknown length", lambda: tl.sample(tl.DiffusionModel(torch.sin, tl.Uniform(K)), 1), "does not say how long its sequences are; pass length"),
    ("top-p of 0", lambda: tl.sample(UNIFORM, 1, top_p=0), r"top_p must be in \(0, 1\], got 0"),
    ("top-p above 1", lambda: tl.sample(UNIFORM, 1, top_p=1.5), r"top_p must be in \(0, 1\], got 1.5"),
    ("cold", lambda: tl.sample(UNIFORM, 1, temperature=0), "temperature must be positive and finite, got 0"),
    ("unknown predictor", lambda: tl.sample(UNIFORM, 1, sampler="ancestrel"), "there is no sampler 'ancestrel'; did you mean ancestral?"),
    ("unknown corrector", lambda: tl.sample(UNIFORM, 1, corrector="informd"), "there is no corrector 'informd'; did you mean informed?"),
    ("unknown corrector in a text", lambda: tl.Sampler.parse("psi + randomscan"), "there is no corrector 'randomscan'; did you mean random-scan?"),
    ("two correctors", lambda: tl.sample(UNIFORM, 1, sampler="psi + scan", corrector="informed"), r"'psi \+ scan' names its corrector already, got corrector='informed' too"),
    ("a name for a kernel", lambda: tl.Sampler("psi"), "predictor must be a Predictor, got 'psi'; use Sampler.parse"),  # type: ignore[arg-type]
    ("a setting beside a Sampler", lambda: tl.sample(UNIFORM, 1, sampler=tl.Sampler(), steps=4), "a Sampler holds all settings; change them with dataclasses.replace"),
    ("a shorthand beside a Sampler", lambda: tl.sample(UNIFORM, 1, sampler=tl.Sampler(), top_p=0.9), "a Sampler holds all settings"),
    ("an unknown setting", lambda: tl.sample(UNIFORM, 1, topp=0.9), "a sampler has no setting 'topp'; did you mean top_p?"),
    ("a forbidden token that does not exist", lambda: tl.sample(UNIFORM, 1, forbid=[0, 3]), r"forbid must hold token ids in 0\.\.2, got 3"),
    ("a forbidden token below 0", lambda: tl.sample(UNIFORM, 1, forbid=[-1]), "forbid must hold token ids, got -1"),
    ("nothing allowed", lambda: tl.sample(UNIFORM, 1, forbid=[0, 1, 2]), "logits without the forbidden tokens at .* hold only -inf"),
    ("a prompt of an oracle", lambda: tl.sample(UNIFORM, 1, prompt="a"), r"prompt= needs a model with a tokenizer; pass given=\(tokens, flags\) instead"),
    ("a prompt and given tokens", lambda: tl.sample(UNIFORM, 1, prompt="a", given=tokens_given(0, 1)), "give prompt or given, not both"),
    ("unknown option", lambda: tl.sample(UNIFORM, 1, sampler="psi:kapa=0.9"), "psi has no option 'kapa'; did you mean kappa?"),
    ("option without an option", lambda: tl.sample(UNIFORM, 1, sampler="euler:order=2"), "euler has no option 'order'; it has none"),
    ("no number", lambda: tl.sample(UNIFORM, 1, sampler="psi:kappa=half"), "psi:kappa must be a number, got 'half'"),
    ("no whole number", lambda: tl.sample(UNIFORM, 1, corrector="scan:steps=1.5"), "scan:steps must be a whole number, got '1.5'"),
    ("no truth", lambda: tl.sample(MASKED, 1, sampler="mudm:resample=yes"), "mudm:resample must be true or false, got 'yes'"),
    ("no such choice", lambda: tl.sample(MASKED, 1, sampler="remasking:schedule=up"), "remasking:schedule must be 'cap' or .*, got 'up'"),
    ("not as text", lambda: tl.sample(UNIFORM, 1, sampler="greedy-tail:inner=psi"), "greedy-tail:inner cannot be given as text"),
    ("kappa above 1", lambda: tl.sample(UNIFORM, 1, sampler="psi:kappa=2"), r"kappa must be in \[0, 1\], got 2"),
    ("since no number", lambda: tl.sample(UNIFORM, 1, sampler="psi:since=nan"), r"since must be in \[0, 1\], got nan"),
    ("switch above 1", lambda: tl.sample(MASKED, 1, sampler="remasking:switch=2"), r"switch must be in \[0, 1\], got 2"),
    ("a loop without noise", lambda: tl.sample(MASKED, 1, sampler="remasking:loop_level=1"), r"loop_level must be in \(0, 1\), got 1"),
    ("the schedule that was a switch", lambda: tl.sample(MASKED, 1, sampler="remasking:schedule=switch"), "remasking:schedule must be 'cap' or 'rescale' or 'loop', got 'switch'"),
    ("eta above 1", lambda: tl.sample(MASKED, 1, sampler="remasking:eta=2"), r"eta must be in \[0, 1\], got 2"),
    ("a loop upside down", lambda: tl.sample(MASKED, 1, sampler="remasking:loop_start=0.1,loop_end=0.2"), "a loop needs 0 < loop_end < loop_start < 1"),
    ("a floor of 0", lambda: tl.sample(UNIFORM, 1, sampler="gillespie:floor=0"), r"floor must be in \(0, 1\), got 0"),
    ("an amount of 1", lambda: tl.sample(UNIFORM, 1, corrector="forward-backward:amount=1"), r"amount must be in \(0, 1\), got 1"),
    ("no corrector steps", lambda: tl.sample(UNIFORM, 1, corrector="scan:steps=0"), "steps must be at least 1, got 0"),
    ("no positions", lambda: tl.sample(UNIFORM, 1, corrector="informed:parallel=0"), "parallel must be at least 1, got 0"),
    ("endless heat", lambda: tl.sample(MASKED, 1, sampler="confidence:temperature=inf"), r"temperature must be in \[0, inf\), got inf"),
    ("no heat at all", lambda: tl.sample(UNIFORM, 1, corrector="informed:temperature=nan"), r"temperature must be in \[0, inf\), got nan"),
    ("plug-in under masks", lambda: tl.sample(MASKED, 1, sampler="ancestral:through=plug-in"), "plug-in bridge takes the LeaveOneOut, which a model that predicts the Denoiser under Masked cannot tell; leave `through` at model"),
    ("a Gibbs corrector under masks", lambda: tl.sample(MASKED, 1, corrector="informed"), "informed needs a process that leaves every token in doubt, but the model's process is Masked; use forward-backward"),
    ("a corrector of transition times", lambda: tl.sample(MASKED, 1, sampler="mudm", corrector="forward-backward"), "the model's process is MaskedUniform; there is no corrector for it"),
    ("an unknown grid", lambda: tl.Sampler(grid="sine").run(UNIFORM, 1), "there is no grid 'sine'; did you mean cosine"),
    ("a grid without its power", lambda: tl.Sampler(grid="power"), r"power needs a number in \[0.1, 10\], as in power:1.5, got 'power'"),
    ("a grid of power 0", lambda: tl.Sampler(grid="power:0"), r"a number in \[0.1, 10\], as in power:1.5, got 'power:0'"),
    ("a power that is none", lambda: tl.Sampler(grid="power:nan"), "got 'power:nan'"),
    ("a number that the grid does not take", lambda: tl.Sampler(grid="cosine:2"), "cosine takes no number, got 'cosine:2'"),
    ("a grid that rises", lambda: tl.Sampler(grid=(1.0, 0.2, 0.5, 0.0)).run(UNIFORM, 1), "a grid is a vector of times that falls from 1 to 0, got"),
    ("a grid of one number", lambda: tl.Sampler(grid=torch.tensor(1.0)), "falls from 1 to 0, got 1.0"),
    ("a grid from the middle", lambda: tl.Sampler(grid=(0.5, 0.0)).run(UNIFORM, 1), "a grid is a vector of times that falls from 1 to 0, got"),
    ("an unknown way to give", lambda: tl.Sampler(show_given="nosied").run(UNIFORM, 1, given=tokens_given(0, 1)), "show_given must be 'auto' or 'clean' or 'noised', got 'nosied'"),  # type: ignore[arg-type]
    ("given tokens of another length", lambda: tl.sample(UNIFORM, 2, given=tokens_given(0, 1, 2)), r"given tokens have shape \[2, 3\], but \[2, 2\] are to be sampled"),
    ("given tokens of another batch", lambda: tl.sample(UNIFORM, 2, given=(torch.zeros(3, 2).long(), ONES)), r"given tokens have shape \[3, 2\], but \[2, 2\]"),
    ("flags of another length", lambda: tl.sample(UNIFORM, 2, given=(torch.zeros(2).long(), torch.ones(3).bool())), r"flags of given must have the tokens' shape \[2, 2\], got \[2, 3\]"),
    ("flags that are numbers", lambda: tl.sample(UNIFORM, 2, given=(torch.zeros(2).long(), torch.ones(2))), "flags of given must be a bool mask, got torch.float32"),
    ("a given token that does not exist", lambda: tl.sample(UNIFORM, 1, given=tokens_given(0, 3)), r"token ids in 0..2, got 3"),
    ("a given mask", lambda: tl.sample(MASKED, 1, given=tokens_given(0, 3)), r"token ids in 0..2, got 3"),
    ("a prompt that is too long", lambda: tl.sample(speller(tl.Masked(4)), 1, length=4, prompt="abcda"), "the given text has 5 tokens, but a sequence has 4; shorten it"),
    ("prompts for another batch", lambda: tl.sample(speller(tl.Masked(4)), 3, length=4, prompt=["a", "b"]), "prompt holds 2 texts for a batch of 3; pass one text, or one for each row"),
    ("a template for an oracle", lambda: tl.fill(UNIFORM, "a_"), "model must be a DiffusionModel"),  # type: ignore[arg-type]
    ("an empty template", lambda: tl.fill(speller(tl.Masked(4)), ["a_", ""]), "length must be at least 1, got 0"),
    ("a prompt of another alphabet", lambda: tl.sample(speller(tl.Masked(4)), 1, length=4, prompt="az"), "the character 'z' .* is not in the alphabet of 4 characters"),
    ("a score where nothing is left of the signal", lambda: tl.sample(oracle(tl.Uniform, tl.Score), 2, steps=2), "every state has the same score, which says nothing of x_0"),
    ("a corrector of a causal model", lambda: tl.sample(chain(), 1, length=3, corrector="informed"), "a causal model has no corrector"),
    ("given tokens that a causal model would see noised", lambda: tl.Sampler(show_given="noised").run(chain(), 1, length=3, given=tokens_given(0, 0, 0)), "reads given tokens clean, got show_given='noised'; leave it at auto"),
    ("a tail of a causal model", lambda: tl.sample(chain(), 1, length=3, sampler=GreedyTail(Autoregressive())), "greedy-tail needs a model that sees every position"),
    ("the most probable sequence of a causal model", lambda: tl.Sampler().run(chain(), 1, length=4, until=lambda tokens, rows: rows < 0), "until needs a model that predicts all positions at once"),
    ("a generator elsewhere", lambda: tl.sample(UNIFORM, 1, generator=tl.RowGenerators([], "meta")), "the generator is on meta but the model is on cpu; make one there"),
    ("generators for other rows", lambda: tl.sample(UNIFORM, 3, generator=tl.RowGenerators([0, 1])), "there are generators for 2 rows, but the batch has 3"),
]  # fmt: skip


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(("make_it", "sentence"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_wrong_input_gets_a_sentence(make_it: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_it()
