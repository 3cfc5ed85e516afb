"""Forms come from the registries: what is registered appears by itself, and what it says is understood."""

from dataclasses import dataclass
from typing import Literal

import tokenloom as tl
from tests.web.helpers import TINY, Client
from tokenloom.cells import PROCESSES
from tokenloom.drawing.randomness import Randomness
from tokenloom.samplers import CORRECTORS, PREDICTORS, Evaluator, Predictor
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.types import PerRow
from tokenloom.web.describe import kernels


def test_a_sampler_that_somebody_registers_appears_with_its_form_and_draws(client: Client) -> None:
    with PREDICTORS.scratch():

        @PREDICTORS.register("lazy")
        @dataclass(frozen=True)
        class Lazy(Predictor):
            """Waits, and then steps."""

            rest: float = 0.5
            """How long it waits."""
            mood: Literal["calm", "hasty"] = "calm"
            """How it steps."""
            twice: bool = False

            def step(self, evaluate: Evaluator, noisy: tl.Noisy, s: PerRow, generator: Randomness | None) -> tl.Noisy:
                return Ancestral().step(evaluate, noisy, s, generator)

        found = client.ask("describe", model=TINY)
        (lazy,) = [kernel for kernel in found["samplers"] if kernel["name"] == "lazy"]
        assert lazy["about"] == "Waits, and then steps."
        rest, mood, twice = lazy["options"]
        assert rest == {"name": "rest", "help": "How long it waits.", "default": 0.5, "kind": "number"}
        assert mood["choices"] == ["calm", "hasty"]
        assert (twice["kind"], twice["help"]) == ("flag", "")
        lines = client.draw(model=TINY, sampling={"sampler": "lazy:rest=0.1,mood=hasty,twice=true", "steps": 3})
        assert lines[-1]["kind"] == "end"
    assert "lazy" not in [kernel["name"] for kernel in client.ask("describe", model=TINY)["samplers"]]


def test_every_kernel_is_offered_where_it_serves_and_every_field_is_explained(client: Client) -> None:
    for registry, part in ((PREDICTORS, "samplers"), (CORRECTORS, "correctors")):
        found = client.ask("describe", model="sudoku", process="masked")[part]
        process = PROCESSES.parse("masked", vocab_size=9)
        assert {kernel["name"] for kernel in found} == {name for name in registry if registry[name].supports(process)}
        assert kernels(registry, process)[0] == found[0]
        for kernel in found:
            assert kernel["about"]
            assert all(option["help"] for option in kernel["options"])


def test_a_model_says_how_it_is_drawn_and_what_it_serves(client: Client) -> None:
    sudoku = client.ask("describe", model="sudoku")
    assert sudoku["view"] == {"kind": "sudoku", "side": 9, "height": 3, "width": 3}
    assert set(sudoku["processes"]) == {"uniform", "masked", "absorbing", "hybrid", "max-coupling", "transition-times"}
    assert client.ask("describe", model="sudoku", process="masked")["masks"] == [9]
    text = client.ask("describe", model="shakespeare-udm-loo")
    assert text["view"] == {"kind": "text"}
    assert text["processes"] == ["uniform"]
    assert text["pieces"]["1"] == " "


def test_typed_text_is_tokens_with_blanks(client: Client) -> None:
    found = client.ask("encode", model="shakespeare-udm-loo", text="ab__c__")
    model = tl.load("shakespeare-udm-loo")
    a, b, c = model.encode("abc")
    assert found["tokens"] == [a, b, None, None, c]
    assert found["pieces"] == {str(a): "a", str(b): "b", str(c): "c"}
    assert "digits 1..4" in client.refused("encode", model=TINY, text="x" * 16)
    assert "16" in client.refused("encode", model=TINY, text="12")


def test_examples_are_as_difficult_as_they_say(client: Client) -> None:
    depths = {level: client.ask("puzzle", side=9, level=level, seed=4)["depth"] for level in ("easy", "medium", "hard")}
    assert depths["easy"] == 0 < depths["medium"] <= 2 < depths["hard"]
    assert client.ask("puzzle", side=6)["givens"] >= 8
    assert "side 4, 6 or 9, got 5" in client.refused("puzzle", side=5)
    assert client.ask("puzzle", side=9, seed=1)["text"] == client.ask("puzzle", side=9, seed=1)["text"]
