"""Language models of Hugging Face as masked denoisers: found in a folder, loaded by name, compared with themselves.

    masked language models (BERT, RoBERTa, ALBERT, ...)      Masked(K, mask inside), denoiser, frame added and cut
    causal architectures trained as denoisers (LLaDA, ...)   the same without a frame; every position sees every one
    causal language models (Llama, ...), where asked for     the same, as the beginning of a training (`causal.py`)

The network is built from its config with classes of transformers alone and the tensors are copied by name: none may be
missing.  Before the last map is taken out, the untouched network answers once, and the split one must agree with it.
"""

import re
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tokenloom.cells import Masked
from tokenloom.models.interop.causal import BEGIN, beginning
from tokenloom.models.interop.ddit import Tensors
from tokenloom.models.interop.families import Config, Plan
from tokenloom.models.interop.large import Large, large
from tokenloom.models.interop.source import GGUF, Content
from tokenloom.models.interop.vocabulary import Named, Vocabulary, read_vocabulary, tokenizer_of
from tokenloom.models.tensors import check_tensors
from tokenloom.models.tokenizer import Subwords, Tokenizer
from tokenloom.nn.base import Network
from tokenloom.nn.hugging_face import Pretrained, PretrainedConfig, build_pretrained, longest_sequence
from tokenloom.nn.language_models import BidirectionalConfig, BidirectionalLM, MaskedLM, MaskedLMConfig, shifted
from tokenloom.posteriors import Denoiser
from tokenloom.schedules import LinearSchedule
from tokenloom.support.extras import optional
from tokenloom.types import Tokens

Parts = tuple[Plan, Network, Tokenizer | None, dict[str, str]]
"""The parts of a model, and rows of the report on it."""

OTHER_USES = re.compile(r"(^|\.)(pooler|seq_relationship|sop_classifier)\.")
"""Parts that predict something other than tokens."""
COMPUTED = re.compile(r"\.(position_ids|token_type_ids|inv_freq)$")
"""Buffers that a network computes for itself."""
LONGEST = 4096
"""The longest sequence of a large network, unless another is asked for; most were trained on no longer ones."""


def read_hugging_face(
    content: Content, tokenizer: Named, length: int | None, allow: tuple[str, ...], causal: bool
) -> Parts:
    """Build the network that a config and the names of the tensors describe; see `import_model` for the options."""
    config, folder = content.config, content.located.folder
    if "model_type" not in config:
        config = config | {"model_type": _type_of(content.tensors)}
    known, named = large(config), content.tokenizer if tokenizer is None else tokenizer
    if causal:
        named = tokenizer_of(named, folder, PretrainedConfig(config).vocab_size)
        content, known = beginning(content._replace(config=config), named)
        config = content.config
    found = known or Large(str(config["model_type"]), config)
    size = PretrainedConfig(found.architecture).vocab_size
    if known is None:
        _check_masked_lm(config)
    words = tokenizer_of(named, folder, size)
    vocabulary = read_vocabulary(words, folder, config, size, allow, specials=known is None)
    forbidden = vocabulary.forbidden
    shape: PretrainedConfig
    kind: type[Pretrained]
    if known is None:
        _check_frame(vocabulary)
        kind, shape = MaskedLM, MaskedLMConfig(config, vocabulary.first, vocabulary.last, length=length)
        frame = f"{vocabulary.first} x {vocabulary.last}"
        words = Subwords(words.backend.to_str(), framed=True) if isinstance(words, Subwords) else words
    else:
        kind, first = BidirectionalLM, known.first
        longest = min((known.architecture.get("max_position_embeddings") or LONGEST) - (first is not None), LONGEST)
        longest = longest if length is None else length
        shape = BidirectionalConfig(known.architecture, known.shift, first, length=longest)
        frame = "none" if first is None else f"{first} x, read one position later"
    pretrained = build_pretrained(shape.architecture, kind.auto)
    ignored = load_by_name(pretrained, {found.rename(name): value for name, value in content.tensors.items()})
    network = split(kind, shape, forbidden, pretrained)
    report = {
        "parameters": f"{sum(parameter.numel() for parameter in network.parameters()):,}",
        "network": f"{network.name} of {type(network.body).__name__}, length {network.length}, frame {frame}",
        "vocabulary": f"{len(forbidden):,} ids, mask {vocabulary.mask:,}; {forbidden.sum():,} are never predicted",
        "time input": "none",
        "ignored": ", ".join(ignored[:3]) + (f" and {len(ignored) - 3} more" if len(ignored) > 3 else "") or "nothing",
    }
    process = Masked(len(forbidden), mask_id=vocabulary.mask, schedule=LinearSchedule(eps=0.0))
    why = "it was trained to restore masked tokens" + (", one position later" if found.shift else "")
    why = "once it is trained as one" if found.untrained else why
    plan = Plan(
        found.family,
        process,
        Denoiser,
        why,
        {},
        "wrap",
        found.notes,
        _restored(content, network),
        untrained=found.untrained,
    )
    return plan, network, words, report


def _restored(content: Content, network: Network) -> str:
    """Say which weights are taken, and of a GGUF file what restoring them costs."""
    file, numbers = content.located.weights[0], sum(parameter.numel() for parameter in network.parameters())
    if file.suffix != GGUF:
        return "as stored"
    return f"restored to float32: {file.stat().st_size / 1e6:,.0f} MB in the file, {numbers / 250_000:,.0f} MB now"


def _check_masked_lm(config: Config) -> None:
    """Raise unless a config is that of a masked language model."""
    kind, names = config["model_type"], optional("transformers", "evaluate").models.auto.modeling_auto
    if config.get("is_encoder_decoder") or config.get("is_decoder"):
        raise ValueError(f"a network of type {kind!r} with a decoder is not a masked language model")
    if kind not in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise ValueError(
            f"a network of type {kind!r} predicts the next token and is not a denoiser; {BEGIN}"
            if kind in names.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
            else f"a network of type {kind!r} is neither a masked language model nor of a family that is known here"
        )


def _check_frame(vocabulary: Vocabulary) -> None:
    """Raise unless there are tokens to put around a sequence."""
    if vocabulary.first is None or vocabulary.last is None:
        raise ValueError(
            "a masked language model is shown text between two tokens such as [CLS] and [SEP], and the tokenizer "
            f"has no {'first' if vocabulary.first is None else 'last'} one; name the model's own tokenizer"
        )


def _type_of(tensors: Tensors) -> str:
    """Find the type of a network whose config lacks it: the first part of the name of a tensor."""
    types = optional("transformers", "evaluate").models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    found = next((name.partition(".")[0] for name in tensors if name.partition(".")[0] in types), None)
    if found is None:
        raise ValueError(f"config.json has no model_type, and no tensor says it, as in {next(iter(tensors), None)}")
    return found


def load_by_name(model: Any, tensors: Tensors) -> list[str]:
    """Copy tensors into a network of transformers, and return the names of those it has no use for."""
    # Old files call the weight and bias of a norm gamma and beta, and leave out a tensor that is tied to another.
    found = {re.sub(r"\.beta$", ".bias", re.sub(r"\.gamma$", ".weight", key)): value for key, value in tensors.items()}
    own, modules = model.state_dict(), {name for name, _ in model.named_modules()}
    declared = getattr(model.base_model, "_keys_to_ignore_on_load_unexpected", None) or ()

    def is_unused(name: str) -> bool:
        """Return whether a tensor belongs to a part outside of the body that this network does not have."""
        outside = not name.startswith(f"{model.base_model_prefix}.") and name.rpartition(".")[0] not in modules
        return outside or any(re.search(pattern, name) for pattern in (OTHER_USES, COMPUTED, *declared))

    ignored = [name for name in found if name not in own and is_unused(name)]
    kept = {name: value for name, value in found.items() if name not in ignored}
    kept |= {name: value for name, value in own.items() if COMPUTED.search(name)}
    tied: dict[int, list[str]] = {}
    for name, value in own.items():
        tied.setdefault(value.data_ptr(), []).append(name)
    for names in tied.values():
        stored = [name for name in names if name in kept]
        for name in stored[1:]:
            if not torch.equal(kept[name], kept[stored[0]]):
                raise ValueError(f"{stored[0]} and {name} differ, but are tied; set tie_word_embeddings to false")
        kept |= {name: kept[stored[0]] for name in names if stored}
    check_tensors(own, kept)
    model.load_state_dict(kept)
    return ignored


@torch.no_grad()
def split(kind: type[Pretrained], shape: PretrainedConfig, forbidden: Tensor, pretrained: Any) -> Pretrained:
    """Split a network into ours, and raise unless both give the same logits."""
    text = (~forbidden).nonzero().squeeze(1)
    count = min(8, shape.length or 8, max(1, longest_sequence(pretrained.config, None) - 4))
    tokens = text[torch.arange(count) * 7919 % len(text)].unsqueeze(0)
    expected = _untouched(shape, pretrained, tokens)
    network = kind(shape, forbidden, pretrained)
    worst = float((network(tokens, torch.zeros(1)) - expected)[..., text].abs().max())
    if not worst <= 1e-3 * (1 + float(expected.abs().max())):
        kind_name = type(pretrained).__name__
        raise ValueError(f"{kind_name} does more to its logits than a linear map: split, they differ by {worst:.2g}")
    return network


def _untouched(shape: PretrainedConfig, pretrained: Any, tokens: Tokens) -> Tensor:
    """Return the logits of a network as transformers itself would call it."""
    if isinstance(shape, MaskedLMConfig):
        shown = F.pad(F.pad(tokens, (1, 0), value=shape.first or 0), (0, 1), value=shape.last or 0)
        logits: Tensor = pretrained(input_ids=shown, attention_mask=torch.ones_like(shown), return_dict=True).logits
        return logits[:, 1:-1]
    assert isinstance(shape, BidirectionalConfig)
    shown = tokens if shape.first is None else F.pad(tokens, (1, 0), value=shape.first)
    size = shown.shape[1]
    mask = torch.ones(1, 1, size, size, dtype=torch.bool)
    logits = pretrained(input_ids=shown, attention_mask=mask, use_cache=False, return_dict=True).logits
    return shifted(logits, shape.first is not None) if shape.shift else logits
