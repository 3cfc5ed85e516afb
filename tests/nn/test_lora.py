"""Adapters: nothing at first, merged into the weights what they were beside them, and alone in being trained."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tokenloom as tl
from tests.nn.pretrained import ALL, CAUSAL, K, L, pretrained, tokens
from tests.training.helpers import awake
from tokenloom.nn.base import NETWORKS
from tokenloom.nn.hugging_face import Pretrained
from tokenloom.nn.language_models import BidirectionalConfig, BidirectionalLM, MaskedLM, MaskedLMConfig
from tokenloom.nn.lora import PARTS, adapt, adaptable, check_rank, expected, merge, merged_state
from tokenloom.nn.transformer import TransformerConfig
from tokenloom.objectives import head_loss

peft = pytest.importorskip("peft", reason="peft is not installed; make test brings it")
OURS = ("dit", "hollow", "causal")


def network_of(kind: str) -> nn.Module:
    """A network with weights away from zero, the same at every call."""
    if kind in OURS:
        torch.manual_seed(0)
        network: nn.Module = NETWORKS[kind](TransformerConfig(K, K, L, width=16, depth=2, heads=2, condition=8))
        for parameter in network.parameters():
            nn.init.normal_(parameter, std=0.3)
        return network.eval()
    forbidden, body = torch.zeros(K, dtype=torch.bool).index_fill(0, torch.tensor([4]), True), pretrained(kind)
    built: Pretrained
    if kind in CAUSAL:
        built = BidirectionalLM(BidirectionalConfig(body.config.to_dict(), shift=True, first=0), forbidden, body)
    else:
        built = MaskedLM(MaskedLMConfig(body.config.to_dict(), 2, 3), forbidden, body)
    return built.eval()


def logits(network: nn.Module) -> Tensor:
    found: Tensor = network(tokens(), torch.full((3,), 0.5))
    return found.detach()[..., 5:38]


def filled(network: nn.Module) -> dict[str, Tensor]:
    """Adapters away from zero, put into the network and returned."""
    generator = torch.Generator().manual_seed(3)
    state = network.state_dict()
    found = {name: value for name, value in state.items() if name.endswith(PARTS)}
    for value in found.values():
        value.normal_(0, 0.3, generator=generator)
    return found


@pytest.mark.parametrize("kind", [*OURS, *ALL])
def test_merged_equals_unmerged_to_rounding(kind: str) -> None:
    """In any place from which a network reads the weights, as the readers of a hollow one do from a memory."""
    adapted, plain = network_of(kind), network_of(kind)
    before = logits(adapted)
    adapt(adapted, 2)
    assert torch.equal(logits(adapted), before)  # fresh adapters change nothing
    adapters = filled(adapted)
    merge(plain, adapters)
    beside = logits(adapted)
    assert float((beside - before).abs().max()) > 0.02
    torch.testing.assert_close(logits(plain), beside, atol=2e-5, rtol=2e-5)
    assert {name: value.shape for name, value in expected(network_of(kind), 2).items()} == {
        name: value.shape for name, value in adapters.items()
    }


@pytest.mark.parametrize("kind", [*OURS, *ALL])
def test_every_linear_map_of_the_blocks_is_adapted_and_alone_trained(kind: str) -> None:
    network = network_of(kind)
    names = set(adaptable(network))
    lists = [name for name, module in network.named_modules() if isinstance(module, nn.ModuleList)]
    linear = {name for name, module in network.named_modules() if isinstance(module, nn.Linear)}
    assert names == {name for name in linear if any(name.startswith(f"{place}.") for place in lists)}
    assert len(names) >= 4
    adapt(network, 2)
    trained = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    assert trained == {f"{name}.{part}" for name in names for part in PARTS}
    assert not any("head" in name or "embed" in name for name in trained)


@pytest.mark.parametrize("kind", ["dit", "bert", "llama"])
def test_the_merged_state_is_what_peft_leaves_when_it_merges(kind: str) -> None:
    network = network_of(kind)
    names, plain = list(adaptable(network)), set(network.state_dict())
    model = peft.get_peft_model(network, peft.LoraConfig(r=2, lora_alpha=3, target_modules=names, use_dora=True))
    filled(network)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    state = merged_state(network)
    assert set(state) == plain
    after = network.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    model.merge_and_unload()
    assert all(torch.equal(network.state_dict()[name], value) for name, value in state.items())


def test_what_peft_cannot_merge_is_refused_before_anything_is_written() -> None:
    network = network_of("dit")
    config = peft.LoraConfig(r=2, target_modules=["qkv"], modules_to_save=["head"])
    peft.get_peft_model(network, config)
    with pytest.raises(ValueError, match=r"holds a ModulesToSaveWrapper of peft at head, which cannot be merged"):
        merged_state(network)


@pytest.mark.parametrize(
    ("network", "rank", "sentence"),
    [
        ("llama", 9, r"--lora must be a rank in 1\.\.8, the smaller side of body\..*k_proj, got 9"),
        ("dit", 0, r"--lora must be a rank in 1\.\.8, the smaller side of blocks\.0\.modulation\.linear, got 0"),
        (None, 2, "--lora 2 found no linear map in the blocks of Linear; leave it out"),
    ],
)
def test_a_rank_that_does_not_fit_is_refused(network: str | None, rank: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_rank(nn.Linear(3, 3) if network is None else network_of(network), rank)


def test_a_frozen_head_costs_no_gradient_and_changes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adapters never train the head, whose gradient is a product as large as that of its logits."""
    products: list[int] = []

    def counted(*arguments: Any) -> Tensor:
        products.append(1)
        return added(*arguments)

    added = head_loss._added
    monkeypatch.setattr(head_loss, "_added", counted)

    def gradients(frozen: bool) -> dict[str, Any]:
        torch.manual_seed(0)
        network = NETWORKS["dit"](TransformerConfig(5, 5, 8, width=16, depth=1, heads=2, condition=8, dropout=0.0))
        model = awake(tl.DiffusionModel(network, tl.Uniform(5)))
        model.get_parameter("network.head.weight").requires_grad_(not frozen)
        x_0, t = torch.arange(8).remainder(5).expand(4, 8), torch.linspace(0.1, 0.9, 4)
        generator = torch.Generator().manual_seed(4)
        mean = tl.training_loss(model, tl.objectives.CrossEntropy(), x_0, t, generator=generator).mean
        mean.backward()  # type: ignore[no-untyped-call]
        return {name: parameter.grad for name, parameter in model.named_parameters()}

    without = gradients(frozen=True)
    assert not products
    whole = gradients(frozen=False)
    assert products
    assert without.pop("network.head.weight") is None
    assert whole.pop("network.head.weight") is not None
    assert all(torch.equal(value, without[name]) for name, value in whole.items())
