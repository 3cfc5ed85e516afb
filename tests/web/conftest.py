"""A playground that listens on a free port of this machine, and a browser where one is installed."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.web.helpers import Client, Opened, running
from tokenloom.web.app import Playground
from tokenloom.web.library import Library
from tokenloom.web.requests import Limits

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip


@pytest.fixture(scope="session")
def playground() -> Playground:
    return Playground(Library([]), Limits())


@pytest.fixture(scope="session")
def client(playground: Playground) -> Iterator[Client]:
    with running(playground) as found:
        yield found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed; on Debian: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed; pip install playwright")
    with api.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def visit(browser: Any, client: Client) -> Iterator[Opened]:
    """A new visitor's page; at the end, no script failed and nothing was asked of another machine."""
    contexts, wrong, asked = [], [], []

    def open_page(link: str = "", width: int = 1280, height: int = 900, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: wrong.append(f"a dialog said {dialog.message}"))
        page.goto(client.url + link)
        page.wait_for_selector("body[data-ready]")
        page.select_option("#speed", "1000")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [line for line in wrong if "400" not in line and "503" not in line] == []
    assert [one for one in asked if not one.startswith((client.url, "blob:", "data:"))] == []
    assert asked
