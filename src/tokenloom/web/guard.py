"""The guard of every request: whose page it comes from, and what the answer forbids the browser to do.

A page of somebody else could let a name of its own point to this machine (DNS rebinding) or post forms here.  So the
Host must be an address, localhost or a name that the server was started with; what posts must come from this very page.
The answers forbid everything that is not a file of this server: no script, font, picture or connection from elsewhere.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Refuses requests from other pages and adds `HEADERS` to answers; `names` are this machine's beside localhost."""

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self.app, self.names = app, {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self.refusal(scope["method"], Headers(scope=scope))
        answer = self.app if refusal is None else JSONResponse({"sentence": refusal}, 403)
        return await answer(scope, receive, with_headers)

    def refusal(self, method: str, headers: Headers) -> str | None:
        """Return why a request is refused, or None if it is answered."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_here(host):
            return f"this server does not answer to the name {host[:80]!r}; start it with --names to allow it"
        if method != "POST":
            return None
        if origin is not None and origin.partition("://")[2] != host:
            return f"a page of {origin[:80]!r} may not use this server"
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return "a request must be of the type application/json"
        return None

    def _is_here(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
            if name not in self.names:
                ipaddress.ip_address(name)  # raises for what is not an address
        except ValueError:
            return False
        return True
