"""The routes of the playground: a page, the few questions it asks, and the stream of a sampling."""

import json
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from importlib.resources import files
from typing import Any, TypeVar

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tokenloom import __version__
from tokenloom.web.describe import describe
from tokenloom.web.guard import Guard
from tokenloom.web.library import Library
from tokenloom.web.limits import Limits
from tokenloom.web.looking import look
from tokenloom.web.oracle_page import three_posteriors
from tokenloom.web.requests import Draw, Encode, Look, Table, Which, parse
from tokenloom.web.running import draw
from tokenloom.web.states import encode
from tokenloom.web.views import VIEWS
from tokenloom.web.workers import CRASHED, Workers

Asked = TypeVar("Asked")

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
UPLOAD = 30
"""Seconds in which a request must have arrived."""


class Playground:
    """The models, their workers and the app around them.

    Args:
        library: The models that may be chosen.
        limits: Limits of one request and of all together.
        names: Names of this machine that pages may call it by.
    """

    def __init__(self, library: Library, limits: Limits, names: Iterable[str] = ()) -> None:
        self.library, self.limits = library, limits
        self.drawing = Workers(limits.workers, limits.waiting, "drawing")
        self.asking = Workers(1, limits.waiting, "question")
        self.app = Starlette(routes=self._routes(), middleware=[Middleware(Guard, names=tuple(names))])

    def close(self) -> None:
        """Let the threads end."""
        self.drawing.close()
        self.asking.close()

    def _routes(self) -> list[Route]:
        library, limits = self.library, self.limits

        def ask(path: str, kind: type[Asked], answer: Callable[[Asked], dict[str, Any]]) -> Route:
            async def endpoint(request: Request) -> Response:
                asked = parse(await self._body(request), kind)
                return JSONResponse(await self.asking.ask(lambda: answer(asked)))

            return Route(f"/api/{path}", _answered(endpoint), methods=["POST"])

        return [
            *(Route(path, _file(content, kind)) for path, content, kind in static_files()),
            Route("/api/models", _answered(self._models)),
            Route("/api/draw", _answered(self._draw), methods=["POST"]),
            ask("describe", Which, lambda asked: describe(library[asked.model], asked.process, limits)),
            ask("look", Look, lambda asked: look(asked, library[asked.model], limits)),
            ask("encode", Encode, lambda asked: encode(asked, library[asked.model], limits)),
            ask("table", Table, three_posteriors),
            *(ask(*question) for view in VIEWS.values() for question in view.questions),
        ]

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"version": __version__, "models": self.library.names})

    async def _draw(self, request: Request) -> Response:
        asked = parse(await self._body(request), Draw)
        entry = self.library[asked.model]
        job = self.drawing.start(lambda job: draw(asked, entry, self.limits, job))

        async def lines() -> AsyncIterator[str]:
            async for part in job.read(request.is_disconnected):
                yield "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in part)

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _body(self, request: Request) -> bytes:
        """Read the whole request; refuse it as soon as it is too large or too slow."""
        body, limit = bytearray(), self.limits.body
        try:
            with anyio.fail_after(UPLOAD):
                async for part in request.stream():
                    body += part
                    if len(body) > limit:
                        sentence = f"a request may have {limit:,} bytes here, and this one has more; send less"
                        raise HTTPException(413, sentence, {"connection": "close"})
        except TimeoutError:
            raise ValueError(f"the request did not arrive within {UPLOAD} seconds; send it again") from None
        return bytes(body)


def static_files() -> list[tuple[str, bytes, str]]:
    """Return path, content and type of each file of the page; no other file is ever read."""
    found = []
    for file in sorted((files("tokenloom.web") / "static").iterdir(), key=lambda file: file.name):
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/static/{file.name}"
            found.append((path, file.read_bytes(), kind))
    return found


def _file(content: bytes, kind: str) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8")

    return endpoint


def _answered(endpoint: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Wrap an endpoint so that its errors are answered with sentences."""

    async def answer(request: Request) -> Response:
        try:
            found: Response = await endpoint(request)
            return found
        except HTTPException as error:
            return JSONResponse({"sentence": error.detail}, error.status_code, error.headers)
        except ValueError as error:
            return JSONResponse({"sentence": str(error)}, 400)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception:  # caught here, inside the Guard, so that this answer has its headers too
            traceback.print_exc()
            return JSONResponse({"sentence": CRASHED}, 500)

    return answer
