"""Language models of the library transformers as denoisers of masked diffusion.

A masked one (BERT, RoBERTa, ALBERT, ModernBERT, ESM, ...) sees  first x last  (BERT's [CLS] x [SEP]), as it was
trained, and answers for x alone: a sequence counts text only.  It reads the whole of it, ignores the time, and puts no
mass on ids that are not text.

In a causal architecture that was trained as a masked denoiser (LLaDA, Dream, DiffuCoder, A2D) every position sees all.
Llama, Qwen2 and Qwen3 take an attention mask that is added to the scores, [batch, 1, length, length]; one of zeros
hides nothing.  Networks that grew out of a next-token model keep its alignment (`shift`): the prediction for position l
is the output at l - 1.  With a token `first` before the sequence, position 0 has one too; without, it repeats the one
for position 1, so give it a first token.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tokenloom.nn.base import NETWORKS, Hidden
from tokenloom.nn.hugging_face import Pretrained, PretrainedConfig
from tokenloom.types import Tokens


def check_frame(config: PretrainedConfig, *names: str) -> None:
    """Raise unless the ids around a sequence, or None, are of the vocabulary."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not 0 <= value < config.vocab_size:
            raise ValueError(f"{name} must be an id in 0..{config.vocab_size - 1}, got {value}")


@dataclass(frozen=True)
class MaskedLMConfig(PretrainedConfig):
    """A masked language model and the frame it is shown text in."""

    first: int | None = None  # the id before every sequence, such as [CLS]; none where it was trained without
    last: int | None = None  # the id behind every sequence, such as [SEP]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_frame(self, "first", "last")


@NETWORKS.register("masked-lm")
class MaskedLM(Pretrained):
    """A masked language model; see `Pretrained` for its arguments."""

    Config = MaskedLMConfig
    auto = "AutoModelForMaskedLM"
    config: MaskedLMConfig

    @cached_property
    def start(self) -> int:
        """The first row of the table of positions that text uses: RoBERTa's come after that of its padding."""
        for name, table in self.body.named_modules():
            if name.endswith("position_embeddings") and isinstance(table, nn.Embedding):
                return 0 if table.padding_idx is None else table.padding_idx + 1
        return 0

    @property
    def taken(self) -> int:
        return self.start + (self.config.first is not None) + (self.config.last is not None)

    def read(self, tokens: Tokens) -> Hidden:
        """Read every position, whatever its id: RoBERTa on its own would skip its padding id."""
        first, last = self.config.first, self.config.last
        shown = tokens if first is None else F.pad(tokens, (1, 0), value=first)
        shown = shown if last is None else F.pad(shown, (0, 1), value=last)
        inputs = {"input_ids": shown, "attention_mask": torch.ones_like(shown)}
        if self.start:
            places = torch.arange(self.start, self.start + shown.shape[1], device=tokens.device)
            inputs["position_ids"] = places.expand_as(shown)
        features: Tensor = self.body(**inputs, return_dict=True).logits
        before = int(first is not None)
        return features[:, before : before + tokens.shape[1]]


@dataclass(frozen=True)
class BidirectionalConfig(PretrainedConfig):
    """A causal architecture and how its outputs are aligned."""

    shift: bool = False  # read the prediction for l from the output at l - 1
    first: int | None = None  # the id before every sequence, which gives position 0 an output to read (`shift`)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_frame(self, "first")
        if self.first is not None and not self.shift:
            raise ValueError(f"first is for outputs that are read one position later, got {self.first} without shift")


@NETWORKS.register("bidirectional-lm")
class BidirectionalLM(Pretrained):
    """A causal architecture in which every position sees every position."""

    Config = BidirectionalConfig
    auto = "AutoModelForCausalLM"
    config: BidirectionalConfig

    @property
    def taken(self) -> int:
        return int(self.config.first is not None)

    def read(self, tokens: Tokens) -> Hidden:
        first = self.config.first
        shown = tokens if first is None else F.pad(tokens, (1, 0), value=first)
        batch, length = shown.shape
        dtype = self.body.get_input_embeddings().weight.dtype
        hides_nothing = torch.zeros(1, 1, length, length, device=tokens.device, dtype=dtype)
        mask = hides_nothing.expand(batch, 1, length, length)
        features: Tensor = self.body(input_ids=shown, attention_mask=mask, use_cache=False, return_dict=True).logits
        return shifted(features, first is not None) if self.config.shift else features


def shifted(outputs: Float[Tensor, "batch shown width"], framed: bool) -> Hidden:
    """Move outputs one position on; without a first token before the sequence, position 0 repeats its own."""
    return outputs[:, :-1] if framed else torch.cat([outputs[:, :1], outputs[:, :-1]], 1)
