"""What the page draws is what the library draws: the same seed, the same tokens, whoever else is there."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

import tokenloom as tl
from tests.web.helpers import HELD, PUZZLE, TINY, Client, alone, given, states
from tokenloom.sudoku.puzzles import is_valid
from tokenloom.web.app import Playground

SHAKESPEARE = "shakespeare-udm-loo"


def result(lines: list[dict[str, Any]]) -> list[int]:
    assert lines[-1]["kind"] == "end", lines[-1]
    found: list[int] = lines[-1]["tokens"]
    return found


def by_its_lines_of_python(lines: list[dict[str, Any]]) -> list[int]:
    names: dict[str, Any] = {}
    exec(lines[0]["python"], names)
    tokens = names["tokens"]
    return list(tokens) if isinstance(tokens, tuple) else tokens[0].tolist()


@pytest.mark.parametrize(
    ("model", "process", "sampling"),
    [
        ("sudoku", None, {"steps": 6}),
        ("sudoku", "masked", {"steps": 6, "sampler": "confidence:score=margin"}),
        ("sudoku", "masked", {"steps": 6, "sampler": "mudm:resample=true"}),
        ("sudoku", "absorbing", {"steps": 6, "sampler": "reaudm"}),
        (TINY, None, {"steps": 8, "sampler": "psi:kappa=0.9", "corrector": "informed:steps=2", "temperature": 0.8}),
        (SHAKESPEARE, None, {"steps": 4, "top_p": 0.9, "on": "denoiser", "grid": "cosine"}),
    ],
)
def test_a_drawing_is_the_one_of_its_lines_of_python(
    client: Client, model: str, process: str | None, sampling: dict[str, Any]
) -> None:
    lines = client.draw(model=model, process=process, sampling=sampling, seed=5)
    assert result(lines) == by_its_lines_of_python(lines)
    assert states(lines)[-1]["tokens"] == result(lines)


def test_frames_are_the_steps_of_the_sampler_with_their_costs(client: Client) -> None:
    seen: list[tl.Step] = []
    sampler = tl.Sampler.parse("ancestral", corrector="random-scan", steps=9)
    drawn = alone(TINY, 3, sampler, on_step=seen.append)
    lines = client.draw(model=TINY, sampling={"steps": 9, "corrector": "random-scan"}, seed=3)
    frames = states(lines)
    assert [frame["tokens"] for frame in frames[1:]] == [step.after.tokens[0].tolist() for step in seen]
    assert frames[0]["tokens"] == seen[0].before.tokens[0].tolist()
    assert [frame["t"] for frame in frames[1:]] == [float(step.after.t[0]) for step in seen]
    assert result(lines) == drawn
    spent = [frame["evaluations"] for frame in frames]
    assert spent == sorted(spent)
    assert spent[-1] == lines[-1]["evaluations"] <= 9


def test_held_tokens_are_kept_and_seen(client: Client) -> None:
    lines = client.draw(model="sudoku", process="masked", sampling={"steps": 8}, seed=1, held=HELD)
    tokens = result(lines)
    assert all(tokens[position] == token for position, token in HELD)
    sampler = tl.Sampler(steps=8)
    assert tokens == alone("sudoku@masked", 1, sampler, given=given(HELD, 81)) == by_its_lines_of_python(lines)


def test_a_model_that_cannot_know_what_is_given_says_so(client: Client) -> None:
    lines = client.draw(model=SHAKESPEARE, sampling={"steps": 3}, seed=1, held=[[0, 5], [7, 9]], length=20)
    assert "does not know which positions are given" in lines[0]["note"]
    assert result(lines)[0] == 5
    assert result(lines) == by_its_lines_of_python(lines)


@pytest.mark.parametrize("process", ["uniform", "absorbing", "hybrid"])
def test_a_drawing_continues_from_any_step_with_other_settings(client: Client, process: str) -> None:
    first = states(client.draw(model="sudoku", process=process, sampling={"steps": 6, "grid": "uniform"}, seed=2))[3]
    begin = {key: first[key] for key in ("tokens", "t", "aux")}
    sampling = {"steps": 4, "temperature": 0.5, "grid": "uniform"}
    lines = client.draw(model="sudoku", process=process, sampling=sampling, seed=9, begin=begin, held=[[0, 4]])
    frames = states(lines)
    assert frames[0]["tokens"][1:] == first["tokens"][1:]
    assert [frame["t"] for frame in frames] == [0.5, 0.25, 0.0]
    assert result(lines)[0] == 4
    assert result(lines) == by_its_lines_of_python(lines)


def test_a_sudoku_is_solved_as_the_command_solves_it(client: Client) -> None:
    lines = client.draw(model="sudoku", sampling={"steps": 16}, seed=0, held=HELD, tries=8)
    grid = result(lines)
    assert lines[-1]["solved"] is True
    assert bool(is_valid(torch.tensor([grid]), 9)[0])
    assert all(digit in (".", str(cell + 1)) for digit, cell in zip(PUZZLE, grid, strict=True))
    assert grid == by_its_lines_of_python(lines)


def test_many_at_once_are_each_drawn_as_alone(client: Client) -> None:
    """A mix of two models; every answer is compared with the one that is drawn with nobody else there."""
    wanted = [(TINY if seed % 3 else "sudoku6-udm-loo", seed) for seed in range(16)]
    with ThreadPoolExecutor(16) as pool:
        drawn = list(pool.map(lambda one: client.draw(model=one[0], seed=one[1], sampling={"steps": 4}), wanted))
    sampler = tl.Sampler(steps=4)
    assert [result(lines) for lines in drawn] == [alone(name, seed, sampler) for name, seed in wanted]


def test_a_reader_that_goes_away_stops_the_work_within_a_step(client: Client, playground: Playground) -> None:
    lines = client.lines(model="sudoku", sampling={"steps": 1000, "sampler": "ancestral"}, seed=1)
    for line in lines:
        if line["kind"] == "frame" and line["index"] >= 2:
            break
    assert len(playground.drawing.inside) == 1
    gone = time.monotonic()
    lines.close()  # type: ignore[attr-defined]
    while playground.drawing.inside and time.monotonic() - gone < 10:
        time.sleep(0.005)
    assert not playground.drawing.inside
    assert time.monotonic() - gone < 1.5  # a thousand steps take ten seconds


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"sampling": {"steps": 5000}}, "steps must be in 1..1,024 here, got 5,000; take fewer"),
        ({"sampling": {"steps": 0}}, "steps must be in 1..1,024 here, got 0"),
        ({"length": 100_000}, "length must be in 1..16 here, got 100,000"),
        ({"length": 0}, "length must be at least 1, got 0"),
        ({"tries": 500}, "tries must be in 0..32 here, got 500"),
        ({"held": [[99, 0]]}, "a position must be in 0..15, got 99"),
        ({"held": [[0, 77]]}, "77"),
        ({"sampling": {"sampler": "nonsense"}}, "there is no sampler 'nonsense'"),
        ({"sampling": {"sampler": "confidence"}}, "confidence needs a process whose lost tokens become the mask"),
        ({"sampling": {"temperature": -1}}, "temperature must be positive and finite, got -1"),
        ({"process": "masked"}, "is not used under the process 'masked'"),
        ({"begin": {"tokens": [0, 1], "t": 0.5}, "length": None, "tries": 1}, "solved from its givens"),
        ({"begin": {"tokens": [9] * 16, "t": 0.5}}, "x_t"),
        ({"begin": {"tokens": [0] * 16, "t": 1.5}}, r"in \[0, 1\], got 1.5"),
        ({"begin": {"tokens": [0] * 16, "t": 0.5, "aux": [0] * 16}}, "has no auxiliary variable"),
    ],
)
def test_what_cannot_be_drawn_is_answered_with_a_sentence(client: Client, asked: dict[str, Any], sentence: str) -> None:
    last = client.draw(model=TINY, **asked)[-1]
    assert last["kind"] in ("error", "refused")  # while it is drawn, or where the request is read
    with pytest.raises(ValueError, match=sentence):
        raise ValueError(last["sentence"])
