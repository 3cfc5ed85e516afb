"""Wrong input gets a sentence with the value, the limit and the remedy, before any computation.

Every check here returns nothing and raises `ValueError`.  Checks are made where a user's values enter: a public
function, the start of a run, a file.  Inside, functions trust each other.
"""

import torch
from torch import Tensor

from tokenloom.support.typed import check_type
from tokenloom.types import Logits, Tokens


def check_least(part: object, **least: int) -> None:
    """Raise unless each of these attributes is at least its limit."""
    for name, limit in least.items():
        if not getattr(part, name) >= limit:
            raise ValueError(f"{name} must be at least {limit}, got {getattr(part, name)}")


def check_tokens(name: str, tokens: Tensor, limit: int, forbidden: int | None = None) -> None:
    """Raise unless these are int64 ids in 0..limit-1, none of them `forbidden` (a mask inside the vocabulary)."""
    check_type(name, tokens, Tokens)
    if tokens.dtype != torch.int64:
        raise ValueError(f"{name} must hold int64 token ids, got {tokens.dtype}; call {name}.long() first")
    if tokens.ndim != 2:
        raise ValueError(f"{name} must have shape [batch, length], got {list(tokens.shape)}")
    if not tokens.shape[1]:
        raise ValueError(f"{name} has shape {list(tokens.shape)}; a row has at least one position")
    if not len(tokens):
        return
    low, high = (int(bound) for bound in torch.aminmax(tokens))
    if low < 0 or high >= limit:
        outside = low if low < 0 else high
        raise ValueError(f"{name} must hold token ids in 0..{limit - 1}, got {outside}")
    if forbidden is not None and bool((tokens == forbidden).any()):
        raise ValueError(f"{name} must not contain the mask id {forbidden}: clean data is never masked")


def check_time(name: str, t: Tensor, tokens: Tensor) -> None:
    """Raise unless these are times or noise levels in [0, 1], one per sequence."""
    check_per_row(name, t, tokens)
    outside = t[~((t >= 0) & (t <= 1))]  # the negation also catches NaN
    if outside.numel():
        raise ValueError(f"{name} must be in [0, 1], got {outside[0].item():g}")


def check_batch(
    x_0: Tensor, t: Tensor, given: Tensor | None, vocab_size: int, forbidden: int | None, weights: Tensor | None
) -> None:
    """Raise unless these are clean tokens, a time per row and, where there are any, flags and weights per position."""
    check_tokens("x_0", x_0, vocab_size, forbidden)
    check_time("t", t, x_0)
    if given is not None:
        check_mask("given", given, x_0)
    if weights is not None:
        check_same_shape("weights", weights, x_0)


def check_per_row(name: str, values: Tensor, tokens: Tensor) -> None:
    """Raise unless these are floats, one per sequence."""
    if not values.is_floating_point():
        raise ValueError(f"{name} must be a float tensor, got {values.dtype}")
    if values.shape != tokens.shape[:1]:
        raise ValueError(f"{name} must have shape [{len(tokens)}], one value per sequence, got {list(values.shape)}")
    check_device(name, values, tokens)


def check_order(s: Tensor, t: Tensor, direction: str = "reverse") -> None:
    """Raise unless s < t in every row: a reverse step goes from t down to s, a forward step from s up to t."""
    late = (s >= t).nonzero()
    if late.numel():
        row = int(late[0, 0])
        raise ValueError(f"a {direction} step needs s < t, got s = {s[row].item():g} and t = {t[row].item():g}")


def check_logits(name: str, logits: Tensor, tokens: Tensor, vocab_size: int) -> None:
    """Raise unless these are float logits of shape [batch, length, vocab], with a possible token at every position."""
    check_type(name, logits, Logits)
    expected, shape = [*tokens.shape, vocab_size], list(logits.shape)
    if shape != expected:
        raise ValueError(f"{name} must have shape {expected} (batch, length, vocabulary), got {shape}")
    check_device(name, logits, tokens)
    check_finite_maximum(name, logits)


def check_finite_maximum(name: str, logits: Tensor) -> None:
    """Raise at NaN, +inf and rows without any possible token, found by one reduction; -inf entries are fine."""
    if not logits.is_floating_point() or not logits.ndim:
        got = f"{logits.dtype} of {list(logits.shape)}"
        raise ValueError(f"{name} must be a float tensor with a last dimension, got {got}")
    if logits.numel() == 0:
        return
    bad = (~torch.isfinite(logits.amax(-1))).nonzero()
    if len(bad):  # not numel: a single row has no coordinates
        place = tuple(bad[0].tolist())
        row = logits[place]
        what = "NaN" if row.isnan().any() else "+inf" if (row == torch.inf).any() else "only -inf"
        where = f" at {list(place)}" if place else ""
        raise ValueError(f"{name}{where} hold {what}; every position needs a largest finite value")


def check_device(name: str, tensor: Tensor, reference: Tensor) -> None:
    """Raise unless a tensor is on the device of another one, the tokens."""
    if tensor.device != reference.device:
        raise ValueError(f"{name} is on {tensor.device} but the tokens are on {reference.device}; move one of them")


def check_same_shape(name: str, tensor: Tensor, tokens: Tensor) -> None:
    """Raise unless a tensor has one value per position, on the tokens' device."""
    if tensor.shape != tokens.shape:
        raise ValueError(f"{name} must have the tokens' shape {list(tokens.shape)}, got {list(tensor.shape)}")
    check_device(name, tensor, tokens)


def check_mask(name: str, mask: Tensor, tokens: Tensor) -> None:
    """Raise unless a tensor has one flag per position."""
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} must be a bool mask, got {mask.dtype}")
    check_same_shape(name, mask, tokens)
