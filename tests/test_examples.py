"""The examples run as they stand and show what they say."""

from importlib import util
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[1] / "examples"
TESTED = {"convert", "oracle_sampling", "own_network", "own_text"}


def example(name: str) -> ModuleType:
    spec = util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
