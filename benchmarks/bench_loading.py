"""`tokenloom bench loading`: text to packed rows of tokens on the disk, against `datasets` and `tokenizers` alone.

    ours        load_text: read, tokenise, pack, write the cache, map it into memory
    datasets    load_dataset("text") line by line, map(tokenise) and map(pack), each batched, as training scripts do
    tokenizers  encode_batch_fast of the documents in memory, and nothing else

All three take turns on the same file, each with an empty cache.  Figures are medians over the rounds, and a ratio is
formed within a round.
"""

import random
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import chain
from json import dumps
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.account import Spread
from benchmarks.memory import in_a_process, peak, resident
from tokenloom.data.documents import corpus_of
from tokenloom.data.text import load_text
from tokenloom.models.tokenizer import Subwords
from tokenloom.models.tokenizer_sources import build_tokenizer
from tokenloom.support.extras import optional
from tokenloom.support.files import write_json


@dataclass(frozen=True)
class Row:
    """How fast text is loaded."""

    name: str
    tokens: int
    """Tokens in rows."""
    tokens_per_second: Spread
    ours_over_it: Spread
    """The speed of `load_text` over this one's."""


def main(
    path: Path | None = None,
    tokenizer: str = "bpe:4096",
    length: int = 128,
    megabytes: float = 20.0,
    rounds: int = 5,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Measure loading: tokens per second from a text file to packed rows, against datasets and tokenizers alone.

    Args:
        path: A .txt file; made up of random words by default.
        tokenizer: bpe:N, a tokenizer.json, or a folder with a vocabulary.
        length: Tokens per row.
        megabytes: Size of the text that is made up.
        rounds: How often each of them loads.
        json: Print JSON instead of a table.
        out: Write the same JSON to this file.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    optional("datasets", "text").disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        text = path or _made_up(Path(folder) / "text.txt", megabytes)
        built = build_tokenizer(tokenizer, corpus_of([text], "the text").read())
        if not isinstance(built, Subwords):
            raise ValueError(f"datasets and tokenizers are compared on subwords, got the tokenizer {tokenizer}")
        stored = Path(folder) / "tokenizer.json"
        built.save(stored)
        ways = {"tokenloom": _ours, "datasets + tokenizers": _datasets, "tokenizers alone": _tokenizers}
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        tokens: dict[str, int] = {}
        for number in track(range(rounds), "rounds", console=Console(stderr=True)):
            for name, way in ways.items():
                cache = Path(folder) / f"{name}-{number}"
                start = time.perf_counter()
                tokens[name] = way(text, stored, length, cache)
                seconds[name].append(time.perf_counter() - start)
        before, most = _memory(text, stored, length, Path(folder) / "memory")
        megabytes = text.stat().st_size / 1e6
    rows = [_row(name, tokens, seconds) for name in ways]
    record = {
        "text": "made up" if path is None else path.name,
        "megabytes": round(megabytes, 2),
        "tokenizer": tokenizer if path is None or tokenizer.startswith("bpe:") else Path(tokenizer).name,
        "length": length,
        "rounds": rounds,
        "gigabytes_on_top": round(most - before, 3),
        "rows": [asdict(row) for row in rows],
    }
    if out is not None:
        write_json(out, record)
    print(dumps(record, indent=2)) if json else _print(rows, record)


def _row(name: str, tokens: dict[str, int], seconds: dict[str, list[float]]) -> Row:
    speeds = {each: [tokens[each] / second for second in seconds[each]] for each in (name, "tokenloom")}
    ratios = [ours / other for ours, other in zip(speeds["tokenloom"], speeds[name], strict=True)]
    return Row(name, tokens[name], Spread.of(speeds[name]), Spread.of(ratios))


def _made_up(path: Path, megabytes: float) -> Path:
    """Documents of random words, common ones more often."""
    generator = random.Random(0)
    words = ["".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=generator.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    with path.open("w") as file:
        while file.tell() < 1e6 * megabytes:
            file.write(" ".join(generator.choices(words, weights, k=400)) + "\n<|endoftext|>\n")
    return path


def _ours(text: Path, tokenizer: Path, length: int, cache: Path) -> int:
    found = load_text(text, None, str(tokenizer), length, cache=cache)
    return found.train.numel() + found.valid.numel()


def _datasets(text: Path, tokenizer: Path, length: int, cache: Path) -> int:
    library = optional("datasets", "text")
    encoder = optional("tokenizers", "text").Tokenizer.from_file(str(tokenizer_json(tokenizer, cache)))

    def tokenise(batch: dict[str, list[str]]) -> dict[str, Any]:
        encodings = encoder.encode_batch_fast(batch["text"], add_special_tokens=False)
        return {"ids": [encoding.ids for encoding in encodings]}

    def pack(batch: dict[str, Any]) -> dict[str, Any]:
        stream = list(chain.from_iterable(batch["ids"]))
        full = len(stream) // length * length
        return {"ids": [stream[start : start + length] for start in range(0, full, length)]}

    whole = {"data_files": str(text), "split": "train", "keep_linebreaks": True}
    table = library.load_dataset("text", cache_dir=str(cache), **whole)
    options = {"batched": True, "remove_columns": ["text"], "load_from_cache_file": False}
    rows = table.map(tokenise, **options).map(pack, batched=True, load_from_cache_file=False)
    return len(rows) * length


def _tokenizers(text: Path, tokenizer: Path, length: int, cache: Path) -> int:
    encoder = optional("tokenizers", "text").Tokenizer.from_file(str(tokenizer_json(tokenizer, cache)))
    documents = list(corpus_of([text], "the text").read())
    encodings = encoder.encode_batch_fast(documents, add_special_tokens=False)
    return sum(len(encoding) for encoding in encodings)


def tokenizer_json(tokenizer: Path, cache: Path) -> Path:
    """The tokenizer as the library tokenizers reads it."""
    from json import loads

    cache.mkdir(parents=True, exist_ok=True)
    plain = cache / "plain.json"
    plain.write_text(dumps(loads(tokenizer.read_text())["tokenizer"]))
    return plain


def _memory(text: Path, tokenizer: Path, length: int, cache: Path) -> tuple[float, float]:
    arguments = (str(text.resolve()), str(tokenizer), length, str(cache))
    return in_a_process(f"from benchmarks.bench_loading import _child; _child{arguments!r}", "loading")


def _child(text: str, tokenizer: str, length: int, cache: str) -> None:
    build_tokenizer(tokenizer, ())
    before = resident()
    _ours(Path(text), Path(tokenizer), length, Path(cache))
    print(dumps([before, peak()]))


def _print(rows: list[Row], record: dict[str, Any]) -> None:
    title = f"{record['megabytes']:.1f} MB of text, {record['tokenizer']}, rows of {record['length']}"
    table = Table(title=title, title_justify="left")
    for column in ("", "tokens", "tokens per second", "range", "ours over it"):
        table.add_column(column, justify="right" if column else "left")
    for row in rows:
        speed = row.tokens_per_second
        table.add_row(
            row.name, f"{row.tokens:,}", f"{speed.median:,.0f}", f"{speed.low:,.0f} to {speed.high:,.0f}",
            str(row.ours_over_it),
        )  # fmt: skip
    Console().print(table)
    Console().print(f"[dim]loading adds {record['gigabytes_on_top']:.3f} GB at its peak[/]", highlight=False)


if __name__ == "__main__":
    tyro.cli(main)
