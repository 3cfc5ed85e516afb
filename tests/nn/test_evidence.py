"""Networks that read the evidence: exact where a token says nothing, finite where it says everything, and timeless."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tokenloom as tl
from tests.nn.test_networks import reloaded
from tokenloom.nn import DiT, HollowTransformer, Transformer, TransformerConfig
from tokenloom.nn.conditioning import EvidenceEmbedding, evidence_features
from tokenloom.sudoku.network import GridNetwork, grid_relations

K, L = 4, 16
SMALL = TransformerConfig(
    K, K, L, width=8, depth=2, heads=1, condition=8, dropout=0.0, conditioning="evidence", loops=2, rotary=False
)
RELATIONS = grid_relations(4)
KINDS = ["dit", "grid", "hollow", "dit-without-level"]
every_network = pytest.mark.parametrize("kind", KINDS)
LEVELS = [0.0, 1e-12, 0.05, 1.0, 4.0, 20.0, math.inf]
SIZES = [2, 27, 50_257, 262_144]


def built(kind: str) -> Transformer:
    """With every weight away from zero, gates and head included: closed ones would hide any dependence."""
    if kind == "grid":
        network: Transformer = GridNetwork(SMALL, RELATIONS)
    elif kind == "hollow":
        network = HollowTransformer(replace(SMALL, rotary=True))
    else:
        network = DiT(replace(SMALL, rotary=True, time=kind == "dit"))
    torch.manual_seed(0)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.4)
    return network.eval()


def drawn(rows: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, times and evidence of every size."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, K, (rows, L), generator=generator)
    level = torch.tensor(LEVELS, dtype=torch.float64)[torch.randint(0, len(LEVELS), (rows, L), generator=generator)]
    return tokens, torch.rand(rows, generator=generator, dtype=torch.float64), level


def at_every_position() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One row per position and other token: which position, the tokens before and after, and the evidence.

    A row is compared with the same row of another call, for the last bit may depend on the place in a batch.
    """
    tokens, _, evidence = drawn(1)
    place = torch.arange(L).repeat_interleave(K - 1)
    before, rows = tokens.expand(len(place), L), torch.arange(len(place))
    after = before.clone()
    after[rows, place] = (after[rows, place] + torch.arange(1, K).repeat(L)) % K
    return place, before, after, evidence.expand(len(place), L)


@torch.no_grad()
def moved(network: Transformer, tokens: Tensor, other: Tensor, evidence: Tensor) -> Tensor:
    """How far the output of each row moves, at most, when its tokens are replaced."""
    time = torch.zeros(len(tokens), dtype=torch.float64)
    before, after = (network(rows, time, evidence=evidence) for rows in (tokens, other))
    assert before.isfinite().all()
    assert before.std() > 1e-3
    change: Tensor = (after - before).abs().amax((1, 2))
    return change


WORTH = [(0.0, 0.0, 0.0), (1e-9, 0.0, 1e-5), (0.05, 1e-4, math.inf), (20.0, 1e-4, math.inf), (math.inf, 1e-4, math.inf)]
"""An evidence, and by how much the output moves with the token: not in one bit, next to nothing, or visibly."""


@every_network
@pytest.mark.parametrize(("evidence", "least", "most"), WORTH)
def test_the_output_depends_on_a_token_by_its_evidence(kind: str, evidence: float, least: float, most: float) -> None:
    place, tokens, other, others = at_every_position()
    change = moved(built(kind), tokens, other, others.scatter(1, place.unsqueeze(1), evidence))
    assert bool(((change >= least) & (change <= most)).all())


@every_network
def test_a_mask_outside_the_vocabulary_is_any_token_worth_nothing(kind: str) -> None:
    network, (tokens, time, evidence) = built(kind), drawn()
    hidden = evidence == 0
    assert hidden.any()
    masked = network(tokens.masked_fill(hidden, K), time, evidence=evidence)
    assert torch.equal(masked, network(tokens, time, evidence=evidence))


@every_network
def test_the_output_depends_on_the_evidence_and_not_on_the_time(kind: str) -> None:
    network, (tokens, time, evidence) = built(kind), drawn()
    output = network(tokens, time, evidence=evidence)
    assert torch.equal(output, network(tokens, 1 - time, evidence=evidence))
    assert (output - network(tokens, time, evidence=evidence + 0.5)).abs().max() > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("level", LEVELS)
def test_a_hollow_output_depends_neither_on_its_own_token_nor_on_its_own_evidence(level: float) -> None:
    """Bit for bit, at every position; and on either of every other position."""
    network, (place, tokens, other, evidence) = built("hollow").double(), at_every_position()
    evidence = evidence.masked_fill(evidence < 0.05, 1.0)  # at 0 a token does not matter to anybody
    worth, time = evidence.scatter(1, place.unsqueeze(1), level), torch.zeros(len(place), dtype=torch.float64)
    before, by_token, by_level, by_both = (
        network(rows, time, evidence=own)
        for rows, own in ((tokens, evidence), (other, evidence), (tokens, worth), (other, worth))
    )
    own = torch.nn.functional.one_hot(place, L).bool()
    assert torch.equal(by_both[own], before[own])
    assert ((by_token - before).abs().amax(-1)[~own] > 1e-9).all()
    changed = (evidence != worth).any(1)
    assert ((by_level - before).abs().amax(-1)[changed][~own[changed]] > 1e-9).all()


@pytest.mark.parametrize("size", SIZES)
def test_features_are_0_at_one_end_1_at_the_other_and_tell_the_levels_of_a_vocabulary_apart(size: int) -> None:
    """Uniform noise over K tokens, from a thousandth of the signal to all but a thousandth: 24 levels, each step of
    which moves some feature by far more than rounding."""
    alpha = torch.sigmoid(torch.linspace(-7, 7, 24, dtype=torch.float64))
    evidence = torch.cat([torch.zeros(1), torch.log1p(size * alpha / (1 - alpha)), torch.tensor([math.inf])])
    phi = evidence_features(evidence[None])[0]
    assert ((phi >= 0) & (phi <= 1)).all()
    assert (phi[0] == 0).all()
    assert (phi[-1] == 1).all()
    assert (phi.diff(dim=0) >= -1e-6).all()
    assert (phi.diff(dim=0).amax(1) > 1e-4).all()


@pytest.mark.parametrize("size", SIZES)
def test_an_embedding_of_any_vocabulary_is_well_scaled_and_has_finite_gradients(size: int) -> None:
    embedding = EvidenceEmbedding(size, 16)
    tokens = torch.tensor([[0, 1, size - 1, size, 1, 0]])
    evidence = torch.tensor([[math.inf, 20.0, 1e-30, 0.0, 1.0, 35.0]], dtype=torch.float64)
    embedded = embedding(tokens, evidence)
    assert embedded.abs().max() < 1
    embedded.square().sum().backward()
    for name, parameter in embedding.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


@every_network
@pytest.mark.parametrize("evidence", [0.0, 1e-30, 20.0, math.inf])
def test_gradients_are_finite_at_every_evidence(kind: str, evidence: float) -> None:
    network, (tokens, time, _) = built(kind), drawn()
    logits = network(tokens, time, evidence=torch.full(tokens.shape, evidence, dtype=torch.float64))
    logits.log_softmax(-1)[..., 0].mean().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


@every_network
def test_a_model_marks_givens_and_is_timeless_where_its_tokens_say_all_or_nothing(kind: str) -> None:
    """Under uniform noise the evidence moves with t, whether or not the network has a vector for the level."""
    network = built(kind)
    for process, timeless in (
        (tl.Masked(K), True),
        (tl.MaskedUniform(K), True),
        (tl.Uniform(K), False),
        (tl.AbsorbingUniform(K), False),
        (tl.Hybrid(K), False),
        (tl.Process(tl.noise.Mask(K), tl.couplings.TransitionTimes()), True),
        (tl.Process(tl.noise.Table(K, torch.full((1, K), 1 / K)), tl.couplings.Absorbing()), False),
    ):
        model = tl.DiffusionModel(network, process)
        assert model.reads_evidence
        assert model.marks_given
        assert model.timeless is timeless


@every_network
def test_saving_and_loading_keep_a_network_that_reads_the_evidence(kind: str, tmp_path: Path) -> None:
    tokens, time, _ = drawn()
    noisy = tl.Hybrid(K).corrupt(tokens, time, torch.Generator().manual_seed(0))
    assert reloaded(tl.DiffusionModel(built(kind), tl.Hybrid(K)), noisy, tmp_path).reads_evidence


@pytest.mark.usefixtures("as_a_user")
def test_what_does_not_fit_is_named() -> None:
    network = built("dit")
    with pytest.raises(ValueError, match="conditioned on the evidence of each token; pass evidence="):
        network(torch.zeros(1, L, dtype=torch.int64), torch.rand(1))
    with pytest.raises(ValueError, match="predicts LeaveOneOut, not Denoiser; convert"):
        tl.DiffusionModel(network, tl.Uniform(K), predicts=tl.Denoiser)
    with pytest.raises(ValueError, match=r"takes 5 logits per position, but the network has 4"):
        tl.DiffusionModel(network, tl.Uniform(5))
    with pytest.raises(ValueError, match=r"takes 5 logits per position, but the network has 4"):
        tl.DiffusionModel(network, tl.Uniform(K)).with_process(tl.Masked(5))
    with pytest.raises(ValueError, match="conditioning must be 'time' or 'evidence', got 'both'"):
        replace(SMALL, conditioning="both")  # type: ignore[arg-type]
