"""A network with a meaning: what it is shown, and how its logits are read."""

from dataclasses import replace

import pytest
import torch

import tokenloom as tl
from tokenloom.models.model import DiffusionModel
from tokenloom.nn import CausalTransformer, DiT, HollowTransformer, Transformer, TransformerConfig

K, L = 6, 4
SMALL = TransformerConfig(K, K, L, width=16, depth=1, heads=2, condition=8)


def zeros(tokens: torch.Tensor, time: torch.Tensor, absorbing: torch.Tensor | None = None) -> torch.Tensor:
    return torch.zeros(*tokens.shape, K)


@pytest.mark.parametrize("process", [tl.Masked(K), tl.AbsorbingUniform(K), tl.MaskedUniform(K)])
def test_a_denoiser_carries_over_what_is_revealed(process: tl.Process, generator: torch.Generator) -> None:
    """`eq:carry-over-uniform`: all mass on revealed tokens, the network's law elsewhere."""
    model = DiffusionModel(zeros, process, predicts=tl.Denoiser)
    noisy = process.corrupt(torch.randint(0, K, (32, L), generator=generator), torch.full((32,), 0.5), generator)
    predicted = model.predict(noisy)
    revealed = process.evidence(noisy).isposinf()
    assert 0 < revealed.double().mean() < 1
    law = predicted.log_probs.exp()
    torch.testing.assert_close(law[revealed], torch.nn.functional.one_hot(noisy.tokens[revealed], K).float())
    torch.testing.assert_close(law[~revealed], torch.full_like(law[~revealed], 1 / K))


def test_a_masked_network_is_shown_the_masked_view(generator: torch.Generator) -> None:
    seen: list[torch.Tensor] = []

    def network(tokens: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        seen.append(tokens)
        return zeros(tokens, time)

    process = tl.MaskedUniform(K)
    noisy = process.corrupt(torch.randint(0, K, (8, L), generator=generator), torch.full((8,), 0.5), generator)
    DiffusionModel(network, process, predicts=tl.Denoiser).predict(noisy)
    assert isinstance(process.coupling, tl.couplings.TransitionTimes)
    assert torch.equal(seen[0], process.coupling.masked_view(process, noisy))
    assert (seen[0] == K).any()


def test_a_mask_inside_the_vocabulary_gets_no_mass() -> None:
    process = tl.Masked(K, mask_id=2)
    state = process.prior(2, L)
    predicted = DiffusionModel(zeros, process, predicts=tl.Denoiser).predict(state)
    assert isinstance(predicted, tl.Denoiser)
    assert (predicted.logits[..., 2] == -torch.inf).all()


def test_the_absorbing_sequence_reaches_the_network(generator: torch.Generator) -> None:
    process = tl.AbsorbingUniform(K)
    network = DiT(replace(SMALL, absorbing=True))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model = DiffusionModel(network, process, predicts=tl.Denoiser)
    state = process.prior(2, L, generator)
    assert state.aux is not None
    predicted = model.predict(replace(state, tokens=state.aux))
    moved = model.predict(replace(state, tokens=state.aux, aux=state.aux.clone().index_fill(1, torch.tensor([0]), 0)))
    assert (state.aux[:, 0] != 0).any()
    assert not torch.equal(predicted.logits[:, 1:], moved.logits[:, 1:])


@pytest.mark.parametrize(
    ("kind", "process", "predicts", "sentence"),
    [
        (DiT, tl.Masked(K), tl.Denoiser, r"Masked shows ids 0\.\.6, but the network embeds 6; .* num_states=7"),
        (DiT, tl.MaskedUniform(K), tl.Denoiser, r"MaskedUniform shows ids 0\.\.6, but the network embeds 6"),
        (DiT, tl.Uniform(K - 1), tl.Denoiser, "takes 5 logits per position, but the network has 6"),
        (DiT, tl.AbsorbingUniform(K), tl.Denoiser, "absorbing=False does not fit AbsorbingUniform"),
        (DiT, tl.Uniform(K), int, "predicts must be Denoiser, LeaveOneOut or Score"),
        (DiT, tl.LeftToRight(K), tl.LeaveOneOut, "LeftToRight needs a causal network, .*; use CausalTransformer"),
        (CausalTransformer, tl.Uniform(K), tl.LeaveOneOut, "a causal network .* goes with LeftToRight, got Uniform"),
        (HollowTransformer, tl.Uniform(K), tl.Denoiser, "hollow .* predicts LeaveOneOut, not Denoiser"),
        (HollowTransformer, tl.Uniform(K), tl.Score, "hollow .* predicts LeaveOneOut, not Score"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(
    kind: type[Transformer], process: tl.Process, predicts: type, sentence: str, as_a_user: None
) -> None:
    with pytest.raises(ValueError, match=sentence):
        DiffusionModel(kind(SMALL), process, predicts=predicts)


def test_a_model_takes_its_causality_and_its_schedule_from_its_process() -> None:
    assert DiffusionModel(CausalTransformer(SMALL), tl.LeftToRight(K)).causal
    model = DiffusionModel(DiT(SMALL), tl.Uniform(K), tl.CosineSchedule())
    assert not model.causal
    assert model.schedule == model.process.schedule == tl.CosineSchedule()


def test_tokens_outside_the_vocabulary_are_named() -> None:
    model = DiffusionModel(DiT(SMALL), tl.Uniform(K))
    t = torch.tensor([0.5])
    with pytest.raises(ValueError, match=r"x_t must hold token ids in 0\.\.5, got 6"):
        model.predict(tl.Noisy(torch.full((1, L), 6), t, t))


def test_a_network_of_another_size_is_told_which_logits_it_owes() -> None:
    model = DiffusionModel(lambda tokens, time: torch.zeros(*tokens.shape, 4), tl.Uniform(5))
    expected = r"logits of shape \[2, 3, 5\] for tokens of shape \[2, 3\], got \[2, 3, 4\]"
    with pytest.raises(ValueError, match=expected):
        model.predict(model.process.prior(2, 3))
    with pytest.raises(ValueError, match=expected):
        tl.sample(model, 2, length=3, steps=1)
