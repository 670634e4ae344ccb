# SPDX-License-Identifier: Apache-2.0
"""Who may talk to the server: checks of Host, Origin and token before anything else is done.

- Host: a page of another site whose name was made to lead here (DNS rebinding) has that name in
  its requests, and is refused.
- Origin: a browser says which page a request comes from. What changes anything, and the WebSocket,
  must come from our own; a form or an image of another site cannot send the header that is needed.
- Token: needed as soon as the server can be reached from another machine.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "newfound_console"
HEADER = "x-newfound"  # a page of another site cannot send it without being asked first
MAX_BODY = 64 * 1024  # bytes of a request; the page sends names and numbers, no images
BODY_TIMEOUT = 10.0  # s that a request may take
SLOWEST = 2**20  # and bytes per second of the largest one it may be
MAX_PACKAGE = 48 * 2**20  # but for a package of knowledge, as text
LARGE = "/api/import"  # where that is sent
PUBLIC = ("/", "/static/", "/api/login", "/api/session")  # without a token; nothing secret there
RESPONSE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_HOST = re.compile(
    r"(?P<name>\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::(?P<port>\d{1,5}))?"
)
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class RefusedError(Exception):
    """A request that is not let in: the HTTP status, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> tuple[str, bool]:
    """The token in a file that only its owner can read, and whether it was made just now."""
    try:
        found = path.read_text().strip()
        if len(found) >= 32 and not path.stat().st_mode & 0o077:
            return found, False
    except OSError:
        pass
    token = secrets.token_urlsafe(32)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    aside.unlink(missing_ok=True)
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
    aside.replace(path)
    return token, True


@dataclass(frozen=True)
class Access:
    """What a request must have."""

    names: frozenset[str]  # that a Host header may have, in lower case
    any_address: bool = False  # numeric addresses, too: no other site's name can be one
    token: str = ""  # empty: none is needed
    _session: str = field(init=False, default="")

    def __post_init__(self) -> None:
        # The cookie is not the token: who steals one cannot log in elsewhere.
        session = hmac.new(self.token.encode(), b"newfound console", hashlib.sha256).hexdigest()
        object.__setattr__(self, "_session", session if self.token else "")

    @classmethod
    def of(cls, host: str, token: str, allowed: Iterable[str] = ()) -> "Access":
        """The rules of a server that listens on a host."""
        own = {*_LOOPBACK, *(name.lower() for name in allowed if name)}
        if is_loopback(host):
            return cls(frozenset(own), token=token)
        machine = socket.gethostname().lower()
        own |= {host.lower(), machine, f"{machine}.local"}
        return cls(frozenset(own), any_address=True, token=token)

    def cookie(self) -> str:
        """The value of the cookie of a browser that has shown the token."""
        return self._session

    def is_token(self, given: Any) -> bool:
        """Whether this is the token."""
        if not isinstance(given, str):
            return False
        return hmac.compare_digest(given.encode(errors="replace"), self.token.encode())

    def logged_in(self, headers: Mapping[str, str]) -> bool:
        """Whether a request may see what is behind the token."""
        if not self.token:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        value = cookie.value if cookie else ""
        return hmac.compare_digest(value.encode(), self._session.encode())

    def check(self, scope: Scope) -> None:
        """Raise a RefusedError unless the request may pass."""
        headers = _headers(scope)
        host = self._check_host(headers.get("host", ""))
        live = scope["type"] == "websocket"
        method = "GET" if live else scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            raise RefusedError(405, f"{method[:20]} is not used here")
        self._check_origin(headers, host, required=live or method == "POST")
        if scope["path"] != "/" and headers.get("sec-fetch-site", "none") not in (
            "same-origin",
            "none",
        ):
            raise RefusedError(403, "the request comes from a page of another site")
        if method == "POST":
            _check_post(headers, max_body(scope))
        public = any(
            scope["path"] == path or (len(path) > 1 and scope["path"].startswith(path))
            for path in PUBLIC
        )
        if (live or not public) and not self.logged_in(headers):
            raise RefusedError(401, "the token is missing or wrong")

    def _check_host(self, host: str) -> str:
        found = _HOST.fullmatch(host)
        name = found["name"].lower().rstrip(".") if found else ""
        if name in self.names or (self.any_address and _is_address(name)):
            return host.lower()
        raise RefusedError(421, "this server is not known by that name (allowed_hosts)")

    def _check_origin(self, headers: Mapping[str, str], host: str, *, required: bool) -> None:
        origin = headers.get("origin")
        if origin is None and not required:
            return
        if (origin or "").lower() not in (f"http://{host}", f"https://{host}"):
            raise RefusedError(403, "the request does not come from this server's own page")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _check_post(headers: Mapping[str, str], most: int) -> None:
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "only application/json is taken")
    if headers.get(HEADER) != "1":
        raise RefusedError(403, f"the header {HEADER} is missing")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:12]) > most:
        raise RefusedError(413, f"a request has at most {most} bytes")


def max_body(scope: Scope) -> int:
    """Bytes that a request may have."""
    return MAX_PACKAGE if scope["path"] == LARGE else MAX_BODY


def _headers(scope: Scope) -> dict[str, str]:
    """Header fields by name in lower case; raises a RefusedError where one decides twice."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in found and key in ("host", "origin", "content-length", "content-type", HEADER):
            raise RefusedError(400, f"the header {key} is there twice")
        text = value.decode("latin-1")
        found[key] = f"{found[key]}; {text}" if key == "cookie" and key in found else text
    return found


class Guard:
    """Lets pass what `Access` allows, and adds the headers that protect the page."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            self._access.check(scope)
        except RefusedError as error:
            await refuse(scope, receive, send, error)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._app(scope, limited(receive, max_body(scope)), _with_headers(send))


def limited(receive: Receive, most: int) -> Receive:
    """Give up on a body that is longer than it may be, whatever its headers say, or too slow."""
    total, whole = 0, False
    end = time.monotonic() + BODY_TIMEOUT + most / SLOWEST

    async def counting() -> Message:
        nonlocal total, whole
        if whole:  # what comes now is that the browser is gone
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), end - time.monotonic())
        except TimeoutError:
            raise RefusedError(408, "the request took too long") from None
        total += len(message.get("body", b""))
        if total > most:
            raise RefusedError(413, "the request is too large")
        whole = not message.get("more_body", False)
        return message

    return counting


def _with_headers(send: Send) -> Send:
    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {name for name, _ in message["headers"]}
            extra = {"cache-control": "no-store", **RESPONSE_HEADERS}
            message["headers"] = [
                *message["headers"],
                *((k.encode(), v.encode()) for k, v in extra.items() if k.encode() not in there),
            ]
        await send(message)

    return protected


async def refuse(scope: Scope, receive: Receive, send: Send, error: RefusedError) -> None:
    """Answer with the reason, and nothing else."""
    if scope["type"] == "websocket":
        await receive()  # the request to connect
        await send({"type": "websocket.close", "code": 1008, "reason": str(error)})
        return
    body = str(error).encode()
    start: Message = {
        "type": "http.response.start",
        "status": error.status,
        "headers": [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),  # what follows of its body is not read
        ],
    }
    await _with_headers(send)(start)
    await send({"type": "http.response.body", "body": body})
