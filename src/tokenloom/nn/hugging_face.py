"""A network of the library transformers as one of ours: built from its own config, split into features and head.

    logits = W h + b + forbidden,    forbidden = -inf at every id that never stands for text, else 0

h is what the network hands to its last linear map (W, b), which is taken out of it and replaced by the identity.  So
`head` gives logits at any subset of positions, as the samplers ask for them.  A matrix that the config ties to the
embedding stays that one tensor: it is trained, moved and saved once.

Only classes of the library itself are built.  Whatever a config says about code, kernels or number formats is dropped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenloom.nn.base import Hidden, Network, NetworkOptions, Task
from tokenloom.support.extras import optional
from tokenloom.types import PerRow, Tokens

Forbidden = Bool[Tensor, "vocab"]  # flags of the ids that are never predicted
DROPPED = {
    "architectures", "attn_implementation", "auto_map", "dtype", "experts_implementation", "name_or_path",
    "quantization_config", "torch_dtype", "torchscript", "transformers_version", "use_cache",
}  # fmt: skip
"""Keys of a config that say nothing about the sizes of a network: code, kernels and number formats."""


@dataclass(frozen=True)
class PretrainedConfig:
    """The config of a network of the library transformers."""

    architecture: dict[str, Any]  # its own config.json, with its `model_type`
    length: int | None = field(default=None, kw_only=True)
    """The longest sequence, where it is shorter than what the network has positions for."""

    @property
    def vocab_size(self) -> int:
        """K, one logit each; the mask is among them."""
        return int(self.architecture["vocab_size"])

    def __post_init__(self) -> None:
        for key, kind in (("model_type", str), ("vocab_size", int)):
            if not isinstance(self.architecture.get(key), kind):
                raise ValueError(f"the config of a network of transformers lacks {key}")


@dataclass(frozen=True)
class PretrainedOptions(NetworkOptions):
    """No options: such a network comes with its weights."""

    kind: str = "masked-lm"

    def build(self, task: Task) -> nn.Module:
        raise ValueError(
            f"a {self.kind} network comes with its weights and is not trained from scratch; import it with "
            "`tokenloom import SOURCE --to FOLDER` and train it further with `tokenloom train --from FOLDER`"
        )


class PretrainedHead(nn.Module):
    """The last linear map of a network, with -inf at the forbidden ids."""

    is_linear = True
    own_weight: Tensor | None
    own_bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None, table: nn.Module, forbidden: Forbidden) -> None:
        super().__init__()
        tied = weight is getattr(table, "weight", None)
        self.own_weight, self.own_bias = None if tied else weight, bias
        self._tied: tuple[Any, ...] = (table,) if tied else ()  # in a tuple it is not a part of the head: saved once
        barrier = torch.zeros_like(forbidden, dtype=weight.dtype).masked_fill(forbidden, -torch.inf)
        self.register_buffer("barrier", barrier, persistent=False)
        self.barrier: Tensor

    @property
    def weight(self) -> Float[Tensor, "vocab width"]:
        """Return the matrix, with one row per token."""
        weight: Tensor = self._tied[0].weight if self._tied else self.get_parameter("own_weight")
        return weight

    @property
    def bias(self) -> Float[Tensor, "vocab"]:
        """Return the bias of the network, with -inf at the forbidden ids, which get no gradient."""
        return self.barrier if self.own_bias is None else self.own_bias + self.barrier

    def forward(self, features: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows vocab"]:
        return F.linear(features, self.weight, self.bias)


class Pretrained(Network):
    """A network of the library transformers; a subclass says how it reads tokens.

    The ids that `forbidden` flags are never predicted; `pretrained` brings the weights, which else are random.
    """

    Config = PretrainedConfig
    Options = PretrainedOptions
    auto: ClassVar[str]  # the class of transformers that builds the network from its config

    timeless = True
    config: PretrainedConfig
    head: PretrainedHead
    read: Callable[[Tokens], Hidden]  # the features at every token: the network without its last map

    def __init__(self, config: PretrainedConfig, forbidden: Forbidden, pretrained: nn.Module | None = None) -> None:
        super().__init__(config)
        K, flags = config.vocab_size, int(forbidden.sum())
        if forbidden.shape != (K,) or flags == K:
            raise ValueError(f"forbidden must flag some but not all of {K} ids, got {flags} flags of {len(forbidden)}")
        self.body: Any = build_pretrained(config.architecture, self.auto) if pretrained is None else pretrained
        self.head = split_head(self.body, forbidden)
        self.num_states = self.num_outputs = K
        self.length = longest_sequence(self.body.config, config.length, self.taken)

    @property
    def taken(self) -> int:
        """The positions of the network that text cannot use."""
        return 0

    def constants(self) -> dict[str, Tensor]:
        return {"forbidden": self.head.barrier.isneginf()}

    def features(self, tokens: Tokens, time: PerRow) -> Hidden:
        """Compute everything but the head; the time is not read."""
        if tokens.shape[1] > self.length:
            raise ValueError(f"this network reads at most {self.length} positions, got {tokens.shape[1]}")
        return self.read(tokens)


def build_pretrained(architecture: Mapping[str, Any], auto: str) -> Any:
    """Build a network with random weights in float32, from its own config."""
    library = optional("transformers", "evaluate")
    library.utils.logging.set_verbosity_error()
    kept = {key: value for key, value in architecture.items() if key not in DROPPED and not key.startswith("_")}
    kind = kept.pop("model_type")
    try:
        config = library.AutoConfig.for_model(kind, **kept)
        builder = getattr(library, auto)
        try:
            return builder.from_config(config, attn_implementation="sdpa").eval()
        except ValueError as error:
            if "scaled_dot_product_attention" not in str(error):
                raise
            return builder.from_config(config, attn_implementation="eager").eval()
    except Exception as error:
        sentence = f"transformers {library.__version__} cannot build a network of type {kind!r}"
        raise ValueError(f"{sentence}: {' '.join(str(error).split())[:200]}") from error


def longest_sequence(config: Any, asked: int | None, lost: int = 0) -> int:
    """Return the largest number of tokens that a network reads, of whose positions `lost` are taken."""
    positions = getattr(config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= lost:
        raise ValueError(f"max_position_embeddings must be a whole number above {lost}, got {positions}")
    if asked is not None and not 1 <= asked <= positions - lost:
        raise ValueError(f"the length must be in 1..{positions - lost}, for which there are positions, got {asked}")
    return positions - lost if asked is None else asked


def split_head(model: Any, forbidden: Forbidden) -> PretrainedHead:
    """Take the last linear map out of a network, which then gives features where it gave logits."""
    decoder = model.get_output_embeddings()
    if not isinstance(decoder, nn.Linear):
        raise ValueError(f"{type(model).__name__} does not end in a linear map to the vocabulary")
    name = next(name for name, module in model.named_modules() if module is decoder)
    place, _, own = name.rpartition(".")
    parent, weight, bias = model.get_submodule(place), decoder.weight, decoder.bias
    setattr(parent, own, nn.Identity())
    outer = getattr(parent, "bias", None)
    if isinstance(outer, nn.Parameter):  # ESM adds its bias after the map; BERT's is that of the map, named twice
        bias = outer if bias is None else bias
        del parent.bias
        parent.bias = 0.0
    return PretrainedHead(weight, bias, model.get_input_embeddings(), forbidden)
