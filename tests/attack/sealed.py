"""Model folders whose config was edited and sealed again: the checksums are right, so the values must be checked.

What such a model gives cannot be compared with what the intact one gives; it is a result of the right kind.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import tokenloom as tl
from tests.attack.outcome import WrongError, verdict_of
from tests.attack.workspace import command
from tokenloom.models.seals import CONFIG, SUMS, WEIGHTS, seal
from tokenloom.web.describe import describe
from tokenloom.web.library import Entry
from tokenloom.web.requests import Encode, Limits

LINES = {
    "evaluate": "evaluate {place} --sequences 4 --samples 1 --out out",
    "probe": "probe {place} --sequences 2 --positions 1 --times 0.5 --out out",
}
USES = ("load", "load", "load", "sample", "sample", "evaluate", "probe", "page")
TEXTS = ("the cat", "", "a" * 30 + "b", "\u2603 \u00e9\0", "<unk>", "  \n ")


def reseal(model: Path, config: dict[str, Any]) -> None:
    """Write the config of a model with checksums that are right."""
    content = {key: value for key, value in config.items() if key != SUMS}
    (model / CONFIG).write_text(json.dumps(seal(content, model / WEIGHTS)))


def use(name: str, place: Path) -> None:
    """Use a model folder, or the run it is in; raise unless it gives a result of the right kind."""
    if name == "load":
        _load(place)
    elif name == "page":
        entry = Entry(str(place))
        json.dumps(describe(entry, None, Limits()), allow_nan=False)
        for text in TEXTS:
            _tried(partial(entry.encode, Encode(str(place), text=text), Limits()))
    elif name == "sample":
        record = json.loads(command("sample", str(place), "--num", "2", "--steps", "3", "--json"))
        if not all(isinstance(token, int) and token >= 0 for row in record["tokens"] for token in row):
            raise WrongError("sample drew tokens that are none")
    else:
        command(*LINES[name].format(place=place).split())
        for record in Path("out").glob("*.json"):
            json.loads(record.read_text(), parse_constant=_not_finite)


@torch.no_grad()
def _load(folder: Path) -> None:
    model = tl.load(folder)
    process, length = model.process, min(model.length or 8, 8)
    noisy = process.prior(2, length)
    found = model.predict(noisy)
    if any(bool(part.isnan().any()) for part in vars(found).values()):
        raise WrongError("a model that was loaded predicts NaN")
    tokens = tl.sample(model, 2, steps=2, length=length)
    if bool(((tokens < 0) | (tokens >= process.vocab_size)).any()):
        raise WrongError("a model that was loaded samples tokens outside its vocabulary")
    if model.tokenizer is not None:
        for text in TEXTS:
            _tried(partial(_encode, model, text))
        _tried(lambda: model.decode(torch.arange(process.vocab_size).unsqueeze(0)))


def _encode(model: tl.DiffusionModel, text: str) -> None:
    ids = model.encode(text)
    if not all(type(token) is int and 0 <= token < model.process.num_states for token in ids):
        raise WrongError(f"{text!r} is encoded as {str(ids)[:60]}")
    model.decode(torch.tensor([ids], dtype=torch.int64))


def _tried(work: Callable[[], object]) -> None:
    """Do some work that may end in a sentence: a text may have characters that a tokenizer lacks."""
    try:
        work()
    except BaseException as error:
        if verdict_of(error)[0] != "sentence":
            raise


def _not_finite(text: str) -> None:
    raise WrongError(f"a result holds {text}")
