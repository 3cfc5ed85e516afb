"""Language models of Hugging Face as masked denoisers: found in a folder, loaded by name, compared with themselves.

    masked language models (BERT, RoBERTa, ALBERT, ...)      Masked(K, mask inside), denoiser, frame added and cut
    causal architectures trained as denoisers (LLaDA, ...)   the same without a frame; every position sees every one

The network is built from its config with classes of transformers alone and the tensors are copied by name: none may be
missing.  Before the last map is taken out, the untouched network answers once, and the split one must agree with it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tokenloom.cells import Masked
from tokenloom.models.interop.large import large
from tokenloom.models.interop.source import Content, Located, locate_source, read_content
from tokenloom.models.interop.vocabulary import Vocabulary, framed, read_vocabulary, tokenizer_of
from tokenloom.models.model import DiffusionModel
from tokenloom.models.tensors import check_tensors
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.nn.bidirectional import BidirectionalConfig, BidirectionalLM
from tokenloom.nn.hugging_face import Pretrained, PretrainedConfig, build_pretrained, longest_sequence
from tokenloom.nn.masked_lm import MaskedLM, MaskedLMConfig
from tokenloom.posteriors import Denoiser
from tokenloom.schedules import LinearSchedule
from tokenloom.support.about import About
from tokenloom.support.extras import optional
from tokenloom.types import Tokens

Tensors = dict[str, Tensor]

OTHER_USES = re.compile(r"(^|\.)(pooler|seq_relationship|sop_classifier)\.")
"""Parts that predict something other than tokens."""
COMPUTED = re.compile(r"\.(position_ids|token_type_ids|inv_freq)$")
"""Buffers that a network computes for itself."""
LONGEST = 4096
"""The longest sequence of a large network, unless another is asked for; most were trained on no longer ones."""
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Plan:
    """The network of a checkpoint, its mask and the ids that it never predicts."""

    family: str
    network: type[Pretrained]
    config: PretrainedConfig
    mask: int
    forbidden: Tensor
    rename: Callable[[str], str] = str
    notes: tuple[str, ...] = ()


def load_hugging_face(
    folder: str | Path,
    tokenizer: str | Path | Tokenizer | None = None,
    *,
    pickles: bool = False,
    length: int | None = None,
    allow: tuple[str, ...] = (),
) -> DiffusionModel:
    """Load the language model of a folder; see `import_hugging_face`."""
    located = locate_source(folder, pickles)
    model, _ = import_hugging_face(located, read_content(located), tokenizer, length=length, allow=allow)
    return model


def import_hugging_face(
    located: Located,
    content: Content,
    tokenizer: str | Path | Tokenizer | None = None,
    *,
    length: int | None = None,
    allow: tuple[str, ...] = (),
) -> tuple[DiffusionModel, dict[str, str]]:
    """Return the model of a checkpoint, and what was found and done, as rows of a table.

    `tokenizer` replaces the one of the folder; `length` shortens the sequences that it reads; `allow` names special
    tokens that it may predict all the same, such as the [UNK] of a text with unknown words.
    """
    words = tokenizer_of(tokenizer, located.folder)
    plan = plan_of(content, words, located.folder, length, allow)
    words = framed(words) if plan.network is MaskedLM else words
    pretrained = build_pretrained(plan.config.architecture, plan.network.auto)
    ignored = load_by_name(pretrained, {plan.rename(name): value for name, value in content.tensors.items()})
    network = split(plan, pretrained)
    process = Masked(plan.config.vocab_size, mask_id=plan.mask, schedule=LinearSchedule(eps=0.0))
    origin = located.origin(plan.family, "as stored", plan.notes)
    source = {"kind": "text", "length": network.length, "tokenizer": "", "packing": "wrap"}
    about = About(origin=origin, source=None if words is None else source)
    model = DiffusionModel(network.eval(), process, None, Denoiser, words, about)
    return model, _report(plan, model, ignored)


def plan_of(
    content: Content, tokenizer: Tokenizer | None, folder: Path, length: int | None, allow: tuple[str, ...]
) -> Plan:
    """Decide which network a config and the names of the tensors describe, and find its special tokens."""
    config = content.config
    if "model_type" not in config:
        config = config | {"model_type": _type_of(content.tensors)}
    known = large(config)
    architecture = config if known is None else known.architecture
    vocabulary = read_vocabulary(tokenizer, folder, config, PretrainedConfig(architecture).vocab_size)
    if vocabulary.mask is None:
        raise ValueError(
            "no mask token was found, neither by its name in a tokenizer nor as mask_token_id in config.json; "
            "name the model's own tokenizer"
        )
    if known is None:
        _check_masked_lm(config)
        first, last = vocabulary.first, vocabulary.last
        if first is None or last is None:
            raise ValueError(
                "a masked language model is shown text between two tokens such as [CLS] and [SEP], and the tokenizer "
                f"has no {'first' if first is None else 'last'} one; name the model's own tokenizer"
            )
        barred = _forbidden(vocabulary, vocabulary.special | vocabulary.nameless, tokenizer, allow)
        shape = MaskedLMConfig(config, first, last, length=length)
        return Plan(str(config["model_type"]), MaskedLM, shape, vocabulary.mask, barred)
    longest = min(architecture.get("max_position_embeddings") or LONGEST, LONGEST) if length is None else length
    shaped = BidirectionalConfig(architecture, known.shift, length=longest)
    barred = _forbidden(vocabulary, vocabulary.nameless, tokenizer, allow)
    return Plan(known.family, BidirectionalLM, shaped, vocabulary.mask, barred, known.rename, known.notes)


def _type_of(tensors: Tensors) -> str:
    """Find the type of a network whose config lacks it: the first part of the name of a tensor."""
    types = optional("transformers", "evaluate").models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    found = next((name.partition(".")[0] for name in tensors if name.partition(".")[0] in types), None)
    if found is None:
        raise ValueError(
            f"config.json has no model_type, and no tensor is named after one: {next(iter(tensors), None)}"
        )
    return found


def _check_masked_lm(config: dict[str, Any]) -> None:
    kind, names = config["model_type"], optional("transformers", "evaluate").models.auto.modeling_auto
    if config.get("is_encoder_decoder") or config.get("is_decoder"):
        raise ValueError(f"a network of type {kind!r} with a decoder is not a masked language model")
    if kind in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return
    if kind in names.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise ValueError(
            f"a network of type {kind!r} predicts the next token and is not a denoiser; use it as a judge of samples"
        )
    raise ValueError(
        f"a network of type {kind!r} is neither a masked language model nor of a family that is known here"
    )


def _forbidden(vocabulary: Vocabulary, flags: Tensor, tokenizer: Tokenizer | None, allow: tuple[str, ...]) -> Tensor:
    """Flag the ids that are never predicted: the mask, and all that are flagged except those that are allowed."""
    flags = flags.clone()
    for name in allow:
        ids = [] if tokenizer is None else tokenizer.encode(name)
        if len(ids) != 1:
            raise ValueError(f"{name!r} is not one token of the tokenizer, so it cannot be allowed")
        flags[ids] = False
    flags[vocabulary.mask] = True
    return flags


def load_by_name(model: Any, tensors: Tensors) -> list[str]:
    """Copy tensors into a network of transformers, and return the names of those it has no use for.

    Old files call the weight and bias of a norm gamma and beta, and leave out a tensor that is tied to another.
    """
    found = {
        re.sub(r"\.beta$", ".bias", re.sub(r"\.gamma$", ".weight", name)): value for name, value in tensors.items()
    }
    own = model.state_dict()
    ignored = [name for name in found if name not in own and _is_of_another_use(name, model)]
    kept = {name: value for name, value in found.items() if name not in ignored}
    kept |= {name: value for name, value in own.items() if COMPUTED.search(name)}
    tied: dict[int, list[str]] = {}
    for name, value in own.items():
        tied.setdefault(value.data_ptr(), []).append(name)
    for names in tied.values():
        stored = [name for name in names if name in kept]
        for name in stored[1:]:
            if not torch.equal(kept[name], kept[stored[0]]):
                raise ValueError(
                    f"{stored[0]} and {name} differ, but the config ties them; set tie_word_embeddings to false in it"
                )
        kept |= {name: kept[stored[0]] for name in names if stored}
    check_tensors(own, kept)
    model.load_state_dict(kept)
    return ignored


def _is_of_another_use(name: str, model: Any) -> bool:
    """Return whether a tensor belongs to a part outside of the body that this network does not have."""
    declared = getattr(model.base_model, "_keys_to_ignore_on_load_unexpected", None) or ()
    if OTHER_USES.search(name) or COMPUTED.search(name) or any(re.search(pattern, name) for pattern in declared):
        return True
    parts = {part for part, _ in model.named_modules()}
    return not name.startswith(f"{model.base_model_prefix}.") and name.rpartition(".")[0] not in parts


@torch.no_grad()
def split(plan: Plan, pretrained: Any) -> Pretrained:
    """Split a network into ours, and raise unless both give the same logits."""
    text = (~plan.forbidden).nonzero().squeeze(1)
    count = min(8, plan.config.length or 8, max(1, longest_sequence(pretrained.config, None) - 4))
    tokens = text[torch.arange(count) * 7919 % len(text)].unsqueeze(0)
    expected = _untouched(plan.config, pretrained, tokens)
    network = plan.network(plan.config, plan.forbidden, pretrained)
    got = network(tokens, torch.zeros(1))
    worst = float((got - expected)[..., text].abs().max())
    if not worst <= TOLERANCE * (1 + float(expected.abs().max())):
        raise ValueError(
            f"{type(pretrained).__name__} does more to its logits than a linear map: split, they differ by {worst:.2g}"
        )
    return network


def _untouched(config: PretrainedConfig, pretrained: Any, tokens: Tokens) -> Tensor:
    """Return the logits of a network as transformers itself would call it."""
    if isinstance(config, MaskedLMConfig):
        shown = F.pad(F.pad(tokens, (1, 0), value=config.first or 0), (0, 1), value=config.last or 0)
        logits: Tensor = pretrained(input_ids=shown, attention_mask=torch.ones_like(shown), return_dict=True).logits
        return logits[:, 1:-1]
    size = tokens.shape[1]
    mask = torch.ones(1, 1, size, size, dtype=torch.bool)
    logits = pretrained(input_ids=tokens, attention_mask=mask, use_cache=False, return_dict=True).logits
    shifted = isinstance(config, BidirectionalConfig) and config.shift
    return torch.cat([logits[:, :1], logits[:, :-1]], 1) if shifted else logits


def _report(plan: Plan, model: DiffusionModel, ignored: list[str]) -> dict[str, str]:
    K, config, network = plan.config.vocab_size, plan.config, model.network
    assert isinstance(network, Pretrained)
    frame = f"{config.first} x {config.last}" if isinstance(config, MaskedLMConfig) else "none"
    aligned = isinstance(config, BidirectionalConfig) and config.shift
    rows = {
        "family": f"{plan.family}, {type(network.body).__name__}",
        "weights": f"{(model.about.origin or {})['file']}, as stored",
        "parameters": f"{sum(parameter.numel() for parameter in network.parameters()):,}",
        "network": f"{network.name}, length {network.length}, frame {frame}",
        "vocabulary": f"{K:,} ids, mask {plan.mask:,}; {int(plan.forbidden.sum()):,} are never predicted",
        "process": f"{model.process.title}, {model.process.schedule}",
        "time input": "none",
        "predicts": "Denoiser: it was trained to restore masked tokens" + (", one position later" if aligned else ""),
        "tokenizer": "none" if model.tokenizer is None else f"{model.tokenizer.vocab_size:,} ids, rows cut as 'wrap'",
        "ignored": ", ".join(ignored[:3]) + (f" and {len(ignored) - 3} more" if len(ignored) > 3 else "") or "nothing",
    }
    return rows | {f"beware {number}": note for number, note in enumerate(plan.notes, 1)}
