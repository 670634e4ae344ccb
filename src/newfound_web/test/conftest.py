# SPDX-License-Identifier: Apache-2.0
"""A web of our own: a real server that speaks the services' formats, and misbehaves on demand."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image

from newfound_runtime.testing import ros as ros  # a fixture
from newfound_web.async_services import LoopThread
from newfound_web.cache import DiskCache
from newfound_web.fetching import Fetcher, FetchSettings, RetryPolicy
from newfound_web.pictures import PictureLimits, open_picture


@dataclass
class Asked:
    """A request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


Handler = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class LocalWeb:
    """An HTTP server on a free port of 127.0.0.1; a path's handler writes raw bytes."""

    handlers: dict[str, Handler] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "") -> str:
        return f"http://{self.host}{path}"

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def serve(self, path: str, body: bytes, status: int = 200, **headers: str) -> str:
        """Answer this path with this body."""

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(head(status, **{"Content_Length": str(len(body)), **headers}) + body)

        return self.handle(path, answer)

    def serve_json(self, path: str, value: object, status: int = 200, **headers: str) -> str:
        return self.serve(
            path, json.dumps(value).encode(), status, Content_Type="application/json", **headers
        )

    def serve_in_turn(self, path: str, *answers: tuple[bytes, int, dict[str, str]]) -> str:
        """Answer the first request with the first answer, and so on; the last one stays."""
        left = list(answers)

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            body, status, headers = left.pop(0) if len(left) > 1 else left[0]
            writer.write(head(status, Content_Length=str(len(body)), **headers) + body)

        return self.handle(path, answer)

    def handle(self, path: str, handler: Handler) -> str:
        self.handlers[path] = handler
        return self.url(path)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            first, *lines = request.decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ")
            headers = dict(line.lower().split(": ", 1) for line in lines if line)
            raw = dict(line.split(": ", 1) for line in lines if line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            url = urlsplit(target)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            asked = Asked(method, url.path, query, {k.lower(): v for k, v in raw.items()}, body)
            self.asked.append(asked)
            handler = self.handlers.get(url.path)
            if handler is None:
                writer.write(head(404, Content_Length="0"))
            else:
                await handler(asked, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client, or the test, has had enough
        finally:
            writer.close()


def head(status: int, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def photo_of(seed: int, size: tuple[int, int] = (96, 80), kind: str = "JPEG", **options) -> bytes:
    """An image file whose content depends on the seed: smooth blobs of colour."""
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (6, 6, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(small).resize(size, Image.Resampling.BICUBIC).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture
def photo():
    """A function that makes image files."""
    return photo_of


@pytest.fixture
def response_head():
    """A function that makes the head of an HTTP response."""
    return head


@pytest.fixture
def local_web():
    """A server in a thread of its own."""
    web, loop = LocalWeb(), LoopThread("local-web")
    server = loop.submit(asyncio.start_server(web._connected, "127.0.0.1", 0)).result()
    web.port = server.sockets[0].getsockname()[1]
    yield web

    async def close() -> None:
        server.close()

    assert loop.stop(close(), timeout=60.0)


@pytest.fixture
def fetch_settings(local_web):
    """A function that makes settings with which the local server, and it alone, can be reached."""

    def make(**changes) -> FetchSettings:
        quick = {"retry": RetryPolicy(2, first_wait=0.01), "image_requests_per_minute": 60_000.0}
        return FetchSettings(**{**quick, "private_hosts": (local_web.host,), **changes})

    return make


@pytest.fixture
def fetched(fetch_settings):
    """A function that runs `use(fetcher)` in a loop and returns its result."""

    def run(use: Callable[[Fetcher], Awaitable], **changes):
        async def main():
            fetcher = Fetcher(fetch_settings(**changes))
            try:
                return await use(fetcher)
            finally:
                await fetcher.close()

        return asyncio.run(main())

    return run


@pytest.fixture
def cache(tmp_path):
    """An empty cache."""
    return DiskCache(tmp_path / "cache", max_bytes=10_000_000, max_age=1000.0)


@pytest.fixture
def picture_of():
    """A function that makes pictures."""
    return lambda seed: open_picture(photo_of(seed), PictureLimits())


def colours(rgb: np.ndarray) -> np.ndarray:
    """Features that tests can afford: the mean colours of a 4 x 4 grid, around zero."""
    small = Image.fromarray(rgb).resize((4, 4), Image.Resampling.BOX)
    return np.asarray(small, np.float32).ravel() - 128.0


@pytest.fixture
def features():
    """Cheap features; see `colours`."""
    return colours
