"""Data sets of the Hub by name, split as the field splits them, one document per row."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tokenloom.data.documents import Corpus
from tokenloom.data.token_cache import digest
from tokenloom.support.extras import optional
from tokenloom.support.hub import hub_or_cache


@dataclass(frozen=True)
class HubText:
    """A data set of the Hub; if `exported`, the Hub's own parquet export is read, as the data set is a script."""

    path: str
    config: str | None
    field: str
    train: str
    valid: str
    exported: bool = False


HUB = {
    "lm1b": HubText("billion-word-benchmark/lm1b", "plain_text", "text", "train", "test", exported=True),
    "openwebtext": HubText("Skylion007/openwebtext", None, "text", "train[:-100000]", "train[-100000:]"),
    "wikitext": HubText("Salesforce/wikitext", "wikitext-103-raw-v1", "text", "train", "validation"),
    "ptb": HubText("ptb-text-only/ptb_text_only", "penn_treebank", "sentence", "train", "validation", exported=True),
    "ag_news": HubText("fancyzhx/ag_news", None, "text", "train", "test"),
    "lambada": HubText("cimec/lambada", None, "text", "train", "validation"),
    "scientific_papers/pubmed": HubText(
        "armanc/scientific_papers", "pubmed", "article", "train", "validation", exported=True
    ),
}


def hub_corpus(name: str, split: str, title: str, directory: Path, hub_root: Path | None) -> Corpus:
    """Return one split of a data set of the Hub, or of its copy under `hub_root`."""
    entry = HUB[name]
    part = entry.train if split == "train" else entry.valid
    path = entry.path if hub_root is None else str(hub_root / entry.path)
    library = optional("datasets", "text")
    files = {part: f"{entry.config}/{part}/*.parquet"} if entry.exported else None
    revision = "refs/convert/parquet" if entry.exported and hub_root is None else None
    config = None if entry.exported else entry.config
    try:
        with hub_or_cache(local=hub_root is not None):
            table = library.load_dataset(
                path, config, data_files=files, split=part, revision=revision, cache_dir=str(directory / "hub")
            )
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"the data set {name} ({path}, split {part}) could not be loaded with datasets.load_dataset "
            f"({type(error).__name__}: {reason}); go online once, or give a local copy as hub_root or as files"
        ) from error

    def read() -> Iterator[str]:
        for batch in table.select_columns([entry.field]).iter(batch_size=1000):
            yield from (text for text in batch[entry.field] if text and not text.isspace())

    content = hashlib.sha256()
    for document in read():
        content.update(digest(document).encode())
    return Corpus(title, content.hexdigest(), read, {content.hexdigest(): f"{name} {part}"})
