"""A visitor, with a browser and without one."""

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import torch

import tokenloom as tl
from tokenloom.web.app import Playground
from tokenloom.web.serving import Server, listen, url_of

PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
HELD = [(index, int(digit) - 1) for index, digit in enumerate(PUZZLE) if digit != "."]
TINY = "sudoku4-udm-loo"
Answer = tuple[int, dict[str, Any]]
LANE = "[data-lane=A]"
Opened = Callable[..., Any]
"""Opens a page in the browser."""


@dataclass(frozen=True)
class Client:
    """Requests to one server, each on a connection of its own."""

    url: str

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    @contextmanager
    def open(
        self, path: str, body: bytes, headers: dict[str, str] | None = None, method: str = "POST"
    ) -> Iterator[http.client.HTTPResponse]:
        with closing(http.client.HTTPConnection(self.host, timeout=60)) as connection:
            connection.request(method, path, body, {"content-type": "application/json"} | (headers or {}))
            yield connection.getresponse()

    def send(self, path: str, body: bytes, headers: dict[str, str] | None = None, method: str = "POST") -> Answer:
        with self.open(path, body, headers, method) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text[:1] == b"{" else {"text": text.decode()}

    def ask(self, path: str, **values: Any) -> dict[str, Any]:
        status, answer = self.send(f"/api/{path}", json.dumps(values).encode())
        assert status == 200, answer
        return answer

    def refused(self, path: str, **values: Any) -> str:
        """The sentence of a request that is not answered."""
        status, answer = self.send(f"/api/{path}", json.dumps(values).encode())
        assert status >= 400, answer
        return str(answer["sentence"])

    def connect(self) -> socket.socket:
        """A connection on which anything may be sent."""
        address = urlsplit(self.url)
        return socket.create_connection((str(address.hostname), address.port or 80), timeout=20)

    def lines(self, **values: Any) -> Iterator[dict[str, Any]]:
        """The lines of a drawing as they come."""
        with self.open("/api/draw", json.dumps(values).encode()) as answer:
            if answer.status != 200:
                yield {"kind": "refused", "status": answer.status, **json.loads(answer.read())}
                return
            for line in answer:
                yield json.loads(line)

    def draw(self, **values: Any) -> list[dict[str, Any]]:
        return list(self.lines(**values))


@contextmanager
def running(playground: Playground, keep_alive: float = 5) -> Iterator[Client]:
    """A visitor of a server that runs in the background, on a free port."""
    started = threading.Event()
    server = Server(playground, started.set)
    server.config.timeout_keep_alive = keep_alive  # type: ignore[assignment]
    with listen("127.0.0.1", 0) as bound:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            assert started.wait(30)
            yield Client(url_of(bound, "127.0.0.1"))
        finally:
            server.should_exit = True
            thread.join(10)


def state_of(frame: dict[str, Any]) -> dict[str, Any]:
    """The state of a frame, as the page sends it back."""
    return {key: frame[key] for key in ("tokens", "t", "aux", "marked")}


def states(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The frames of a drawing, each with all its tokens."""
    whole: list[dict[str, Any]] = []
    for line in lines:
        if line["kind"] != "frame":
            continue
        if "tokens" not in line:
            tokens = list(whole[-1]["tokens"])
            for position, token in line["changes"]:
                tokens[position] = token
            line = {"aux": whole[-1]["aux"], "marked": whole[-1]["marked"]} | line | {"tokens": tokens}
        whole.append(line)
    return whole


@cache
def loaded(name: str) -> tl.DiffusionModel:
    return tl.load(name)


def alone(name: str, seed: int, sampler: tl.Sampler, **options: Any) -> list[int]:
    """What `Sampler.run` draws with this seed when nobody else draws."""
    model = loaded(name)
    drawn: list[int] = sampler.run(model, 1, generator=tl.RowGenerators([seed]), **options).tokens[0].tolist()
    return drawn


def posteriors(name: str, tokens: Sequence[int], t: float) -> tuple[tl.Noisy, tl.Denoiser, tl.LeaveOneOut]:
    """A state with the library's two posteriors at it."""
    model, time = loaded(name), torch.tensor([t], dtype=torch.float64)
    noisy = tl.Noisy(torch.tensor([tokens]), time, model.process.alpha(time))
    with torch.no_grad():
        nu = model.predict(noisy)
    assert isinstance(nu, tl.LeaveOneOut)
    return noisy, tl.convert(nu, tl.Denoiser, noisy.tokens, noisy.alpha_t, model.process), nu


def given(held: Sequence[tuple[int, int]], length: int) -> tuple[torch.Tensor, torch.Tensor]:
    known = dict(held)
    tokens = torch.tensor([known.get(position, 0) for position in range(length)])
    return tokens, torch.tensor([position in known for position in range(length)])


def tokens(page: Any, lane: str = LANE) -> list[int | None]:
    found: list[int | None] = json.loads(page.get_attribute(lane, "data-tokens"))
    return found


def play(page: Any, button: str = "#go") -> None:
    page.click(button)
    page.wait_for_selector(f"{LANE}[data-state=done]")
    page.wait_for_selector("#go:text-is('Play')")


def cell(page: Any, position: int) -> Any:
    return page.locator(f"{LANE} [data-position='{position}']")
