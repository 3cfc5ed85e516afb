"""The README and the examples run as they stand and show what they say."""

import re
from importlib import util
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest
import torch

pytestmark = pytest.mark.usefixtures("as_a_user")  # as readers run it; shape checks are on in the other tests
README = Path(__file__).parents[1] / "README.md"
FOLDER = README.parent / "examples"
TESTED = {"antibody", "convert", "oracle_sampling", "own_network", "own_text", "reactions"}


def example(name: str) -> SimpleNamespace:
    """The names that an example defines."""
    return SimpleNamespace(**run_path(str(FOLDER / f"{name}.py")))


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


def test_every_example_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == TESTED


def test_converted_prediction_takes_the_true_step_and_a_confused_one_does_not() -> None:
    right, wrong = example("convert").main()
    assert right < 1e-12
    assert wrong > 0.1


def test_samplers_of_an_oracle_draw_close_to_its_law() -> None:
    """4,000 draws of 9 outcomes are 0.017 away on average; 32 steps add at most about 0.02."""
    distances = example("oracle_sampling").main()
    assert len(distances) == 6
    assert max(distances.values()) < 0.06


def test_own_network_approaches_the_entropy_from_above() -> None:
    samples, bound, entropy = example("own_network").main()
    assert samples.shape == (4, 16)
    assert entropy < bound < entropy + 0.2


def test_own_text_keeps_its_prompt() -> None:
    text = example("own_text").main(steps=5)
    assert text.startswith("the loom")
    assert len(text) == 16


def test_brackets_and_rings_of_a_molecule_close() -> None:
    is_valid = example("reactions").is_valid
    assert all(map(is_valid, ("CCOC(C)=O", "c1ccc(-c2ccccc2)cc1", "O=[N+]([O-])c1ccccc1", "C%10CC%10")))
    assert not any(map(is_valid, ("", "CC(=O", "CC)C(", "c1ccccc", "C>>C", "[N+", "C()C", "=CC", "CC=")))


@pytest.mark.skipif(util.find_spec("rxnfp") is None, reason="needs weights: pip install --no-deps rxnfp")
def test_a_masked_language_model_completes_reactions_as_a_denoiser() -> None:
    """Every sampler finishes, and a product has as many tokens as were masked."""
    module = example("reactions")
    results = module.main(reactions=module.REACTIONS[1:3], evaluations=(4,))
    assert set(results) == {(name, 4) for name in module.SAMPLERS}
    model, reaction = module.load(), module.REACTIONS[1]
    drawn = module.completions(model, reaction, "confidence", 12, 2, seed=0)
    wanted = len(model.encode(reaction.partition(">>")[2]))
    assert [len(model.encode(product)) for product in drawn] == [wanted, wanted]


@pytest.mark.skipif(util.find_spec("antiberty") is None, reason="needs weights: pip install --no-deps antiberty==0.1.3")
def test_an_antibody_s_own_loop_is_likelier_than_its_shuffles() -> None:
    """With these seeds 25 nats against 39 (standard errors 4 and 6)."""
    results, true, shuffled = example("antibody").main(draws=2, steps=4, samples=48)
    assert set(results) == {"ancestral", "confidence", "MUDM", "ReMDM"}
    assert true.mean < shuffled.mean
