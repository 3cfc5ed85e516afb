"""Given positions: kernels leave them alone, the driver shows them as it says, and they cost nothing; prompts too."""

import re
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.samplers import helpers
from tests.samplers.helpers import CELLS, KERNELS, P0, Cell, K, generator, network, oracle, process_of, states, step
from tests.statistics import assert_frequencies
from tokenloom.drawing.randomness import derive_seed
from tokenloom.models.tokenizer import Characters
from tokenloom.samplers import PREDICTORS, Evaluator, Predictor
from tokenloom.samplers.given import ShowGiven
from tokenloom.samplers.templates import given_tokens, template_cells

OPTIONS = {
    "psi": "psi:kappa=0.2",
    "remasking": "remasking:eta=1",
    "mudm": "mudm:resample=true",
    "gillespie": "gillespie:floor=0.4",
    "informed": "informed:parallel=2",
    "scan": "scan:parallel=2",
}
"""Where the defaults move little."""
GIVEN = torch.tensor([1, 0]), torch.tensor([True, False])
"""The first of two tokens is a 1."""
BARE = [
    (OPTIONS.get(name, name), kind, s)
    for name, kernel in KERNELS.items()
    for kind in helpers.supported(kernel, CELLS)
    for s in ((0.35, 0.0) if name in PREDICTORS else (0.0,))
]


@pytest.mark.usefixtures("as_a_user")  # the same steps run with shape checks in test_conformance.py
@pytest.mark.parametrize(("name", "kind", "s"), BARE)
def test_a_kernel_by_itself_leaves_given_positions_and_asks_nothing_of_rows_that_are_all_given(
    name: str, kind: Cell, s: float
) -> None:
    """Without the driver, which would put them back: both positions of the first rows, one of the others."""
    rows, source, kernel = 200, generator(), helpers.kernel_of(name)
    model: tl.Model = kernel.prepare(oracle(kind)) if isinstance(kernel, Predictor) else oracle(kind)
    x_0 = torch.randint(0, K, (rows, 2), generator=source)
    given = torch.tensor([[True, False]]).repeat(rows, 1)
    given[: rows // 2] = True
    noisy = model.process.corrupt(x_0, torch.full((rows,), 0.6, dtype=torch.float64), source, given)
    evaluate = Evaluator(model, None, rows)
    if isinstance(kernel, Predictor):
        after = kernel.step(evaluate, noisy, torch.full_like(noisy.t, s), source)
    else:
        after = kernel.correct(evaluate, noisy, source, 0)
    assert torch.equal(after.tokens[given], x_0[given])
    assert int(evaluate.evaluations[: rows // 2].sum()) == 0
    assert s > 0 or int(evaluate.evaluations.sum()) > 0


def test_gillespie_goes_on_at_its_rate_beside_given_positions() -> None:
    """The second token is given, so the first goes by the reverse chain of p_0(. | second)."""
    alpha_s, alpha_t = 0.6, 0.25
    start = states(torch.tensor([[0, 1]]).repeat(helpers.ROWS // 4, 1), alpha_t)
    noisy = replace(start, given=torch.tensor([[False, True]]).expand_as(start.tokens))
    arrived = step(PREDICTORS.parse("gillespie"), oracle(tl.Uniform), noisy, alpha_s).tokens
    law = brute.reverse_kernel(P0[:, 1] / P0[:, 1].sum(), brute.uniform_pi(K, 1), alpha_s, alpha_t)[0]
    assert_frequencies(torch.bincount(arrived[:, 0], minlength=K), law)


def visited(model: tl.Oracle, sampler: str, show_given: ShowGiven, corrector: str | None = None) -> list[tl.Noisy]:
    """The states of a run with a first token of 1 given."""
    value = tl.Sampler.parse(sampler, corrector=corrector, steps=7, show_given=show_given)
    steps = list(value.steps(model, 300, given=GIVEN, generator=generator()))
    return [steps[0].before, *(step.after for step in steps)]


@pytest.mark.parametrize("corrector", [None, "forward-backward:amount=0.9"])
def test_noised_given_positions_hold_noise_or_their_token_after_every_step_and_correction(
    corrector: str | None,
) -> None:
    """Under masks: the mask or the token, never another."""
    first = torch.stack([state.tokens[:, 0] for state in visited(oracle(tl.Masked), "ancestral", "noised", corrector)])
    assert set(first.unique().tolist()) == {1, helpers.MASK}  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("sampler", ["ancestral", "reaudm"])
def test_a_given_token_is_never_its_own_absorbing_state(sampler: str) -> None:
    """A network takes a token that equals U for noise."""
    for state in visited(oracle(tl.AbsorbingUniform), sampler, "clean"):
        assert state.aux is not None
        assert not bool((state.aux[:, 0] == 1).any())


def flat(tokens: Tensor, time: Tensor) -> Tensor:
    return torch.zeros(*tokens.shape, K)


@pytest.mark.parametrize(
    ("model", "clean"),
    [
        (oracle(tl.Uniform), True),
        (tl.DiffusionModel(network(tl.Uniform(K), 2, given=True), tl.Uniform(K)), True),
        (tl.DiffusionModel(network(tl.Uniform(K), 2), tl.Uniform(K)), False),
        (tl.DiffusionModel(flat, tl.Uniform(K)), False),
        (tl.DiffusionModel(flat, process_of(tl.Interpolating)), False),
        (tl.DiffusionModel(flat, tl.LeftToRight(K)), True),
        (tl.DiffusionModel(network(tl.Masked(K), 2), tl.Masked(K), predicts=tl.Denoiser), True),
        (tl.DiffusionModel(network(tl.MaskedUniform(K), 2), tl.MaskedUniform(K), predicts=tl.Denoiser), True),
        (tl.DiffusionModel(network(tl.AbsorbingUniform(K), 2), tl.AbsorbingUniform(K), predicts=tl.Denoiser), True),
    ],
)
def test_given_tokens_are_shown_clean_to_models_that_know_them(model: Any, clean: bool) -> None:
    with nullcontext() if clean else pytest.warns(UserWarning, match="not exactly those of the model given"):
        run = tl.Sampler(steps=3).steps(model, 200, length=2, given=GIVEN)
    assert all(bool((step.before.tokens[:, 0] == 1).all()) for step in run) == clean


class Blind:
    """An exact model that does not look at which positions are given, as a network that was not trained with any."""

    marks_given = False

    def __init__(self, model: tl.Oracle) -> None:
        self.model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def body(self, noisy: tl.Noisy) -> Tensor:
        return self.model.body(replace(noisy, given=None))


def off_by(model: Any, show: ShowGiven, rows: int = 6_000) -> float:
    """Total variation of the middle token from p_0(. | 1, 2), the first and the last being given."""
    p0 = brute.random_p0(K, 3)
    given = torch.tensor([1, 0, 2]), torch.tensor([True, False, True])
    sampler = tl.Sampler(steps=32, show_given=show)
    drawn = sampler.run(model(p0), rows, given=given, generator=generator()).tokens[:, 1]
    law = p0[1, :, 2] / p0[1, :, 2].sum()
    return helpers.total_variation(torch.bincount(drawn, minlength=K) / rows, law)


@pytest.mark.usefixtures("as_a_user")
def test_given_tokens_are_exact_for_a_model_that_knows_them_and_biased_where_they_are_shown_noised() -> None:
    """Of 6,000 draws the total variation is about 0.01 by chance, and above 0.03 with a probability below 1e-6."""
    assert off_by(lambda p0: tl.Oracle(p0, tl.Uniform(K)), "auto") < 0.03
    assert off_by(lambda p0: Blind(tl.Oracle(p0, tl.Uniform(K))), "noised") > 0.04


def test_a_causal_model_refuses_what_is_given_behind_a_blank() -> None:
    """It would be returned, but nothing before it would know of it."""
    model = tl.DiffusionModel(flat, tl.LeftToRight(K))
    tokens = torch.zeros(2, 4, dtype=torch.int64)
    flags = torch.tensor([[True, True, False, False], [True, False, True, False]])
    with pytest.raises(ValueError, match="position 2 of row 1 is given behind one; give a beginning"):
        tl.sample(model, 2, length=4, given=(tokens, flags))
    assert tl.sample(model, 2, length=4, given=(tokens, flags.cumprod(1).bool())).shape == (2, 4)


# -------------------------------------------------------------------------------------------------------------- prompts

ALPHABET = "abcd"
biased = pytest.mark.filterwarnings("ignore:this model does not know which positions are given")


def speller(process: tl.Process) -> tl.DiffusionModel:
    """After every letter the next one of the alphabet, most often."""

    def network(tokens: Tensor, time: Tensor) -> Tensor:
        before = torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], 1)
        return 3.0 * torch.nn.functional.one_hot((before + 1) % 4, 4).float()

    return tl.DiffusionModel(network, process, tokenizer=Characters(ALPHABET))


@biased
@pytest.mark.parametrize("process", [tl.Uniform(4), tl.Masked(4), tl.LeftToRight(4)])
@pytest.mark.parametrize("prompt", ["dc", ""])
def test_a_prompt_is_its_tokens_given(process: tl.Process, prompt: str) -> None:
    given = torch.tensor([3, 2, 0, 0, 0]), torch.arange(5) < len(prompt)
    prompted, held = (
        tl.Sampler(steps=5).run(speller(process), 20, length=5, generator=generator(), **how)
        for how in ({"prompt": prompt}, {"given": given})
    )
    assert torch.equal(prompted.tokens, held.tokens)
    assert torch.equal(prompted.evaluations, held.evaluations)
    assert all(text.startswith(prompt) for text in speller(process).decode(prompted.tokens))
    assert len(prompted.tokens.unique(dim=0)) > 1  # type: ignore[no-untyped-call]


@biased
def test_the_bundled_text_model_continues_a_prompt() -> None:
    made = tl.load("shakespeare-udm-loo")
    assert isinstance(made, tl.DiffusionModel)
    texts = made.decode(tl.sample(made, 2, length=32, steps=4, prompt="ROMEO:", generator=generator()))
    assert all(text.startswith("ROMEO:") and len(text) == 32 for text in texts)
    assert texts[0] != texts[1]


@biased
@pytest.mark.parametrize("process", [tl.Uniform(4), tl.Masked(4), tl.LeftToRight(4)])
def test_prompts_of_a_batch_are_each_as_if_alone(process: tl.Process) -> None:
    model, prompts = speller(process), ["d", "", "abca"]
    tokens = tl.sample(model, 3, length=6, steps=6, prompt=prompts, generator=tl.RowGenerators([7, 8, 9]))
    alone = [
        tl.sample(model, 1, length=6, steps=6, prompt=prompt, generator=tl.RowGenerators([seed]))
        for prompt, seed in zip(prompts, (7, 8, 9), strict=True)
    ]
    assert torch.equal(tokens, torch.cat(alone))
    assert all(text.startswith(prompt) for text, prompt in zip(model.decode(tokens), prompts, strict=True))


@biased
@pytest.mark.parametrize("process", [tl.Uniform(4), tl.Masked(4)])
def test_templates_of_any_length_are_each_as_if_alone(process: tl.Process) -> None:
    model, templates = speller(process), ["a__d", "_", "dc____ab", "b__a", "abc"]
    texts = tl.fill(model, templates, steps=4, seed=3)
    for row, (template, text) in enumerate(zip(templates, texts, strict=True)):
        assert re.fullmatch(template.replace("_", f"[{ALPHABET}]"), text)
        given = given_tokens([template_cells(Characters(ALPHABET), template)], len(template))
        noise = tl.RowGenerators([derive_seed(3, "row", row)])
        alone = tl.sample(model, 1, length=len(template), steps=4, given=given, generator=noise)
        assert [text] == model.decode(alone)
    assert tl.fill(model, "a__d", steps=4, seed=3) == texts[:1]
    assert len(set(tl.fill(model, ["____"] * 20, steps=4))) > 1


def test_decoding_ends_at_the_end_token() -> None:
    model = tl.DiffusionModel(flat, tl.Uniform(K), tokenizer=Characters("abcdef"[: K - 1], ends=True))
    end = K - 1
    rows = torch.tensor([[0, 0, end, 0], [end, 0, end, 0], [0, 0, 0, 0]])
    assert model.decode(rows) == ["aa", "a", "aaaa"]
    assert model.decode(rows[:1], whole=True) == ["aa<|endoftext|>a"]
