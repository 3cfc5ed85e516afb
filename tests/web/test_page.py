"""Understand and take away in a real browser; two tabs, stop, hostile input, narrow screens and keyboards."""

import json
from pathlib import Path
from typing import Any

import pytest

import tokenloom as tl
from tests.web.helpers import LANE, PUZZLE, TINY, Opened, alone, cell, loaded, play, posteriors, tokens


def test_the_posteriors_of_a_token_are_those_of_the_library(visit: Opened) -> None:
    page = visit("#model=shakespeare-udm-loo&length=48&seed=1&a.steps=8&a.top_p=0.3&a.grid=uniform")
    play(page)
    for _ in range(4):
        page.click("#back")
    cell(page, 20).hover()
    page.wait_for_selector("#look[data-shown='20@4']")
    shown = [token for token in tokens(page) if token is not None]
    _, mu, nu = posteriors("shakespeare-udm-loo", shown, 0.5)
    laws: tuple[tuple[str, tl.Denoiser | tl.LeaveOneOut], ...] = (("denoiser", mu), ("leave_one_out", nu))
    for name, law in laws:
        bars = page.locator(f"#look .{name} .bars li")
        assert bars.count() == 10
        for index in range(10):
            token, p = (bars.nth(index).get_attribute(f"data-{part}") for part in ("token", "p"))
            assert float(p) == pytest.approx(float(law.log_probs[0, 20, int(token)].exp()), abs=1e-5)
    assert page.locator("#look .cut").count() > 0
    page.select_option("#colour", "doubt")
    page.wait_for_selector(f"{LANE} .token[class*=age-]")


def test_the_page_of_three_posteriors_answers_its_sliders(visit: Opened) -> None:
    page = visit()
    page.click("#to-three")
    page.wait_for_selector("#steps-of")
    first = page.inner_text("#answer .law.denoiser >> nth=0")
    assert "the average over the denoiser" in page.inner_text("#steps-of .equal")
    page.focus("#alpha")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"#answer .law.denoiser:not(:has-text('{first.split()[-1]}'))")
    page.select_option("#three-process", "masked")
    page.select_option("#x_t-0", "3")
    page.wait_for_selector("#steps-of .equal:has-text('no evidence')")


def test_an_answer_that_comes_late_does_not_replace_that_to_a_later_question(visit: Opened) -> None:
    page = visit()
    late: list[Any] = []
    page.route("**/api/table", lambda route: late.append(route) if not late else route.continue_())
    page.click("#to-three")
    page.wait_for_timeout(100)
    page.select_option("#three-process", "masked")
    page.select_option("#x_t-0", "3")
    masked = "#steps-of .equal:has-text('no evidence')"
    page.wait_for_selector(masked)
    with page.expect_response("**/api/table"):
        late[0].continue_()
    page.wait_for_timeout(100)
    assert page.is_visible(masked)


def test_two_samplers_side_by_side_and_two_tabs_do_not_mix(visit: Opened) -> None:
    one = visit(f"#model={TINY}&seed=8&a.steps=4&compare=1&b.sampler=planned&b.steps=6")
    two = visit(f"#model={TINY}&seed=9&a.steps=4")
    for page in (one, two):
        page.click("#free-all")
    one.click("#go")
    two.click("#go")
    for page, lanes in ((one, "AB"), (two, "A")):
        for lane in lanes:
            page.wait_for_selector(f"[data-lane={lane}][data-state=done]")
        page.wait_for_selector("#go:text-is('Play')")
    assert tokens(one) == alone(TINY, 8, tl.Sampler(steps=4))
    assert tokens(one, "[data-lane=B]") == alone(TINY, 8, tl.Sampler.parse("planned", steps=6))
    assert tokens(two) == alone(TINY, 9, tl.Sampler(steps=4))


def test_stop_stops_the_work(visit: Opened, playground: Any) -> None:
    page = visit("#model=sudoku&a.steps=1000")
    page.click("#go")
    page.wait_for_selector(f"{LANE}[data-first]")
    assert page.inner_text("#go") == "Stop"
    page.click("#go")
    page.wait_for_selector(f"{LANE}[data-state=stopped]")
    for _ in range(100):
        if not playground.drawing.inside:
            break
        page.wait_for_timeout(20)
    assert not playground.drawing.inside
    assert page.inner_text("#go") == "Play"


def test_hostile_text_stays_text(visit: Opened) -> None:
    page = visit("#model=shakespeare-udm-loo&length=48&a.steps=2")
    before = page.locator("script").count(), page.locator("img").count()
    for text in ("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "😀 שלום", "a" * 100_000):
        page.fill("#prompt", text)
        page.click("#use-prompt")
        page.wait_for_selector("#sentence:not([hidden])")  # its letters, or its length, are refused with a sentence
        assert (page.locator("script").count(), page.locator("img").count()) == before
        page.fill("#prompt", "ROMEO: hi_")
        page.click("#use-prompt")
        page.wait_for_selector("#sentence[hidden]", state="attached")
    play(page)
    assert tokens(page)[:9] == loaded("shakespeare-udm-loo").encode("ROMEO: hi")


def test_a_hostile_link_opens_the_page_as_if_it_were_none(visit: Opened) -> None:
    page = visit("#model=../../etc&process=<script>&seed=abc&a.sampler=<img>&a.steps=NaN&length=-5")
    assert page.input_value("#model") == "sudoku"
    assert page.input_value("#seed") == "1"
    page = visit("#model=sudoku&process=<script>&length=-5")
    assert page.input_value("#process") == "uniform"


def test_a_link_holds_all_settings_and_no_data(visit: Opened) -> None:
    page = visit()
    page.select_option("#process", "masked")
    page.wait_for_selector("#process >> nth=0")
    page.select_option("[data-role=sampler]", "remasking")
    page.fill("[data-option=eta]", "0.2")
    page.fill("#seed", "42")
    page.wait_for_timeout(400)
    link = page.evaluate("location.hash")
    assert PUZZLE not in link
    assert "held" not in link
    other = visit(link)
    assert other.input_value("#process") == "masked"
    assert other.input_value("[data-option=eta]") == "0.2"
    assert other.input_value("#seed") == "42"


def test_json_and_the_picture_are_taken_away(visit: Opened, tmp_path: Path) -> None:
    page = visit(f"#model={TINY}&seed=6&a.steps=4")
    page.click("#free-all")
    play(page)
    for button, name in (("#save-json", "drawing.json"), ("#save-svg", "drawing.svg")):
        with page.expect_download() as waiting:
            page.click(button)
        waiting.value.save_as(tmp_path / name)
    record = json.loads((tmp_path / "drawing.json").read_text())
    (drawing,) = record["drawings"]
    assert drawing["result"]["tokens"] == alone(TINY, 6, tl.Sampler(steps=4))
    assert drawing["request"]["seed"] == 6
    assert len(drawing["steps"]) == 5
    picture = (tmp_path / "drawing.svg").read_text()
    assert picture.count("<animate") > 16
    assert "script" not in picture


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen_in_either_theme(visit: Opened, scheme: str) -> None:
    page = visit("#model=shakespeare-udm-loo&compare=1", scheme=scheme)
    for width in (1280, 900, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.get_attribute("html", "data-theme") == scheme
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") != scheme


def test_everything_has_a_name_and_is_reached_by_keyboard(visit: Opened) -> None:
    page = visit(f"#model={TINY}&compare=1")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select")].filter((one) => one.offsetParent)
        .filter((one) => !(one.ariaLabel || one.textContent.trim() || one.labels?.length))
        .map((one) => one.outerHTML)"""
    )
    assert unnamed == []
    reached = set()
    page.keyboard.press("Home")
    for _ in range(90):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"go", "slider", "model", "seed", "to-three", "theme"} <= reached
