"""The routes of the playground: a page, the few questions it asks, and the stream of a sampling."""

import json
import mimetypes
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from importlib.resources import files
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tokenloom import __version__
from tokenloom.web.describe import describe
from tokenloom.web.guard import Guard
from tokenloom.web.library import Library
from tokenloom.web.looking import look
from tokenloom.web.oracle_page import three_posteriors
from tokenloom.web.requests import Draw, Encode, Limits, Look, Table, Which, parse
from tokenloom.web.running import draw
from tokenloom.web.views import VIEWS
from tokenloom.web.workers import Job, Workers

UPLOAD = 30
"""Seconds in which a request must have arrived."""
CRASHED = "something went wrong inside the playground, and only this request is affected; the terminal says more"

mimetypes.add_type("text/javascript", ".js")  # the registry of Windows may say text/plain, which browsers do not run


class Playground:
    """The models, their workers and the app around them; `names` are those that pages may call this machine by."""

    def __init__(self, library: Library, limits: Limits, names: Iterable[str] = ()) -> None:
        self.library, self.limits = library, limits
        self.drawing = Workers(limits.workers, limits.waiting, "drawing")
        self.asking = Workers(1, limits.waiting, "question")
        handlers: Any = dict.fromkeys((HTTPException, ValueError, ClientDisconnect, Exception), _sentence)
        # The guard is outermost, so that the answer to a crash has its headers too.
        self.app = Guard(Starlette(routes=self._routes(), exception_handlers=handlers), names)

    def close(self) -> None:
        """Stop all work and let the threads end."""
        self.drawing.close()
        self.asking.close()

    def _routes(self) -> list[Route | Mount]:
        library, limits = self.library, self.limits
        page = (files("tokenloom.web") / "static" / "index.html").read_bytes()
        questions: list[tuple[str, type, Callable[[Any], dict[str, Any]]]] = [
            ("describe", Which, lambda asked: describe(library[asked.model], asked.process, limits)),
            ("look", Look, lambda asked: look(asked, library[asked.model], limits)),
            ("encode", Encode, lambda asked: library[asked.model].encode(asked, limits)),
            ("table", Table, three_posteriors),
            *(question for view in VIEWS.values() for question in view.questions),
        ]
        return [
            Route("/", lambda request: HTMLResponse(page)),
            Mount("/static", StaticFiles(packages=[("tokenloom.web", "static")])),
            Route("/api/models", lambda request: JSONResponse({"version": __version__, "models": list(library)})),
            Route("/api/draw", self._draw, methods=["POST"]),
            *(self._question(*question) for question in questions),
        ]

    def _question(self, path: str, kind: type[Any], answer: Callable[[Any], dict[str, Any]]) -> Route:
        async def endpoint(request: Request) -> Response:
            asked = parse(await self._body(request), kind)
            return JSONResponse(await self.asking.ask(lambda: answer(asked), request.is_disconnected))

        return Route(f"/api/{path}", endpoint, methods=["POST"])

    async def _draw(self, request: Request) -> Response:
        asked = parse(await self._body(request), Draw)
        entry = self.library[asked.model]

        def work(job: Job) -> None:
            try:
                draw(asked, entry, self.limits, job)
            except ValueError as error:
                job.write({"kind": "error", "sentence": str(error)})
            except Exception:
                traceback.print_exc()
                job.write({"kind": "error", "sentence": CRASHED})

        job = self.drawing.start(work)

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


def _sentence(request: Request, error: Exception) -> Response:
    """Answer an error; Starlette passes an unexpected one on to the server's log, with its traceback."""
    if isinstance(error, HTTPException):
        return JSONResponse({"sentence": error.detail}, error.status_code, error.headers)
    sentence, status = (str(error), 400) if isinstance(error, ValueError) else (CRASHED, 500)
    return JSONResponse({"sentence": sentence}, status)
