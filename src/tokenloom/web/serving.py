"""The server itself: a socket, a warning where it is open to others, and a quiet end."""

import ipaddress
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import h11
import torch
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tokenloom.models.threads import fit_threads
from tokenloom.samplers import Sampler
from tokenloom.web.app import UPLOAD, Playground
from tokenloom.web.library import Library
from tokenloom.web.requests import Limits

OPEN = (
    "this server is open to other machines: whoever reaches {address} can use its models and its processor, without a "
    "password; use --host 127.0.0.1 unless you know who is on this network"
)


def is_local(host: str) -> bool:
    """Return whether only this machine can reach what listens on this host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address."""
    both = ":" in host and socket.has_dualstack_ipv6()  # :: is reached over IPv4 too
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=both)
    except (OSError, OverflowError) as error:
        reason = str(getattr(error, "strerror", error)).partition(" (while")[0]
        remedy = "choose another --port, or 0 for a free one"
        raise ValueError(f"cannot listen on {host}, port {port}: {reason}; {remedy}") from None


def url_of(bound: socket.socket, host: str) -> str:
    """Return the URL to type into a browser."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{bound.getsockname()[1]}/"


def warm_up(library: Library, limits: Limits) -> None:
    """Divide the cores among the workers, and draw once, so that the first visitor does not wait for PyTorch."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // limits.workers))
    model = next(iter(library.values())).model()
    fit_threads(model, 1, model.length)
    Sampler(steps=1).run(model, 1, length=min(model.length or 1, 16) if model.tokenizer else None)


class ImpatientProtocol(H11Protocol):
    """HTTP that closes a connection whose request has not sent its header within `patience` seconds."""

    patience: float = UPLOAD

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._end = self.loop.call_later(self.patience, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:  # the header is complete
            self._end.cancel()
        elif self._end.cancelled():
            self._end = self.loop.call_later(self.patience, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that broke after its header, unless the app answers already; nobody hears the app then."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._end.cancel()


class Server(uvicorn.Server):
    """A server that logs errors alone, calls `ready` once it listens, and sends nothing about itself."""

    def __init__(self, playground: Playground, ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            playground.app,
            http=ImpatientProtocol,
            log_level="error",
            lifespan="off",
            server_header=False,
            date_header=False,
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
