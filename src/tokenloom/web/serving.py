"""The server itself: a socket, a warning where it is open to others, and an end that is quiet."""

import contextlib
import ipaddress
import os
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import uvicorn

from tokenloom.samplers import Sampler
from tokenloom.web.app import Playground
from tokenloom.web.library import Library
from tokenloom.web.limits import Limits

OPEN = (
    "this server is open to other machines: whoever reaches {address} can use its models and its processor, without a "
    "password; use --host 127.0.0.1 unless you know who is on this network"
)
BACKLOG = 512


@dataclass(frozen=True)
class Address:
    """Where to listen."""

    host: str = "127.0.0.1"
    port: int = 7337

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def bind(self) -> socket.socket:
        """The socket, or a sentence."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self.host, self.port))
        except (OSError, OverflowError) as error:
            bound.close()
            reason = getattr(error, "strerror", None) or str(error)
            raise ValueError(
                f"cannot listen on {self.host}, port {self.port}: {reason}; choose another --port, or 0 for a free one"
            ) from None
        return bound

    def url(self, bound: socket.socket) -> str:
        """What to type into a browser."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(
            self.host, f"[{self.host}]" if ":" in self.host else self.host
        )
        return f"http://{host}:{bound.getsockname()[1]}/"


def share_cores(limits: Limits) -> None:
    """Divide the cores among the workers, so that two drawings do not wait for each other's threads."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // limits.workers))


def warm_up(library: Library) -> None:
    """Draw once with the first model, so that the first visitor does not wait for what PyTorch sets up."""
    model = library[library.names[0]].run().model
    Sampler(steps=1).run(model, 1, length=min(model.length or 1, 16) if model.tokenizer else None)


class Server(uvicorn.Server):
    """A server that ends its drawings before it waits for those who read them."""

    def __init__(self, config: uvicorn.Config, playground: Playground) -> None:
        super().__init__(config)
        self.playground = playground

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.playground.close()
        await super().shutdown(sockets)


def server_of(playground: Playground) -> Server:
    """A server for the app that logs errors alone and sends nothing about itself."""
    config = uvicorn.Config(
        playground.app,
        log_level="error",
        lifespan="off",
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=1,
    )
    return Server(config, playground)


def serve(playground: Playground, bound: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until interrupted."""
    server = server_of(playground)

    def when_started() -> None:
        while not server.started and not server.should_exit:
            time.sleep(0.02)
        if server.started:
            ready()

    threading.Thread(target=when_started, daemon=True).start()
    server.run(sockets=[bound])


@contextlib.contextmanager
def running(playground: Playground, address: Address | None = None) -> Iterator[str]:
    """A server in the background, for as long as the context lasts; gives its URL."""
    where = Address(port=0) if address is None else address
    bound, server = where.bind(), server_of(playground)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield where.url(bound)
    finally:
        server.should_exit = True
        thread.join(10)
        bound.close()


def open_browser(url: str) -> None:
    """Show the page, where there is a browser; the URL is printed in any case."""
    with contextlib.suppress(webbrowser.Error):
        webbrowser.open(url)
