"""Fuzzed HTTP: odd request lines, headers and bodies, requests that stop in the middle, and several on one connection.

The server runs in a thread of the process that visits it, on a socket of its own.  Right is an answer that is no fault
of the server (below 500), with the headers that forbid everything foreign, and with a sentence where it refuses; or a
closed connection.  Nothing is said on the terminal, and the next visitor is answered.
"""

import http.client
import io
import json
import socket
import struct
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.attack import damage
from tests.attack.outcome import FoundError, WrongError
from tests.attack.worker import Case
from tests.attack.workspace import Workspace
from tests.web.helpers import TINY, Client, running
from tokenloom.web import app, serving
from tokenloom.web.app import CRASHED, Playground
from tokenloom.web.guard import HEADERS
from tokenloom.web.library import Library
from tokenloom.web.requests import Limits

PATIENCE, KEEP_ALIVE = 0.25, 0.05
"""Seconds in which a request must arrive, and the next one must begin; for users 30 and 5, too long to wait here."""
ANSWER = 8.0
"""Seconds in which a visitor expects an answer, or the end of the connection."""
STATE = {"tokens": [0, 1, 2, 3] * 4, "t": 0.5}
BODIES: dict[str, dict[str, Any]] = {
    "draw": {"model": TINY, "sampling": {"steps": 2, "sampler": "ancestral"}, "seed": 1, "held": [[0, 1]], "tries": 0},
    "describe": {"model": TINY, "process": None},
    "look": {"model": TINY, "state": STATE, "sampling": {"top_p": 0.9}, "position": 3},
    "encode": {"model": TINY, "text": "12__" * 4},
    "table": {"weights": [1.0] * 9, "alpha": 0.5, "x_t": [0, 1], "process": "uniform"},
    "puzzle": {"side": 4, "seed": 1},
}
"""A request of every question that is answered."""
PATHS = (
    "/", "/api/models", "/static/app.js", "/static/../app.py", "/static/%00", "/%", "//evil.example/", "/api/models/",
    "*", "http://evil.example/api/models", "/api/draw?x=" + "y" * 9000, "/\u2603", "", "/api/table#x", "/api//table",
    "/static/", "/static", "/api/models?" + "&" * 100,
)  # fmt: skip
METHODS = ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "post", "", "G T", "X" * 9000, "\0")
VERSIONS = ("HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.1 ", "http/1.1", "", "HTTP/9.9", "HTTP/1.1\r")
ODD = ("", " ", "\0", "\x7f", "\xff", "x" * 70_000, "null", "-1", "0", "9" * 30, "1, 1", "0x10", "\u00b2", "; ;", '"')
HOSTS = (
    "localhost", "[::1]", "[", "evil.example", "127.0.0.1:x", "127.0.0.1:99999999", "127.1", "0", "@localhost",
    "localhost, evil.example", "[fe80::1%25eth0]",
)  # fmt: skip
ORIGINS = ("null", "http://evil.example", "http://127.0.0.1", "http://[", "file://", "http://127.0.0.1@evil.example")
TYPES = ("text/plain", "application/json; charset=x", "APPLICATION/JSON", "multipart/form-data", "application/json, x")
NAMED: dict[str, tuple[str, ...]] = {
    "host": HOSTS, "origin": ORIGINS, "content-type": TYPES, "connection": ("close", "keep-alive", "upgrade", "x"),
    "content-length": ("0", "1", "+5", "5, 6", "-5", "1e3", "10000000", "99999999999999999999"),
    "transfer-encoding": ("chunked", "gzip", "identity", "chunked, chunked", "gzip, chunked"),
    "upgrade": ("websocket", "h2c"), "expect": ("100-continue", "x"), "range": ("bytes=0-0", "bytes=9-1", "bytes=-"),
    "if-none-match": ("*", '"x"'), "if-modified-since": ("x", "Thu, 01 Jan 1970 00:00:00 GMT"),
    "accept-encoding": ("gzip", "*"), "cookie": ("a=b",), "x y": ("z",), "": ("z",), "x": ("y\r\n z", "y\nz"),
}  # fmt: skip
"""Headers, with values that mean something to somebody."""
OPEN = ExitStack()
"""Holds the server open."""


@cache
def visitor() -> Client:
    """The server of this process, which ends with it."""
    serving.ImpatientProtocol.patience = PATIENCE
    app.UPLOAD = PATIENCE  # type: ignore[assignment]
    limits = Limits(length=64, steps=16, tries=2, seconds=2)
    playground = Playground(Library([TINY]), limits)
    return OPEN.enter_context(running(playground, KEEP_ALIVE))


def case(seed: int, index: int, space: Workspace) -> Case:
    """The try of this number."""
    random = Random(f"headers {seed} {index}")
    count = random.choice((1, 1, 1, 2, 5))
    message, title = b"".join(request(random) for _ in range(count)), f"{count} sent"
    if count > 1:
        message = message.replace(b"HEAD ", b"GET ")  # its answer says how long a body would be, and has none
    if random.random() < 0.3:
        content = bytearray(message)
        way = random.choice((damage.flip_a_bit, damage.overwrite, damage.truncate, damage.extend))
        title, message = f"{title}, {way(random, content, Path('nowhere'))}", bytes(content)
    leaves = random.choice(("stays", "stays", "stays", "says that it ends", "is cut off"))
    title = f"{title}, who {leaves}: {message[:300]!r}"
    return Case("headers", index, lambda here: title, lambda here: _visit(here, message, leaves))


def request(random: Random) -> bytes:
    """A request of the page in which none, one or some parts are odd."""
    name = random.choice(list(BODIES))
    content = bytearray(json.dumps(BODIES[name]).encode())
    line = ["POST", f"/api/{name}", "HTTP/1.1"]
    if random.random() < 0.25:
        line = ["GET", random.choice(PATHS), "HTTP/1.1"]
        content.clear()
    elif random.random() < 0.6:
        random.choice((*[damage.edit_json] * 8, damage.edit_raw_json))(random, content, Path("nowhere"))
    if random.random() < 0.2:
        place = random.randrange(3)
        line[place] = random.choice((METHODS, PATHS, VERSIONS)[place])
    headers = {"host": "127.0.0.1", "content-type": "application/json", "content-length": str(len(content))}
    pairs = list(headers.items())
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        key = random.choice(list(NAMED))
        value = random.choice((*NAMED[key] * 3, *ODD))
        if random.random() < 0.7:
            pairs = [pair for pair in pairs if pair[0] != key]
        if random.random() < 0.9:
            pairs.append((key, value))
        if value == "chunked" and random.random() < 0.7:
            content[:] = random.choice(
                (b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), bytes(content)), b"zz\r\n", b"5\r\nx")
            )
    head = " ".join(line) + "\r\n" + "".join(f"{key}: {value}\r\n" for key, value in pairs) + "\r\n"
    return head.encode() + bytes(content)


def _visit(here: Path, message: bytes, leaves: str) -> None:
    client, output = visitor(), here.with_name("output")
    before = output.stat().st_size
    answers = Answers(_said(client, message, leaves))
    method = message.split(b" ")[0].decode(errors="replace")
    while answers.tell() < len(answers.getvalue()):
        if not _is_right(http.client.HTTPResponse(answers, method=method)):  # type: ignore[arg-type]
            break
    with client.open("/api/models", b"", method="GET") as answer:
        if answer.status != 200 or json.loads(answer.read())["models"] != [TINY]:
            raise WrongError(f"the next visitor got {answer.status}")
    if words := output.read_bytes()[before:].decode(errors="replace"):
        raise FoundError(("traceback", f"on the terminal: {words[-250:]}", words.strip().splitlines()[-1][:80]))


def _said(client: Client, message: bytes, leaves: str) -> bytes:
    """What the server answers until it ends the connection."""
    received = bytearray()
    with client.connect() as connection, suppress(ConnectionError):
        connection.settimeout(ANSWER)
        with suppress(ConnectionError):  # refused while it is sent: the answer may be there
            connection.sendall(message)
        if leaves == "is cut off":  # by a reset, with answers unread
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return b""
        if leaves == "says that it ends":
            connection.shutdown(socket.SHUT_WR)
        try:
            while part := connection.recv(1 << 16):
                received += part
        except TimeoutError:
            raise FoundError(("hang", f"neither an answer nor an end in {ANSWER:g} s", "")) from None
    return bytes(received)


class Answers(io.BytesIO):
    """All that a server said, read as one connection."""

    def makefile(self, mode: str) -> "Answers":
        return self

    def close(self) -> None:
        """Stay open: after an answer comes the next."""


def _is_right(answer: http.client.HTTPResponse) -> bool:
    """Raise unless an answer is right; False where none follows."""
    try:
        answer.begin()
        body = answer.read()
    except (http.client.BadStatusLine, http.client.IncompleteRead):  # it ends within the answer
        return False
    status, headers = answer.status, {key.lower(): value for key, value in answer.headers.items()}
    if status == 400 and headers["content-type"].startswith("text"):  # of the parser: the app has not seen it
        return False
    wrong = [name for name, value in HEADERS.items() if headers.get(name) != value]
    if wrong:
        raise WrongError(f"status {status} without the header {wrong[0]}")
    if status >= 500 or CRASHED.encode() in body:
        raise WrongError(f"status {status}: {body[-150:]!r}")
    if status >= 400 and body and not json.loads(body).get("sentence"):
        raise WrongError(f"status {status} without a sentence: {body[:150]!r}")
    if headers.get("content-type", "").startswith("application"):
        for line in body.splitlines():
            json.loads(line, parse_constant=_no_number)
    return True


def _no_number(text: str) -> None:
    raise WrongError(f"an answer holds {text}")
