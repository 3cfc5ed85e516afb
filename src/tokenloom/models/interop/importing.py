"""A checkpoint of another library as a native model: its process, schedule, clock, posterior, tokenizer and origin.

Everything is compared before anything is built, and the result is an ordinary model: it saves, loads, samples, trains
and is scored as one that was trained here.
"""

import hashlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from tokenloom.models.interop.causal import BEGIN
from tokenloom.models.interop.ddit import EMBEDDING, LABELS, averaged, measure, parameters, strip_prefix, to_dit
from tokenloom.models.interop.families import FAMILIES, TOKENIZERS, Plan, detect, dropout, plan_of
from tokenloom.models.interop.hugging_face import Parts, read_hugging_face
from tokenloom.models.interop.source import GGUF, Content, Located, locate_source, read_content
from tokenloom.models.interop.vocabulary import Named, tokenizer_of
from tokenloom.models.model import DiffusionModel
from tokenloom.models.tokenizer import Subwords, Tokenizer
from tokenloom.models.tokenizer_sources import build_tokenizer
from tokenloom.nn.networks import DiT
from tokenloom.nn.transformer import TransformerConfig
from tokenloom.process import Process
from tokenloom.support.about import About
from tokenloom.support.reading import file_sum
from tokenloom.support.words import nearest


class Imported(NamedTuple):
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
    tokenizer: Named = None,
    length: int | None = None,
    allow: tuple[str, ...] = (),
    causal: bool = False,
) -> Imported:
    """Import the model of a source.

    `pickles` allows a pickle to be read, by a reader that builds nothing but tensors; `average` prefers the moving
    average of the weights where a file holds both; `family` names the family of a file that does not; `label` settles
    the class of a network with labels; `tokenizer` replaces the one of the source.  Of a language model of Hugging
    Face, `length` shortens the sequences that it reads, and `allow` names special tokens that it may predict all the
    same, such as the [UNK] of a text with unknown words; `causal` takes a causal one as the beginning of a training.
    """
    located = locate_source(source, pickles)
    try:
        if located.weights[0].suffix == GGUF and not causal:
            raise ValueError(f"a GGUF file holds a causal language model, which predicts the next token; {BEGIN}")
        content = read_content(located)
        if family is None and not any(name.endswith(EMBEDDING) for name in content.tensors) and content.config:
            parts = read_hugging_face(content, tokenizer, length, allow, causal)
        elif causal:
            raise ValueError("it is a diffusion model, not a causal language model; leave out --causal")
        else:
            parts = _read_ddit(content, average, family, label, tokenizer)
        return _finish(located, parts)
    except ValueError as error:
        raise ValueError(f"{located.name} cannot be imported: {error}") from error


def _finish(located: Located, parts: Parts) -> Imported:
    """Build the model; the parts hold the rows of the report that depend on the kind of network."""
    plan, network, tokenizer, report = parts
    sums = [file_sum(path) for path in located.weights]
    origin: dict[str, Any] = {
        "family": plan.family,
        "source": located.name,
        "revision": located.folder.name if located.folder.parent.name == "snapshots" else None,  # as the Hub caches it
        "file": located.weights[0].name,
        "sha256": sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest(),
        "weights": plan.weights,
        "notes": list(plan.notes),
    } | ({"untrained": plan.untrained} if plan.untrained else {})
    rows = {"kind": "text", "length": network.length, "tokenizer": plan.tokenizer, "packing": plan.packing}
    about = About(origin=origin, source=None if tokenizer is None or plan.untrained else rows)
    common = {
        "family": plan.family,
        "weights": f"{origin['file']}, {plan.weights}",
        "process": f"{plan.process.title}, {plan.process.schedule}",
        "predicts": f"{plan.predicts.__name__}: {plan.why}",
        "tokenizer": "none" if tokenizer is None else f"{tokenizer.vocab_size:,} ids, rows cut as {plan.packing!r}",
    }
    notes = (plan.untrained, *plan.notes) if plan.untrained else plan.notes
    beware = {f"beware {number}": note for number, note in enumerate(notes, 1)}
    model = DiffusionModel(network.eval(), plan.process, None, plan.predicts, tokenizer, about)
    return Imported(model, common | report | beware)


def _read_ddit(content: Content, average: bool, family: str | None, label: int | None, tokenizer: Named) -> Parts:
    if family is not None and family not in FAMILIES:
        raise ValueError(f"there is no family {family}; {nearest(family, FAMILIES)}")
    own, prefix = strip_prefix(content.tensors)
    family = family or detect(content.config, prefix)
    shadow = content.average if average else None
    weights = own if shadow is None else averaged(own, shadow)
    whole = measure(weights, content.config)
    plan = plan_of(content.config, whole.num_states, family, content.located.name)
    K, shown = plan.process.vocab_size, plan.process.input_states
    config = replace(whole, vocab_size=K, num_states=shown, dropout=dropout(content.config), **plan.clock)
    network = DiT(config)
    network.load_state_dict(to_dit(weights, config, label))
    known = TOKENIZERS.get(whole.num_states, "")
    words = _tokenizer(tokenizer, content.located.folder, plan, known)
    notes, packing = plan.notes, plan.packing
    if words is None:
        what = f"its tokenizer {known} could not be found" if known else "it has no tokenizer"
        notes = (*notes, f"{what}; name one with --tokenizer")
    elif words.end_of_sequence is None:
        packing = "wrap"  # the only one that packs rows without an end
    stored = "moving average" if shadow is not None else "as stored" if content.average is None else "raw"
    plan = replace(plan, packing=packing, notes=notes, weights=stored, tokenizer=known)
    report = _report(plan.process, config, whole.num_states, parameters(weights))
    return plan, network, words, report | {"ignored": f"prefix {prefix!r}, buffers of the rotary angles"}


def _report(process: Process, config: TransformerConfig, rows: int, weights: dict[str, Tensor]) -> dict[str, str]:
    K, mask = process.vocab_size, getattr(process, "mask", None)
    folded = {
        "the constant time, into the modulations": not config.time,
        "the class label, into the modulations": LABELS in weights,
        f"row {K:,} of the head, the mask's": mask == K < rows,
        f"row {K:,} of both tables, never used": mask is None and K < rows,
    }
    clock = "sigma = -log alpha" if config.clock == "sigma" else "t"
    return {
        "parameters": f"{sum(value.numel() for value in weights.values()):,}, the number that its sizes require",
        "network": f"width {config.width}, depth {config.depth}, heads {config.heads}, length {config.length}",
        "vocabulary": f"{K:,} tokens" + ("" if mask is None else f", mask {mask:,}") + f"; {rows:,} rows stored",
        "time input": clock if config.time else "none: it always saw 0",
        "folded": "; ".join(what for what, done in folded.items() if done) or "nothing",
    }


def _tokenizer(given: Named, folder: Path, plan: Plan, known: str) -> Tokenizer | None:
    """Return the tokenizer that was named, that of the folder or the `known` one."""
    found = tokenizer_of(given, folder, plan.process.input_states)
    if found is None and known:
        with suppress(ValueError):
            found = build_tokenizer(known, ())
    if found is None or found.vocab_size != plan.process.vocab_size - 1 or not plan.family.startswith("Duo"):
        return found
    if not isinstance(found, Subwords):
        raise ValueError(f"only subword tokenizers take another token, got {type(found).__name__.lower()}")
    padded = Subwords(found.backend.to_str()).backend
    padded.add_special_tokens(["[PAD]"])  # Duo's one token more
    return Subwords(padded.to_str())
