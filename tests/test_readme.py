"""What the README shows runs as it stands."""

import re
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.usefixtures("as_a_user")  # as readers run it; shape checks are on in the other tests
README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_trains_and_samples() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 1
    names: dict[str, object] = {}
    torch.manual_seed(0)
    exec(blocks[0], names)
    tokens = names["tokens"]
    assert isinstance(tokens, torch.Tensor)
    counting = ((tokens[:, 1:] - tokens[:, :-1]) % 5 == 1).all(1)
    assert counting.double().mean() > 0.5  # one row in 78,125 by chance


def test_every_link_leads_to_a_file() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    assert len(links) > 10
    missing = [link for link in links if not link.startswith("http") and not (README.parent / link).exists()]
    assert not missing


def test_every_process_is_spelt_out_and_every_abbreviation_is_in_the_glossary() -> None:
    glossary = (README.parent / "docs" / "glossary.md").read_text()
    rows = re.findall(r"^\| ([a-z ]+) \((\w+)\) \|", README.read_text(), re.MULTILINE)
    assert [short for _, short in rows] == ["MDM", "UDM", "AUDM", "MUDM", "GIDD"]
    assert all(short in glossary for _, short in rows)
