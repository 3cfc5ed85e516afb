"""The Hugging Face Hub, or its caches where no connection opens.

Its libraries retry for half a minute before they fall back on their caches or give up.  So one connection is tried
first, to the Hub or to the proxy before it; if none opens in a few seconds they are switched to their offline mode.
"""

import importlib
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

SECONDS = 3.0
PORTS = {"http": 80, "https": 443}


def reachable(endpoint: str) -> bool:
    """Return whether a connection opens in time, including the lookup of its name."""
    target = urlsplit(endpoint)
    proxies = {} if proxy_bypass(target.hostname or "") else getproxies()
    proxy = proxies.get(target.scheme) or proxies.get("all")
    if proxy:
        target = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    address = (target.hostname or "", target.port or PORTS.get(target.scheme, 1080))
    opened: list[bool] = []

    def attempt() -> None:
        with suppress(OSError, UnicodeError), socket.create_connection(address, SECONDS):
            opened.append(True)

    thread = Thread(target=attempt, daemon=True)  # the lookup of a name has no time limit of its own
    thread.start()
    thread.join(SECONDS)
    return bool(opened)


@contextmanager
def hub_or_cache(local: bool = False) -> Iterator[None]:
    """Let the Hub's libraries use only their caches if the Hub does not answer; `local` work needs neither."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    if local or constants.HF_HUB_OFFLINE or reachable(constants.ENDPOINT):
        yield
        return
    switches = [constants, *(sys.modules[name] for name in ("datasets.config",) if name in sys.modules)]
    before = [switch.HF_HUB_OFFLINE for switch in switches]
    try:
        for switch in switches:
            switch.HF_HUB_OFFLINE = True
        yield
    except Exception as error:
        tried = f"no connection to {constants.ENDPOINT} in {SECONDS:g} seconds"
        raise ConnectionError(f"{tried}, and no copy in the cache") from error
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.HF_HUB_OFFLINE = value
