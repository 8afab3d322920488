"""Who is let in: pages of this server alone, with its token, and what browsers may do with them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Nothing from elsewhere, no script and no style but the files of this server, no form, no frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
WRITE_HEADER = "X-Smithers-Token"
LARGEST_BODY = 64 * 1024
_NOT_LET_IN = "Open the address that `smithers ui` has printed: it has the token in it.\n"


class Guard:
    """Lets requests through to the pages.

    * The Host is one of ours: a name of somebody else that leads here (DNS rebinding) is not.
    * What a page of another origin asks for is refused, whatever cookies come with it.
    * Who comes with the token in the address gets a cookie that only this server ever sees, and
      is sent on to the address without it; all else needs that cookie.
    * A POST carries JSON and, in a header, a second token, which only a page of ours can read.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Iterable[str], token: str, write_token: str, cookie: str
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._token = token
        self._write_token = write_token
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._refusal(scope) or self._welcome(scope)
            await (answer or self._app)(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return _refused(421, "This is not a host that is served here.\n")
        origins = headers.getlist("origin")
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            return _refused(403, "Pages of other origins are not let in.\n")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refused(405, "There is only GET and POST here.\n")
        if _given_token(scope) is not None:
            return None  # let in or not by the token alone, wherever the link to it stands
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _refused(403, "Pages of other origins are not let in.\n")
        if not _same(_cookie_of(headers, self._cookie), self._token):
            return _refused(401, _NOT_LET_IN)
        return self._refused_write(headers) if scope["method"] == "POST" else None

    def _refused_write(self, headers: Headers) -> Response | None:
        # A form of another page can send neither this type nor this header.
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _refused(415, "What is sent has to be application/json.\n")
        if not _same(headers.get(WRITE_HEADER), self._write_token):
            return _refused(403, f"The header {WRITE_HEADER} is missing or wrong.\n")
        length = headers.get("content-length", "")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return _refused(413, "That is too much.\n")
        return None

    def _welcome(self, scope: Scope) -> Response | None:
        given = _given_token(scope)
        if given is None:
            return None
        if not _same(given, self._token):
            return _refused(401, f"The token is of another run of it. {_NOT_LET_IN}")
        # A redirection of a request that began on another site would go without the new cookie.
        begun_elsewhere = Headers(scope=scope).get("sec-fetch-site", "none") == "cross-site"
        answer = (
            PlainTextResponse("", headers={"Refresh": "0; url=/"})
            if begun_elsewhere
            else Response(status_code=303, headers={"Location": "/"})
        )
        answer.set_cookie(self._cookie, self._token, path="/", httponly=True, samesite="strict")
        return answer


def new_token() -> str:
    """Make a token that nobody can guess."""
    return secrets.token_urlsafe(32)


def _given_token(scope: Scope) -> str | None:
    if scope["path"] != "/" or scope["method"] != "GET":
        return None
    given = parse_qs(str(scope["query_string"], "latin-1")).get("token")
    return given[0] if given else None


def _cookie_of(headers: Headers, name: str) -> str | None:
    jar = SimpleCookie()
    try:
        for text in headers.getlist("cookie"):
            jar.load(text)
    except CookieError:
        return None
    return jar[name].value if name in jar else None


def _same(given: str | None, wanted: str) -> bool:
    return given is not None and secrets.compare_digest(given.encode(), wanted.encode())


def _refused(status: int, text: str) -> Response:
    return PlainTextResponse(text, status)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return sending
