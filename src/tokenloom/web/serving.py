"""The server itself: a socket, a warning where it is open to others, and a quiet end."""

import contextlib
import ipaddress
import os
import socket
import threading
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
    """The host and port to listen on."""

    host: str = "127.0.0.1"
    port: int = 7337

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def bind(self) -> socket.socket:
        """Return a socket that is bound to the address."""
        bound = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
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
        """Return the URL to type into a browser."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}/"


def share_cores(limits: Limits) -> None:
    """Divide the cores among the workers, so that two drawings do not wait for each other's threads."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // limits.workers))


def warm_up(library: Library) -> None:
    """Draw once with the first model, so that the first visitor does not wait for what PyTorch sets up."""
    model = library[library.names[0]].run().model
    Sampler(steps=1).run(model, 1, length=min(model.length or 1, 16) if model.tokenizer else None)


class Server(uvicorn.Server):
    """A server that logs errors alone, calls `ready` once it listens, and sends nothing about itself."""

    def __init__(self, playground: Playground, ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            playground.app,
            log_level="error",
            lifespan="off",
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self.playground, self.ready = playground, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        threading.Thread(target=self.ready, daemon=True).start()  # opening a browser may block, and must not block us

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.playground.close()  # ends the drawings first: the server waits for their readers
        await super().shutdown(sockets)


def serve(playground: Playground, bound: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until interrupted."""
    Server(playground, ready).run(sockets=[bound])


@contextlib.contextmanager
def running(playground: Playground) -> Iterator[str]:
    """Run a server in the background on a free local port, for as long as the context lasts; yield its URL."""
    address, started = Address(port=0), threading.Event()
    bound, server = address.bind(), Server(playground, started.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        started.wait(30)
        yield address.url(bound)
    finally:
        server.should_exit = True
        thread.join(10)
        bound.close()


def open_browser(url: str) -> None:
    """Open the page where there is a browser; the URL is printed in any case."""
    with contextlib.suppress(webbrowser.Error):
        webbrowser.open(url)
