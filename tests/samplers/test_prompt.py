"""A prompt is a text that every sequence begins with: its tokens, given."""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tokenloom.models.tokenizer import Characters

ALPHABET = "abcd"


def model(process: tl.Process) -> tl.DiffusionModel:
    """After every letter the next one of the alphabet, most often."""

    def network(tokens: Tensor, time: Tensor) -> Tensor:
        before = torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], 1)
        return 3.0 * torch.nn.functional.one_hot((before + 1) % 4, 4).float()

    return tl.DiffusionModel(network, process, tokenizer=Characters(ALPHABET))


PROCESSES = [tl.Uniform(4), tl.Masked(4), tl.LeftToRight(4)]
pytestmark = pytest.mark.filterwarnings("ignore:this model does not know which positions are given")


@pytest.mark.parametrize("process", PROCESSES)
def test_every_sequence_begins_with_the_prompt(process: tl.Process) -> None:
    made = model(process)
    tokens = tl.sample(made, 30, length=6, steps=6, prompt="dca", generator=torch.Generator().manual_seed(0))
    texts = made.decode(tokens)
    assert all(text.startswith("dca") and len(text) == 6 for text in texts)
    assert len({text[3:] for text in texts}) > 1


@pytest.mark.parametrize("process", PROCESSES)
def test_a_prompt_is_its_tokens_given(process: tl.Process) -> None:
    given = torch.tensor([3, 2, 0, 0, 0]), torch.tensor([True, True, False, False, False])
    prompted, held = (
        tl.Sampler(steps=5).run(model(process), 20, length=5, generator=torch.Generator().manual_seed(0), **how)
        for how in ({"prompt": "dc"}, {"given": given})
    )
    assert torch.equal(prompted.tokens, held.tokens)
    assert torch.equal(prompted.evaluations, held.evaluations)


def test_the_first_free_token_follows_the_prompt() -> None:
    """The network reads it: after d comes a, with probability e^3 / (e^3 + 3) = 0.87, give or take 5 sigma."""
    tokens = tl.sample(model(tl.LeftToRight(4)), 300, length=3, prompt="cd", generator=torch.Generator().manual_seed(0))
    assert 0.77 < float((tokens[:, 2] == 0).double().mean()) < 0.97


def test_an_empty_prompt_gives_nothing() -> None:
    free, empty = (
        tl.sample(model(tl.Masked(4)), 20, length=4, steps=4, prompt=prompt, generator=torch.Generator().manual_seed(0))
        for prompt in (None, "")
    )
    assert torch.equal(free, empty)


def test_wrong_prompts_get_a_sentence() -> None:
    with pytest.raises(ValueError, match="the prompt has 5 tokens, but a sequence has 4; shorten it"):
        tl.sample(model(tl.Masked(4)), 1, length=4, prompt="abcda")
    with pytest.raises(ValueError, match=r"the character 'z' .* is not in the alphabet of 4 characters"):
        tl.sample(model(tl.Masked(4)), 1, length=4, prompt="az")


def test_the_bundled_text_model_continues_a_prompt() -> None:
    made = tl.load("shakespeare-udm-loo")
    assert isinstance(made, tl.DiffusionModel)
    texts = made.decode(
        tl.sample(made, 2, length=32, steps=4, prompt="ROMEO:", generator=torch.Generator().manual_seed(0))
    )
    assert all(text.startswith("ROMEO:") and len(text) == 32 for text in texts)
    assert texts[0] != texts[1]
