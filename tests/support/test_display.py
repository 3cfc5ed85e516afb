"""The status of long work on narrow terminals."""

import io

import pytest
from rich.console import Console

from tokenloom.support.display import Display

LONG = "step 2,820  mean loss (nelbo) 1.7978  15,710 tokens/s  valid 1.8825 ± 0.0387 nats (entropy 1.2345)"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_long_text_gives_way_to_the_bar_and_the_clock(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    display = Display(console)
    with display.status("the first step"):
        display.update(LONG, 0.4)
        rendered = Console(file=io.StringIO(), width=width, color_system=None)
        rendered.print(display._bars.get_renderable())
    shown = rendered.file.getvalue()  # type: ignore[attr-defined]
    assert shown.count("\n") == 1
    assert "━━" in shown
    assert "0:00:00" in shown
    assert LONG[: width // 4] in shown
