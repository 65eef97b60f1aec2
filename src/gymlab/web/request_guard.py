"""Checks every request before the pages see it: Host, Origin (CSRF), access token and size.

A page on the internet can make a visitor's browser talk to 127.0.0.1. The Host header stops names that were pointed
here (DNS rebinding), the Origin header stops foreign pages, and the token stops everybody else on the machine or in
the network. NiceGUI checks none of them.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES = 2**20  # of a request's body, or of one websocket message
_LONGEST_QUERY = 8192
LOCAL = ("127.0.0.1", "localhost", "[::1]")
ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared with, never bound to unasked
_HEADERS = {
    "content-security-policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self' data:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",  # an address may hold the token
    "cross-origin-resource-policy": "same-origin",
}


class _Refused(Exception):
    """Refuses a request: HTTP status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class RequestGuard:
    """ASGI middleware around the pages' app."""

    app: App
    host: str  # the --host option
    port: int
    token: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward allowed requests, answer the others with an error."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            if len(scope.get("query_string", b"")) > _LONGEST_QUERY:
                raise _Refused(414, f"more than {_LONGEST_QUERY} bytes of query")
            self._check_host(headers)
            self._check_origin(scope, headers)
            if scope["type"] == "http" and self._has_token_in_query(scope):
                await self._redirect_with_cookie(scope, send)
                return
            self._check_token(headers)
            if int(headers.get("content-length") or 0) > MOST_BYTES:
                raise _Refused(413, f"more than {MOST_BYTES} bytes")
        except ValueError:
            await _answer(scope, send, 400, "bad request")
        except _Refused as refused:
            await _answer(scope, send, refused.status, str(refused))
        else:
            await self._forward(scope, receive, send)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body") or b"")
            if seen > MOST_BYTES:  # without a length, or with a false one
                return {"type": "http.disconnect"}
            return message

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *added]}
            await send(message)

        await self.app(scope, counted if scope["type"] == "http" else receive, with_headers)

    def _check_host(self, headers: dict[str, str]) -> None:
        if self.host in ANYWHERE:
            return  # this machine's names are not known; a token is required then
        named = headers.get("host", "")
        names = {*LOCAL, self.host, f"[{self.host}]"} if self.host in LOCAL or self.host == "::1" else {self.host}
        allowed = {f"{name}:{self.port}" for name in names} | (names if self.port == 80 else set())
        if named.lower() not in allowed:
            raise _Refused(403, "unknown host")

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        origin = headers.get("origin")
        changes = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if origin is None and changes:
            raise _Refused(403, "no origin")
        if origin is not None and origin.lower() != f"http://{headers.get('host', '').lower()}":
            raise _Refused(403, "foreign origin")

    def _has_token_in_query(self, scope: Scope) -> bool:
        token = dict(_query(scope)).get("token")
        return self.token is not None and token is not None and _same(token, self.token)

    def _check_token(self, headers: dict[str, str]) -> None:
        if self.token is None:
            return
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError as error:
            raise _Refused(401, "unreadable cookie") from error
        known = cookies.get(self._cookie)
        if known is None or not _same(known.value, self.token):
            raise _Refused(401, "the address must hold the token that `gymlab web` printed: ?token=...")

    @property
    def _cookie(self) -> str:
        return f"gymlab_token_{self.port}"  # cookies are shared by all ports of a host: two servers need two names

    async def _redirect_with_cookie(self, scope: Scope, send: Send) -> None:
        """Move the token from the address into a cookie: in the address it would stay in history and screenshots."""
        rest = urlencode([pair for pair in _query(scope) if pair[0] != "token"])
        path = "/" + scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0].lstrip("/\\")
        headers = {
            "location": path + (f"?{rest}" if rest else ""),
            "set-cookie": f"{self._cookie}={self.token}; HttpOnly; SameSite=Lax; Path=/",
            "cache-control": "no-store",
        }
        await _answer(scope, send, 303, "", headers)


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def _same(one: str, two: str) -> bool:
    return hmac.compare_digest(one.encode(), two.encode())


async def _answer(scope: Scope, send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": text})
        return
    sent = {"content-type": "text/plain; charset=utf-8", **_HEADERS, **(headers or {})}
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": text.encode()})
