"""A checkpoint of another library as a native model: its process, schedule, clock, posterior, tokenizer and origin.

Everything is compared before anything is built, and the result is an ordinary model: it saves, loads, samples, trains
and is scored as one that was trained here.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenloom.models.interop.ddit import EMBEDDING, Sizes, Target, averaged, measure, strip_prefix, to_dit
from tokenloom.models.interop.families import FAMILIES, Plan, check_declared, declared, detect, dropout, plan_of
from tokenloom.models.interop.hugging_face import import_hugging_face
from tokenloom.models.interop.large import large
from tokenloom.models.interop.source import Content, Located, locate_source, read_content
from tokenloom.models.model import DiffusionModel
from tokenloom.models.tokenizer import Tokenizer, with_special_token
from tokenloom.models.tokenizer_sources import build_tokenizer, load_tokenizer
from tokenloom.nn.dit import DiT
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
    """The model of a source.

    `pickles` allows a pickle to be read, by a reader that builds nothing but tensors; `average` prefers the moving
    average of the weights where a file holds both; `family` names the family of a file that does not; `label` settles
    the class of a network with labels; `tokenizer` replaces the one of the source.  Of a language model of Hugging
    Face, `length` shortens the sequences that it reads, and `allow` names special tokens that it may predict.
    """
    located = locate_source(source, pickles)
    content = read_content(located)
    try:
        if family is None and not any(name.endswith(EMBEDDING) for name in content.tensors) and content.config:
            return Imported(*import_hugging_face(located, content, tokenizer, length=length, allow=allow))
        return _imported(located, content, average, family, label, tokenizer)
    except ValueError as error:
        raise ValueError(f"{located.name} cannot be imported: {error}") from error


def is_denoiser(config: dict[str, Any]) -> bool:
    """Whether a config.json says that the model restores noised or masked tokens, rather than predicts the next."""
    named = config.get("architectures")
    classes = [str(name) for name in named] if isinstance(named, list) else []
    kind = str(config.get("model_type", "")).lower()
    families = {*FAMILIES, "bamdlm"}
    hybrid = kind == "dit" and "p_uniform" in config
    return kind in families or hybrid or large(config) is not None or any("MaskedLM" in name for name in classes)


def _imported(
    located: Located, content: Content, average: bool, family: str | None, label: int | None, tokenizer: Any
) -> Imported:
    if family is not None and family not in FAMILIES:
        raise ValueError(f"there is no family {family}; {nearest(family, FAMILIES)}")
    own, prefix = strip_prefix(content.tensors)
    uses_average = average and content.average is not None
    weights = averaged(own, content.average) if uses_average and content.average is not None else own
    sizes = measure(weights)
    check_declared(content.config, sizes)
    plan = plan_of(content.config, sizes, family or detect(content.config, prefix), located.name, prefix)
    target = _target(plan, sizes, content, label)
    config, tensors = to_dit(weights, sizes, target)
    network = DiT(config)
    network.load_state_dict(tensors)
    found, notes = _tokenizer(tokenizer, located.folder, plan)
    if found is not None and found.end_of_sequence is None:
        plan = replace(plan, packing="wrap")  # the only one that needs no end
    kind = "moving average" if uses_average else "as stored" if content.average is None else "raw"
    origin = located.origin(plan.family, kind, (*plan.notes, *notes))
    about = About(origin=origin, source=_source(plan, target.length) if found is not None else None)
    model = DiffusionModel(network.eval(), plan.process, None, plan.predicts, found, about)
    return Imported(model, _report(plan, sizes, target, origin, prefix, found))


def _target(plan: Plan, sizes: Sizes, content: Content, label: int | None) -> Target:
    heads = declared(content.config, "heads") or sizes.heads
    length = declared(content.config, "length")
    if heads is None or length is None:
        missing = "n_heads" if heads is None else "model_length"
        raise ValueError(f"neither the weights nor a config say {missing}; write it to a config.json beside the file")
    if sizes.width % heads:
        raise ValueError(f"the width {sizes.width} is not a multiple of {heads} heads")
    process = plan.process
    return Target(
        vocab_size=process.vocab_size,
        num_states=process.input_states,
        length=length,
        heads=heads,
        time=plan.time,
        time_least=None if plan.time == "zero" else plan.time_limits[0],
        time_most=None if plan.time == "zero" else plan.time_limits[1],
        dropout=dropout(content.config),
        label=label,
    )


def _tokenizer(given: str | Path | None, folder: Path, plan: Plan) -> tuple[Tokenizer | None, tuple[str, ...]]:
    """The tokenizer that was named, that of the folder, or that of the family from the Hub; and what is missing."""
    if given is not None:
        return _fitting(build_tokenizer(str(given), ()), plan), ()
    if any(list(folder.glob(pattern)) for pattern in ("tokenizer.json", "*vocab.json", "*vocab.txt")):
        return _fitting(load_tokenizer(folder), plan), ()
    if plan.tokenizer is None:
        return None, ("it has no tokenizer; name one with --tokenizer",)
    try:
        found = build_tokenizer(plan.tokenizer, ())
    except ValueError:
        return None, (f"its tokenizer {plan.tokenizer} could not be found; name one with --tokenizer",)
    return _fitting(found, plan), ()


def _fitting(tokenizer: Tokenizer, plan: Plan) -> Tokenizer:
    """A tokenizer of as many ids as the process has tokens; Duo has one more, which it pads with."""
    K = plan.process.vocab_size
    if tokenizer.vocab_size == K - 1 and plan.family.startswith("Duo"):
        return with_special_token(tokenizer, "[PAD]")
    if tokenizer.vocab_size > plan.process.input_states:
        raise ValueError(f"the tokenizer has {tokenizer.vocab_size:,} ids, but the network reads {K:,} tokens")
    return tokenizer


def _source(plan: Plan, length: int) -> dict[str, Any]:
    """How text becomes the rows it was trained on, as the data source `text` records it."""
    return {"kind": "text", "length": length, "tokenizer": plan.tokenizer or "", "packing": plan.packing}


def _report(
    plan: Plan, sizes: Sizes, target: Target, origin: dict[str, Any], prefix: str, tokenizer: Tokenizer | None
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
        "network": f"width {sizes.width}, depth {sizes.depth}, heads {target.heads}, length {target.length}",
        "vocabulary": f"{K:,} tokens" + ("" if mask is None else f", mask {mask:,}") + f"; {V:,} rows stored",
        "process": f"{plan.process.title}, {plan.process.schedule}",
        "time input": clock,
        "predicts": f"{plan.predicts.__name__}: {plan.why}",
        "tokenizer": "none" if tokenizer is None else f"{tokenizer.vocab_size:,} ids, rows cut as {plan.packing!r}",
        "folded": "; ".join(folded) or "nothing",
        "ignored": f"prefix {prefix!r}, buffers of the rotary angles",
    }
    return rows | {f"beware {number}": note for number, note in enumerate(origin["notes"], 1)}
