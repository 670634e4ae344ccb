# SPDX-License-Identifier: Apache-2.0
"""The web server: assets, pictures, actions and the WebSocket, behind the guard."""

import asyncio
import hashlib
import json
import logging
import mimetypes
import socket
import threading
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from newfound_console.bridge import CallError
from newfound_console.hub import Hub
from newfound_console.pictures import Pictures
from newfound_console.requests import Action, BadRequestError
from newfound_console.security import COOKIE, Access, Guard, RefusedError

_log = logging.getLogger(__name__)
_MONTH = 30 * 86400  # s that a browser stays logged in
MAX_CONNECTIONS = 600
HEADER_TIMEOUT = 10.0  # s in which a request must begin
TAKE_TIMEOUT = 30.0  # s in which a browser must take some of an answer
MAX_MESSAGE = 8 * 1024  # bytes of a browser's WebSocket message


def read_assets() -> dict[str, tuple[bytes, str, str]]:
    """Every file of the page by its address, with media type and tag; nothing else is served."""
    root = files("newfound_console") / "static"
    found: dict[str, tuple[bytes, str, str]] = {}
    for folder, prefix in ((root, ""), (root / "pages", "pages/")):
        for file in folder.iterdir():
            if file.is_file():
                content = file.read_bytes()
                kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
                kind = "text/javascript" if file.name.endswith(".js") else kind
                tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
                found[f"/static/{prefix}{file.name}"] = (content, kind, tag)
    found["/"] = found["/static/index.html"]
    return found


def make_app(
    access: Access, hub: Hub, pictures: Pictures, actions: Mapping[str, Action]
) -> ASGIApp:
    """The application; `actions` are what a page may ask for, by name."""
    serve = Routes(access, pictures, actions)
    app = Starlette(
        routes=[
            Route("/pictures/{name}", serve.picture),
            Route("/api/session", serve.session),
            Route("/api/login", serve.login, methods=["POST"]),
            Route("/api/{name}", serve.act, methods=["POST"]),
            WebSocketRoute("/live", hub.serve),
            Route("/{path:path}", serve.asset),
        ],
        exception_handlers={
            BadRequestError: _answering(400),
            CallError: _answering(409),
            RefusedError: lambda _, error: _error(str(error), error.status),
            Exception: _defect,
        },
    )
    return Guard(app, access)


class Routes:
    """What is answered to which request."""

    def __init__(self, access: Access, pictures: Pictures, actions: Mapping[str, Action]) -> None:
        self._access, self._pictures, self._actions = access, pictures, actions
        self._assets = read_assets()

    async def asset(self, request: Request) -> Response:
        """A file of the page."""
        content, kind, tag = self._assets.get(request.url.path, (b"", "", ""))
        if not kind:
            return _error("there is no such page", 404)
        # Asked for each time, but sent only when it has changed: a new version is seen at once.
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    async def picture(self, request: Request) -> Response:
        """A picture that a page refers to."""
        found = self._pictures.get(request.path_params["name"])
        if found is None:
            return _error("that picture is gone", 404)
        keep = {"cache-control": "private, max-age=86400, immutable"}
        return Response(found[0], media_type=found[1], headers=keep)

    async def session(self, request: Request) -> Response:
        """Whether the browser is logged in."""
        headers = {k.lower(): v for k, v in request.headers.items()}
        return JSONResponse({"open": self._access.logged_in(headers)})

    async def login(self, request: Request) -> Response:
        """Give a browser with the token a cookie."""
        if not self._access.is_token((await _body(request)).get("token")):
            return _error("that is not the token", 401)
        answer = JSONResponse({"open": True})
        secure = request.headers.get("origin", "").startswith("https:")
        cookie = self._access.cookie()
        answer.set_cookie(COOKIE, cookie, _MONTH, httponly=True, samesite="strict", secure=secure)
        return answer

    async def act(self, request: Request) -> Response:
        """Do what a page asks for."""
        action = self._actions.get(request.path_params["name"])
        if action is None:
            return _error("there is no such action", 404)
        return JSONResponse(await action(await _body(request)))


def _error(reason: str, status: int) -> Response:
    return JSONResponse({"error": reason}, status)


def _answering(status: int) -> Callable[[Request, Exception], Response]:
    return lambda request, error: _error(str(error), status)


def _defect(request: Request, error: Exception) -> Response:
    _log.error("%s failed", request.url.path, exc_info=error)
    return _error("this did not work; the log says more", 500)


async def _body(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise BadRequestError("the request is not JSON") from None
    if not isinstance(found, dict):
        raise BadRequestError("the request is not an object")
    return found


class ImpatientProtocol(H11Protocol):
    """HTTP with limits to how long a request may take to begin, and an answer to be taken.

    uvicorn waits for ever, and clients that it waits for would use up all connections.
    """

    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to count."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Count until the header of a request is there, whatever comes before."""
        super().data_received(data)
        if self._at_work():
            self._stop()
        elif self._deadline is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count no more."""
        self._stop()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes nothing: cut it off unless it does soon."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(TAKE_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        """It has taken something."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
        self._stalled = None

    def timeout_keep_alive_handler(self) -> None:
        """Nothing more was asked for: close, without waiting for an answer to be taken."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(HEADER_TIMEOUT, self._give_up)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None

    def _at_work(self) -> bool:
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering or self.transport.get_protocol() is not self  # it is a WebSocket now

    def _give_up(self) -> None:
        self._deadline = None
        if not self._at_work():
            self.transport.abort()


class WebServer:
    """uvicorn in a thread of its own, with an event loop of its own."""

    def __init__(self, host: str, port: int) -> None:
        """Bind, so that a port in use is noticed here; raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=256)
        self.port = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def run(self, app: ASGIApp, loop: Any) -> None:
        """Serve in a thread."""
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            ws="websockets-sansio",
            ws_max_size=MAX_MESSAGE,
            ws_ping_interval=20.0,
            ws_ping_timeout=20.0,
            ws_per_message_deflate=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=16 * 1024,
            http=ImpatientProtocol,
            proxy_headers=False,
        )
        self._server = uvicorn.Server(config)
        serve = self._server.serve

        def work() -> None:
            loop.run_until_complete(serve(sockets=[self._socket]))

        self._thread = threading.Thread(target=work, name="console-server", daemon=True)
        self._thread.start()

    def close(self) -> bool:
        """Stop; whether the thread has ended."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(10.0)
        self._socket.close()
        return self._thread is None or not self._thread.is_alive()
