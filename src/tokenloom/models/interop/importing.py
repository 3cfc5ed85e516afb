"""A checkpoint of another library as a native model: its process, schedule, clock, posterior, tokenizer and origin.

Everything is compared before anything is built, and the result is an ordinary model: it saves, loads, samples, trains
and is scored as one that was trained here.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenloom.models.interop.ddit import EMBEDDING, Sizes, averaged, dit_config, measure, strip_prefix, to_dit
from tokenloom.models.interop.families import (
    FAMILIES,
    Plan,
    check_declared,
    declared,
    detect,
    dropout,
    family_of_type,
    plan_of,
)
from tokenloom.models.interop.hugging_face import import_hugging_face
from tokenloom.models.interop.large import large
from tokenloom.models.interop.source import Content, Located, locate_source, read_content
from tokenloom.models.model import DiffusionModel
from tokenloom.models.tokenizer import Tokenizer, with_special_token
from tokenloom.models.tokenizer_sources import FILES, build_tokenizer, load_tokenizer
from tokenloom.nn.dit import DiT
from tokenloom.nn.transformer import TransformerConfig
from tokenloom.support.about import About
from tokenloom.support.checks import nearest


@dataclass(frozen=True)
class Imported:
    """A model, and what was found and done, as rows of a table."""

    model: DiffusionModel
    report: dict[str, str]


def import_model(
    source: str | Path,
    *,
    pickles: bool = False,
    average: bool = True,
    family: str | None = None,
    label: int | None = None,
    tokenizer: str | Path | None = None,
    length: int | None = None,
    allow: tuple[str, ...] = (),
) -> Imported:
    """Import the model of a source.

    `pickles` allows a pickle to be read, by a reader that builds nothing but tensors; `average` prefers the moving
    average of the weights where a file holds both; `family` names the family of a file that does not; `label` settles
    the class of a network with labels; `tokenizer` replaces the one of the source.  Of a language model of Hugging
    Face, `length` shortens the sequences that it reads, and `allow` names special tokens that it may predict.
    """
    located = locate_source(source, pickles)
    try:
        content = read_content(located)
        if family is None and not any(name.endswith(EMBEDDING) for name in content.tensors) and content.config:
            return Imported(*import_hugging_face(located, content, tokenizer, length=length, allow=allow))
        return _imported(located, content, average, family, label, tokenizer)
    except ValueError as error:
        raise ValueError(f"{located.name} cannot be imported: {error}") from error


def is_denoiser(config: dict[str, Any]) -> bool:
    """Return whether a config.json is that of a model that restores tokens, rather than predicts the next."""
    named = config.get("architectures")
    masked = isinstance(named, list) and any("MaskedLM" in str(name) for name in named)
    return masked or family_of_type(config) is not None or large(config) is not None


def _imported(
    located: Located, content: Content, average: bool, family: str | None, label: int | None, tokenizer: Any
) -> Imported:
    if family is not None and family not in FAMILIES:
        raise ValueError(f"there is no family {family}; {nearest(family, FAMILIES)}")
    own, prefix = strip_prefix(content.tensors)
    shadow = content.average if average else None
    weights = own if shadow is None else averaged(own, shadow)
    sizes = measure(weights)
    check_declared(content.config, sizes)
    plan = plan_of(content.config, sizes, family or detect(content.config, prefix), located.name)
    config = _config(plan, sizes, content)
    network = DiT(config)
    network.load_state_dict(to_dit(weights, config, label))
    found, notes = _tokenizer(tokenizer, located.folder, plan)
    if found is not None and found.end_of_sequence is None:
        plan = replace(plan, packing="wrap")  # the only one that needs no end
    kind = "moving average" if shadow is not None else "as stored" if content.average is None else "raw"
    origin = located.origin(plan.family, kind, (*plan.notes, *notes))
    rows = {"kind": "text", "length": config.length, "tokenizer": plan.tokenizer or "", "packing": plan.packing}
    about = About(origin=origin, source=None if found is None else rows)
    model = DiffusionModel(network.eval(), plan.process, None, plan.predicts, found, about)
    return Imported(model, _report(plan, sizes, config, origin, prefix, found))


def _config(plan: Plan, sizes: Sizes, content: Content) -> TransformerConfig:
    heads = declared(content.config, "heads") or sizes.heads
    length = declared(content.config, "length")
    if heads is None or length is None:
        missing = "n_heads" if heads is None else "model_length"
        raise ValueError(f"neither the weights nor a config say {missing}; write it to a config.json beside the file")
    states = plan.process.vocab_size, plan.process.input_states
    return dit_config(sizes, *states, length, heads, plan.time, plan.time_limits, dropout(content.config))


def _tokenizer(given: str | Path | None, folder: Path, plan: Plan) -> tuple[Tokenizer | None, tuple[str, ...]]:
    """Return the tokenizer that was named, that of the folder or that of the family; None with a note if none is."""
    if given is not None:
        found = build_tokenizer(str(given), ())
    elif any(list(folder.glob(pattern)) for pattern in FILES):
        found = load_tokenizer(folder)
    elif plan.tokenizer is None:
        return None, ("it has no tokenizer; name one with --tokenizer",)
    else:
        try:
            found = build_tokenizer(plan.tokenizer, ())
        except ValueError:
            return None, (f"its tokenizer {plan.tokenizer} could not be found; name one with --tokenizer",)
    K = plan.process.vocab_size
    if found.vocab_size == K - 1 and plan.family.startswith("Duo"):  # which has one token more, to pad with
        return with_special_token(found, "[PAD]"), ()
    if found.vocab_size > plan.process.input_states:
        raise ValueError(f"the tokenizer has {found.vocab_size:,} ids, but the network reads {K:,} tokens")
    return found, ()


def _report(
    plan: Plan,
    sizes: Sizes,
    config: TransformerConfig,
    origin: dict[str, Any],
    prefix: str,
    tokenizer: Tokenizer | None,
) -> dict[str, str]:
    K, V = plan.process.vocab_size, sizes.rows
    mask = getattr(plan.process, "mask", None)
    clock = {"zero": "none: it always saw 0", "time": "t", "sigma": "sigma = -log alpha"}[plan.time]
    folded = [
        *(["the constant time, into the modulations"] if plan.time == "zero" else []),
        *(["the class label, into the modulations"] if sizes.labels else []),
        *([f"row {K:,} of the head, the mask's"] if mask == K and K < V else []),
        *([f"row {K:,} of both tables, never used"] if mask is None and K < V else []),
    ]
    rows = {
        "family": plan.family,
        "weights": f"{origin['file']}, {origin['weights']}",
        "parameters": f"{sizes.parameters:,}, the number that its sizes require",
        "network": f"width {sizes.width}, depth {sizes.depth}, heads {config.heads}, length {config.length}",
        "vocabulary": f"{K:,} tokens" + ("" if mask is None else f", mask {mask:,}") + f"; {V:,} rows stored",
        "process": f"{plan.process.title}, {plan.process.schedule}",
        "time input": clock,
        "predicts": f"{plan.predicts.__name__}: {plan.why}",
        "tokenizer": "none" if tokenizer is None else f"{tokenizer.vocab_size:,} ids, rows cut as {plan.packing!r}",
        "folded": "; ".join(folded) or "nothing",
        "ignored": f"prefix {prefix!r}, buffers of the rotary angles",
    }
    return rows | {f"beware {number}": note for number, note in enumerate(origin["notes"], 1)}
