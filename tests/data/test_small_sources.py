"""Every registered source by its record; digits and Markov chains: shapes, levels, and the law they are drawn from."""

import math
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tests.data.helpers import shared
from tokenloom.data.base import SOURCES, source_of
from tokenloom.data.digits import DigitsSource, read_idx
from tokenloom.data.markov import MarkovSource, markov_chain


def test_digits_of_scikit_learn_and_idx_files(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    data = DigitsSource().load()
    assert (data.vocab_size, data.length) == (17, 64)
    assert int(data.train.max()) == 16
    assert data.decode(data.valid[:1].long())[0].count("\n") == 7
    images = torch.arange(8, dtype=torch.uint8).view(2, 4) * 30
    header = b"".join(number.to_bytes(4, "big") for number in (2051, 2, 2, 2))
    train, valid = (tmp_path / f"{part}-images-idx3-ubyte" for part in ("train", "t10k"))
    train.write_bytes(header + images.numpy().tobytes())
    assert torch.equal(read_idx(train), images)
    source = DigitsSource(path=str(tmp_path), levels=4)
    with pytest.raises(ValueError, match="holds no t10k-images-idx3-ubyte"):
        source.load()
    valid.write_bytes(train.read_bytes())
    assert source.load().valid.tolist() == [[0, 0, 0, 1], [1, 2, 2, 3]]
    train.write_bytes(header + b"short")
    with pytest.raises(ValueError, match="cut short"):
        source.load()


def test_mnist_loads() -> None:
    data = DigitsSource(path=str(shared("mnist"))).load()
    assert (len(data.train), len(data.valid), data.length, data.vocab_size) == (60_000, 10_000, 784, 8)


def test_markov_data_is_drawn_from_its_chain() -> None:
    """Mean log-likelihood within 5 standard errors of the entropy (false-alarm rate 6e-7)."""
    source = MarkovSource(vocab_size=6, length=16, rows=4000)
    data = source.load()
    oracle = tl.MarkovOracle(*markov_chain(6, 0), 16, tl.Uniform(6))
    nats = -oracle.log_likelihood(data.train.long()) / 16
    assert data.entropy is not None
    assert abs(float(nats.mean()) - data.entropy) < 5 * float(nats.std()) / math.sqrt(4000)
    assert data.fingerprint != replace(source, seed=1).load().fingerprint


SMALL = {"rows": 40, "valid_rows": 10, "side": 4, "givens": (4, 8), "length": 12}
"""Small values of options that several sources share."""


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_recorded_and_loads_the_same_clean_tokens_again(name: str, tmp_path: Path) -> None:
    kind = SOURCES[name]
    assert is_dataclass(kind)
    known = {item.name for item in fields(kind)}
    options = {key: value for key, value in SMALL.items() if key in known}
    if kind.is_text:
        text = tmp_path / "text.txt"
        text.write_text("the cat sat on the mat. " * 40)
        options |= {"path": str(text)}
    source = SOURCES.restore({"name": name, "kind": name} | options)
    assert source_of(source.record()) == source
    first, second = source.load(), source_of(source.record()).load()
    assert first.fingerprint == second.fingerprint
    assert torch.equal(torch.as_tensor(first.valid), torch.as_tensor(second.valid))
    for table in (first.train, first.valid):
        assert 0 <= int(table.min()) <= int(table.max()) < first.vocab_size
    texts = first.decode(first.valid[:2].long())
    assert len(texts) == 2
    assert all(texts)
    assert source.is_text == (first.tokenizer is not None)
    oracle = source.oracle()
    if oracle is not None:
        assert first.entropy is not None
        assert math.isclose(oracle.entropy() / first.length, first.entropy)
