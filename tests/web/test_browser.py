"""Watch and touch in a real browser, with the tokens it shows beside those of the library."""

from typing import Any

import torch

import tokenloom as tl
from tests.web.helpers import HELD, LANE, PUZZLE, TINY, Opened, alone, cell, given, play, tokens
from tokenloom.sudoku.puzzles import is_valid


def test_a_pasted_sudoku_is_played_to_its_solution(visit: Opened) -> None:
    page = visit("#model=sudoku&a.steps=16")
    page.fill("#puzzle", PUZZLE)
    page.wait_for_selector(f"{LANE} .result:text-is('30 givens')")
    play(page, "#solve")
    grid = torch.tensor([tokens(page)])
    assert bool(is_valid(grid, 9)[0])
    assert all(int(grid[0, position]) == token for position, token in HELD)
    assert "every row, column and box" in page.inner_text(f"{LANE} .result")
    assert page.locator(f"{LANE} .wrong").count() == 0
    assert int(page.get_attribute(LANE, "data-first")) < 2000  # 300 ms on a quiet machine; see docs/playground.md


def test_tokens_on_the_page_are_those_of_the_library_and_of_its_lines_of_python(visit: Opened) -> None:
    page = visit(f"#model={TINY}&seed=11&a.sampler=psi%3Akappa%3D0.9&a.steps=6&a.temperature=0.7")
    page.click("#free-all")
    play(page)
    sampler = tl.Sampler.parse("psi:kappa=0.9", steps=6, temperature=0.7)
    assert tokens(page) == alone(TINY, 11, sampler)
    names: dict[str, Any] = {}
    exec(page.inner_text("#python"), names)
    assert names["tokens"][0].tolist() == tokens(page)


def test_the_slider_goes_back_and_forth_through_the_steps(visit: Opened) -> None:
    page = visit(f"#model={TINY}&seed=2&a.steps=6")
    page.click("#free-all")
    play(page)
    seen: list[tl.Step] = []
    last = alone(TINY, 2, tl.Sampler(steps=6), on_step=seen.append)
    assert page.get_attribute("#slider", "max") == "6"
    page.focus("#slider")
    for step in (5, 4, 3):
        page.keyboard.press("ArrowLeft")
        assert page.inner_text("#where") == f"step {step} of 6"
        assert tokens(page) == seen[step - 1].after.tokens[0].tolist()
    page.keyboard.press("Home")
    assert tokens(page) == seen[0].before.tokens[0].tolist()
    page.click("#forth")
    assert tokens(page) == seen[0].after.tokens[0].tolist()
    page.focus("#slider")
    page.keyboard.press("End")
    assert tokens(page) == last
    assert page.locator("#charts path").count() == 3


def test_a_held_token_stays_and_can_be_typed_by_keyboard(visit: Opened) -> None:
    page = visit(f"#model={TINY}&seed=3&a.steps=5")
    page.click("#free-all")
    cell(page, 5).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("3")
    assert tokens(page)[6] == 2
    play(page)
    assert tokens(page) == alone(TINY, 3, tl.Sampler(steps=5), given=given([(6, 2)], 16))
    cell(page, 9).click()
    cell(page, 9).click()  # a second click holds what stands there
    assert "held" in (cell(page, 9).get_attribute("class") or "")
    kept = tokens(page)[9]
    page.fill("#seed", "4")
    play(page)
    assert tokens(page)[9] == kept
    assert tokens(page)[6] == 2
    page.keyboard.press("Tab")
    cell(page, 9).focus()
    page.keyboard.press("Backspace")
    page.wait_for_selector(f"{LANE} [data-position='9']:not(.held)")


def test_broken_rules_are_marked_and_examples_are_loaded_by_difficulty(visit: Opened) -> None:
    page = visit("#model=sudoku")
    page.click("#free-all")
    for position in (0, 4):  # the same row
        cell(page, position).click()
        page.keyboard.press("7")
    assert page.locator(f"{LANE} .wrong").count() == 2
    assert page.inner_text(f"{LANE} .result") == "2 cells break a rule"
    page.click(".keypad button:text-is('8')")
    page.wait_for_selector(f"{LANE} .result:text-is('2 givens')")
    page.select_option("#level", "hard")
    page.click("#load")
    page.wait_for_selector(f"{LANE} .result:text-matches('^2[0-9] givens$')")
    assert page.locator(f"{LANE} .wrong").count() == 0


def test_a_range_is_redrawn_and_everything_else_stays(visit: Opened) -> None:
    page = visit("#model=shakespeare-udm-loo&length=48&seed=1&a.steps=8")
    play(page)
    before = tokens(page)
    cell(page, 10).click()
    cell(page, 15).click(modifiers=["Shift"])
    assert page.inner_text("#selection") == "6 tokens selected"
    page.fill("#seed", "77")
    play(page, "#redraw")
    after = tokens(page)
    assert after[:10] + after[16:] == before[:10] + before[16:]
    assert after[10:16] != before[10:16]


def test_a_drawing_continues_from_the_step_shown_with_other_settings(visit: Opened) -> None:
    page = visit("#model=shakespeare-udm-loo&length=48&seed=1&a.steps=8")
    play(page)
    for _ in range(4):
        page.click("#back")
    middle = tokens(page)
    page.fill("#seed", "5")
    play(page, "#continue")
    assert page.get_attribute("#slider", "max") == "8"
    for _ in range(4):
        page.click("#back")
    assert tokens(page) == middle
