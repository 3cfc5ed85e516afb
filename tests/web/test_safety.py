"""What a visitor cannot do: read files, run scripts, exhaust the machine, or end the server."""

import itertools
import json
import re
import socket
import time
from contextlib import ExitStack
from functools import partial
from importlib.resources import files
from inspect import signature
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.web.helpers import TINY, Client, running
from tokenloom.cli.play import play
from tokenloom.web import app, serving
from tokenloom.web import running as running_module
from tokenloom.web.app import Playground
from tokenloom.web.guard import HEADERS
from tokenloom.web.library import Library
from tokenloom.web.requests import Draw, Encode, Limits, Table, parse
from tokenloom.web.serving import is_local

STATIC = {file.name: file.read_text(encoding="utf-8") for file in (files("tokenloom.web") / "static").iterdir()}
FOREIGN = ("http://evil.example", "null", "", "http://[", "http://[::1", "//", "http://127.0.0.1:99999999", "\xff")


def test_only_this_machine_is_asked_for_by_default_and_others_are_warned_of() -> None:
    assert all(
        map(is_local, (signature(play).parameters["host"].default, "127.0.0.1", "127.0.0.5", "::1", "localhost"))
    )
    assert not any(map(is_local, ("0.0.0.0", "::", "192.168.1.4", "example.org")))


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/static/style.css", "/api/models", "/nothing"])
def test_every_answer_forbids_what_is_not_of_this_server(client: Client, path: str) -> None:
    with client.open(path, b"", method="GET") as answer:
        assert answer.status == (404 if path == "/nothing" else 200)
    assert HEADERS.items() <= dict(answer.headers).items()
    assert re.search("^default-src 'none'(?!.*(unsafe|http:))", answer.headers["content-security-policy"])


def test_a_name_that_points_here_is_not_enough(client: Client) -> None:
    hosts = ("localhost", "127.0.0.1:7337", "[::1]", "evil.example", "localhost.evil.example", "[evil", "")
    found = [client.send("/api/models", b"", {"host": host}, "GET")[0] for host in hosts]
    assert found == [200, 200, 200, 403, 403, 403, 403]


def test_only_this_page_may_post(client: Client) -> None:
    assert client.send("/api/table", b"{}", {"origin": client.url.rstrip("/")})[0] == 200
    for header in (*({"origin": origin} for origin in FOREIGN), {"content-type": "text/plain"}):
        with client.open("/api/table", b"{}", header) as answer:
            assert answer.status == 403
        assert HEADERS.items() <= dict(answer.headers).items()
    assert client.send("/api/table", b"", method="GET")[0] == 405


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..%2f..%2fpublic.py", "/app.py"],
)
def test_no_file_is_read_through_a_path(client: Client, path: str) -> None:
    assert client.send(path, b"", method="GET")[0] == 404


def test_a_name_in_a_request_is_never_opened(client: Client, tmp_path: Path) -> None:
    folder = str(files("tokenloom.models") / "bundled" / TINY)
    for name in (folder, "../" + TINY, str(tmp_path), "/etc/passwd", "sudoku@masked", "a/b", "x" * 10_000):
        for path in ("draw", "describe", "encode", "look"):
            sentence = client.refused(path, model=name)
            assert sentence.startswith("there is no model")
            assert len(sentence) < 400
    assert not list(tmp_path.iterdir())


def test_no_field_of_a_sampler_reaches_a_file(client: Client, tmp_path: Path) -> None:
    texts = (f"{tmp_path}/x", "../../etc/passwd", "ancestral:through=/etc/passwd", "greedy-tail:inner=os.system")
    for text, role in itertools.product(texts, ("sampler", "corrector")):
        last = client.draw(model=TINY, sampling={role: text})[-1]
        assert last["kind"] == "error"
        assert len(last["sentence"]) < 400
    assert not list(tmp_path.iterdir())


def test_ten_megabytes_are_refused_while_they_arrive(client: Client) -> None:
    limit = Limits().body
    with client.connect() as connection:
        head = f"POST /api/encode HTTP/1.1\r\nhost: {client.host}\r\ncontent-type: application/json\r\n"
        connection.sendall(f"{head}content-length: 10000000\r\n\r\n".encode())
        sent = 0
        try:
            while sent < 10_000_000:
                sent += connection.send(b"x" * 65536)
        except (ConnectionError, TimeoutError):
            pass
        connection.settimeout(10)
        answer = connection.recv(65536)
    assert b"413" in answer.splitlines()[0]
    assert f"a request may have {limit:,} bytes".encode() in answer
    assert client.ask("table")["states"] == 3


def test_a_request_that_stops_in_its_header_is_closed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """One at its start, one in its header, one in its second request; one that is only slow is answered."""
    monkeypatch.setattr(serving.ImpatientProtocol, "patience", 1.0)
    whole = f"GET /api/models HTTP/1.1\r\nhost: {client.host}\r\n\r\n".encode()
    with ExitStack() as stack:
        sockets = [stack.enter_context(client.connect()) for _ in range(4)]
        for connection, part in zip(sockets, (b"", whole[:30], whole + whole[:30], whole[:30]), strict=True):
            connection.sendall(part)
        time.sleep(0.3)
        sockets[-1].sendall(whole[30:])
        time.sleep(1.2)
        sockets[-1].sendall(whole)
        answers = [b"".join(iter(partial(connection.recv, 65536), b"")) for connection in sockets[:3]]
        assert [answer.count(b"HTTP/1.1 200") for answer in answers] == [0, 0, 1]
        assert sockets[-1].recv(65536).count(b"HTTP/1.1 200") == 2


def test_a_request_that_breaks_after_its_header_is_no_news_for_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    head = "host: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    with running(Playground(Library([TINY]), Limits())) as client:  # which logs to the terminal of this test
        for path in ("static", "nothing", "api/table"):
            for body in ("5\r\nabcdefghi", "zz\r\n", "2\r\n{}\r\nzz\r\n"):
                with client.connect() as connection:
                    connection.sendall(f"POST /{path} HTTP/1.1\r\n{head}{body}".encode())
                    assert b"400" in b"".join(iter(partial(connection.recv, 65536), b"")).splitlines()[0]
        assert client.ask("table")["states"] == 3
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "is not JSON"),
        (b"[]", "must be a JSON object, got list"),
        (b"\xff\xfe", "is not JSON"),
        (b'{"model": 3}', "the option model of the request must be a text, got 3"),
        (b'{"model": "x", "seed": 1.5}', "the option seed of the request must be a whole number"),
        (b'{"model": "x", "seed": 99999999999999999999999}', "does not fit 64 bits"),
        (b'{"model": "x", "sampling": {"stepps": 3}}', "did you mean steps"),
        (b'{"model": "x", "sampling": {"temperature": NaN}}', "NaN is not a finite number"),
        (b'{"model": "x", "sampling": 5}', "the option sampling of the request must be an object, got 5"),
        (b'{"model": "x", "sampling": null}', "the option sampling of the request"),
        (b'{"model": "x", "held": [[1]]}', "the option held of the request"),
        (b'{"model": "x", "held": [["a", 1]]}', "a pair (a whole number, a whole number), got [['a', 1]]"),
        (b'{"model": "x", "begin": {"tokens": "abc", "t": 0}}', "the option tokens of begin"),
        (b'{"model": ' + b"[" * 100_000, "is not JSON"),
        (b'{"nonsense": 1}', "the request has no option 'nonsense'"),
        (b"{}", "model"),
    ],
)
def test_a_wrong_request_is_a_sentence(body: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        parse(body, Draw)


def test_text_of_any_script_is_taken_as_text(client: Client) -> None:
    for text in ("<script>alert(1)</script>", "😀" * 50, "שלום עולם", "\u202e\u0000", "{{7*7}}", "'; drop table"):
        status, answer = client.send("/api/encode", json.dumps({"model": "shakespeare-udm-loo", "text": text}).encode())
        assert status in (200, 400)
        assert len(json.dumps(answer)) < 5000
    assert parse(json.dumps({"model": "x", "text": "<b>"}).encode(), Encode).text == "<b>"
    assert parse(b"{}", Table).alpha == 0.5


def test_a_crash_of_one_request_does_not_end_the_server(
    client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(*_: Any) -> None:
        raise RuntimeError("a part of the machine is on fire at /secret/path")

    with monkeypatch.context() as patched:
        patched.setattr(running_module, "python_lines", crash)
        last = client.draw(model=TINY)[-1]
        patched.setattr(app, "parse", crash)
        with client.open("/api/table", b"{}") as answer:
            assert (answer.status, last["kind"]) == (500, "error")
    assert HEADERS.items() <= dict(answer.headers).items()
    assert "only this request is affected" in last["sentence"]
    assert "secret" not in last["sentence"]
    assert client.draw(model=TINY, sampling={"steps": 2})[-1]["kind"] == "end"
    assert "on fire" in capsys.readouterr().err


def test_a_drawing_that_takes_too_long_is_ended_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_module, "time", SimpleNamespace(monotonic=count().__next__))  # a second per question
    with running(Playground(Library([TINY]), Limits(seconds=3))) as client:
        assert client.draw(model=TINY, sampling={"steps": 2})[-1]["kind"] == "end"
        last = client.draw(model=TINY, sampling={"steps": 6})[-1]
    assert last["kind"] == "error"
    assert "this took longer than 3 seconds, the limit here; take fewer steps" in last["sentence"]


def test_the_page_brings_everything_itself_and_writes_no_markup() -> None:
    assert {"index.html", "app.js", "style.css"} <= set(STATIC)
    for name, text in STATIC.items():
        outside = [link for link in re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text) if "www.w3.org" not in link]
        assert not outside, name
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|import\(", text
        )
    html = STATIC["index.html"]
    assert not re.findall(r"<script(?![^>]*src=)", html)
    assert " style=" not in html
    assert not re.findall(r"\son\w+=", html)
    linked = re.findall(r'(?:src|href)="/static/([^"]+)"', html)
    modules = [module for text in STATIC.values() for module in re.findall(r'from "\./([\w.]+)"', text)]
    assert {*linked, *modules} <= set(STATIC)


def test_no_connection_leaves_the_machine(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[Any] = []
    connect = socket.socket.connect

    def noted(self: socket.socket, address: Any) -> Any:
        reached.append(address)
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", noted)
    client.ask("describe", model="sudoku")
    client.draw(model=TINY, sampling={"steps": 3})
    client.ask("puzzle", side=4)
    assert reached
    assert {address[0] for address in reached if isinstance(address, tuple)} == {"127.0.0.1"}


def test_a_library_knows_its_own_names_only() -> None:
    library = Library([TINY])
    assert list(library) == [TINY]
    assert library[TINY].model() is library[TINY].model()  # loaded once
    with pytest.raises(ValueError, match="there is no model 'sudoku' here; did you mean sudoku4-udm-loo"):
        library["sudoku"]
    with pytest.raises(ValueError, match="named twice"):
        Library([TINY, TINY])
    with pytest.raises(ValueError, match="no-such-model"):
        Library(["runs/no-such-model"])
