"""What the tests do with an open page."""

import json
from collections.abc import Callable
from typing import Any

LANE = "[data-lane=A]"
DONE = f"{LANE}[data-state=done]"
Opened = Callable[..., Any]


def tokens(page: Any, lane: str = LANE) -> list[int | None]:
    found: list[int | None] = json.loads(page.get_attribute(lane, "data-tokens"))
    return found


def play(page: Any, button: str = "#go") -> None:
    page.click(button)
    page.wait_for_selector(DONE)
    page.wait_for_selector("#go:text-is('Play')")


def cell(page: Any, position: int, lane: str = LANE) -> Any:
    return page.locator(f"{lane} [data-position='{position}']")
