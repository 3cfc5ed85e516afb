"""A playground that listens on a free port of this machine, and a browser where one is installed."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.web.helpers import Client
from tokenloom.web.app import Playground
from tokenloom.web.library import Library
from tokenloom.web.limits import Limits
from tokenloom.web.serving import running

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def playground() -> Playground:
    return Playground(Library([]), Limits())


@pytest.fixture(scope="session")
def url(playground: Playground) -> Iterator[str]:
    with running(playground) as found:
        yield found


@pytest.fixture(scope="session")
def client(url: str) -> Client:
    return Client(url)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed; on Debian: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed; pip install playwright")
    with api.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield found
        found.close()
