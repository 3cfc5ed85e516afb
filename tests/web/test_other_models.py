"""Models that somebody brings: pictures, a masked string, a causal one; each from a folder given to the server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import tokenloom as tl
from tests.web.helpers import Client, running, state_of, states
from tokenloom.models.tokenizer import Characters
from tokenloom.nn import CausalTransformer, DiT, TransformerConfig
from tokenloom.web.app import Playground
from tokenloom.web.library import Library
from tokenloom.web.requests import Draw, Limits, Which
from tokenloom.web.views import VIEWS, View

LETTERS = Characters("&()<=>CNO")


def network(kind: type[Any], tokens: int, states: int, length: int) -> Any:
    torch.manual_seed(0)
    made = kind(TransformerConfig(tokens, states, length, 16, 1, 2, 8))
    torch.nn.init.normal_(made.head.weight)
    return made


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place, size = tmp_path_factory.mktemp("models"), LETTERS.vocab_size
    about = tl.About(source={"kind": "digits", "path": None, "levels": 8, "valid_fraction": 0.1})
    letters: dict[str, Any] = {"predicts": tl.Denoiser, "tokenizer": LETTERS}
    models = {
        "pixels": tl.DiffusionModel(network(DiT, 17, 17, 64), tl.Uniform(17), predicts=tl.LeaveOneOut, about=about),
        "string": tl.DiffusionModel(network(DiT, size, size + 1, 24), tl.Masked(size), **letters),
        "causal": tl.DiffusionModel(network(CausalTransformer, size, size + 1, 24), tl.LeftToRight(size), **letters),
    }
    for name, model in models.items():
        model.save(place / name)
    return {name: str(place / name) for name in models}


@pytest.fixture(scope="module")
def brought(folders: dict[str, str]) -> Iterator[Client]:
    with running(Playground(Library(list(folders.values())), Limits())) as client:
        yield client


def test_pictures_are_a_square_of_grey_levels(brought: Client, folders: dict[str, str]) -> None:
    found = brought.ask("describe", model=folders["pixels"])
    assert found["view"] == {"kind": "pixels", "side": 8}
    assert found["fixed"] is True
    assert len(brought.draw(model=folders["pixels"], sampling={"steps": 3})[-1]["tokens"]) == 64


def test_a_masked_string_is_filled_in_where_it_is_blank(brought: Client, folders: dict[str, str]) -> None:
    """As a reaction or a protein of an imported model, with characters that a page might take for markup."""
    name = folders["string"]
    cells = brought.ask("encode", model=name, text="CC(=O)__<C>&")["tokens"]
    held = [[position, token] for position, token in enumerate(cells) if token is not None]
    lines = brought.draw(model=name, sampling={"steps": 6, "sampler": "confidence"}, held=held)
    text = LETTERS.decode(lines[-1]["tokens"])
    assert text.startswith("CC(=O)")
    assert text[8:12] == "<C>&"
    mask, frame = LETTERS.vocab_size, states(lines)[2]
    state = state_of(frame)
    assert mask in frame["tokens"]
    shown = brought.ask("look", model=name, state=state, position=0)["laws"]
    assert "this token reveals x_0" in shown["leave_one_out"]["reason"]
    blank = brought.ask("look", model=name, state=state, position=frame["tokens"].index(mask))["laws"]
    assert blank["leave_one_out"]["bars"] == blank["denoiser"]["bars"]  # a mask is no evidence


def test_a_causal_model_draws_and_says_what_it_cannot(brought: Client, folders: dict[str, str]) -> None:
    name = folders["causal"]
    found = brought.ask("describe", model=name)
    assert ([kernel["name"] for kernel in found["samplers"]], found["correctors"]) == (["autoregressive"], [])
    lines = brought.draw(model=name, sampling={"sampler": "autoregressive"}, held=[[0, 2]], length=10)
    assert lines[-1]["tokens"][0] == 2
    state = {"tokens": lines[-1]["tokens"], "t": 0.5}
    assert "a causal model has no posterior" in brought.refused("look", model=name, state=state)
    assert "has no state to begin at" in brought.draw(model=name, begin=state)[-1]["sentence"]


def test_a_folder_of_the_same_name_elsewhere_is_not_opened(brought: Client, folders: dict[str, str]) -> None:
    outside = str(Path(folders["pixels"]).parent / "pixels" / ".." / "string")
    assert brought.refused("describe", model=outside).startswith("there is no model")


def test_a_view_that_somebody_registers_lays_out_solves_and_answers(brought: Client, folders: dict[str, str]) -> None:
    name = folders["pixels"]
    with VIEWS.scratch():

        @VIEWS.register("digits")
        class Digits(View):
            questions = (("digit", Which, lambda asked: {"asked": asked.model}),)

            def layout(self, length: int | None) -> dict[str, Any]:
                return {"kind": "numbers", "cells": length}

            def solve(self, model: Any, sampler: Any, request: Draw, given: Any, on_step: Any, on_try: Any) -> Any:
                return {"tokens": given[0].tolist(), "tries": request.tries}

            def program(self, request: Draw, settings: str, name: str, length: int) -> str:
                return f"tokens = {length}, {settings}"

        with running(Playground(Library([name]), Limits())) as client:
            assert client.ask("describe", model=name)["view"] == {"kind": "numbers", "cells": 64}
            lines = client.draw(model=name, sampling={"steps": 3}, held=[[1, 5]], tries=2)
            assert lines[0]["python"].startswith("tokens = 64, 'ancestral', steps=3")
            assert (lines[-1]["tokens"][:3], lines[-1]["tries"]) == ([0, 5, 0], 2)
            assert client.ask("digit", model="x") == {"asked": "x"}
    assert "has no rules" in brought.draw(model=name, tries=1)[-1]["sentence"]
