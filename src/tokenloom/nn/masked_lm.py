"""Masked language models (BERT, RoBERTa, ALBERT, ModernBERT, ESM, ...) as denoisers of masked diffusion.

The network sees  first x last  (BERT's [CLS] x [SEP]), as it was trained, and answers for x alone: a sequence counts
text only.  It reads the whole of it, ignores the time, and puts no mass on ids that are not text.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenloom.nn.base import NETWORKS
from tokenloom.nn.hugging_face import Pretrained, PretrainedConfig, longest_sequence
from tokenloom.types import Tokens


@dataclass(frozen=True)
class MaskedLMConfig(PretrainedConfig):
    """A masked language model and the frame it is shown text in."""

    first: int | None = None
    """The id before every sequence, such as [CLS]; none where it was trained without."""
    last: int | None = None
    """The id behind every sequence, such as [SEP]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("first", self.first), ("last", self.last)):
            if value is not None and not 0 <= value < self.vocab_size:
                raise ValueError(f"{name} must be an id in 0..{self.vocab_size - 1}, got {value}")


@NETWORKS.register("masked-lm")
class MaskedLM(Pretrained):
    """A masked language model of the library transformers; see `Pretrained` for its arguments."""

    Config = MaskedLMConfig
    auto = "AutoModelForMaskedLM"
    config: MaskedLMConfig

    def __init__(
        self, config: MaskedLMConfig, forbidden: Bool[Tensor, "vocab"], pretrained: nn.Module | None = None
    ) -> None:
        super().__init__(config, forbidden, pretrained)
        self.start = position_start(self.body)
        lost = self.start + (config.first is not None) + (config.last is not None)
        self.length = longest_sequence(self.body.config, config.length, lost)

    def read(self, tokens: Tokens) -> Float[Tensor, "batch length width"]:
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


def position_start(model: nn.Module) -> int:
    """Return the first row of the table of positions that text uses: RoBERTa's come after that of its padding."""
    for name, table in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(table, nn.Embedding):
            return 0 if table.padding_idx is None else table.padding_idx + 1
    return 0
