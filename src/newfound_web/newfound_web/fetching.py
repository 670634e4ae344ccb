# SPDX-License-Identifier: Apache-2.0
"""The HTTP client: bounded in bytes, time and trust, polite, and stubborn within reason."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpcore2
import httpx2

from newfound_web.addresses import PublicNetwork
from newfound_web.errors import PassingError, ProviderError, RateLimitError, RefusedError
from newfound_web.rate_limits import RateLimits
from newfound_web.retrying import PASSING_STATUS, RetryPolicy, retry_after
from newfound_web.text import one_line

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS = 4
MAX_JSON_BYTES = 4_000_000
# Whatever the network or a broken server does to a request.
NETWORK_ERRORS = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    OSError,
    TimeoutError,
)


@dataclass(frozen=True)
class FetchSettings:
    """How the client behaves towards servers."""

    user_agent: str = "newfound/0.1"
    request_seconds: float = 10.0  # for one attempt, from the look-up to the last byte
    max_image_bytes: int = 8_000_000
    image_requests_per_minute: float = 240.0  # to one host
    connections: int = 8
    private_hosts: tuple[str, ...] = ()  # "host" or "host:port" that need not be public
    retry: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True)
class Request:
    """One request, before any redirect."""

    url: str
    headers: Mapping[str, str]
    max_bytes: int
    method: str = "GET"
    body: bytes | None = None
    redirects: int = 0  # how many are followed


class StatusError(ProviderError):
    """The server answered with an error of its own."""

    def __init__(self, status: int, where: str, body: bytes) -> None:
        super().__init__(f"{where} answered with status {status}")
        self.status = status
        self.body = body  # its beginning: services explain themselves there


class Fetcher:
    """Gets JSON from services and images from anywhere. Make it and use it in one event loop."""

    def __init__(self, settings: FetchSettings, limits: RateLimits | None = None) -> None:
        self._settings = settings
        self._limits = limits or RateLimits(settings.retry.longest_wait)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(),
            max_connections=settings.connections,
            keepalive_expiry=5.0,
            network_backend=PublicNetwork(settings.private_hosts),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def json(
        self,
        url: str,
        *,
        service: str,
        per_minute: float,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Any:
        """Ask a service. A redirect is refused: with it, the key in a header would travel."""
        request = Request(
            url,
            {"Accept": "application/json", **(headers or {})},
            MAX_JSON_BYTES,
            method="GET" if body is None else "POST",
            body=body,
        )
        text = await self._stubbornly(request, service, per_minute)
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ProviderError(f"{where(url)} did not answer with JSON") from None

    async def image(self, url: str) -> bytes:
        """Get the bytes of what a link claims to be an image; nothing of that is believed here."""
        request = Request(
            url,
            {"Accept": "image/jpeg, image/png, image/webp"},
            self._settings.max_image_bytes,
            redirects=MAX_REDIRECTS,
        )
        service = f"the host {safe_url(url).host}"
        return await self._stubbornly(request, service, self._settings.image_requests_per_minute)

    async def _stubbornly(self, request: Request, service: str, per_minute: float) -> bytes:
        """Ask again after a failure that may pass; give up if the server wants too long a wait."""
        waits = self._settings.retry.waits()
        while True:
            await self._limits.turn(service, per_minute)
            try:
                return await self._in_time(self._attempt(request), where(request.url))
            except PassingError as error:
                if error.retry_after > 0:
                    self._limits.pause(service, error.retry_after)
                if error.retry_after > self._settings.retry.longest_wait:
                    raise RateLimitError(f"{error}; wait {error.retry_after:.0f} s") from None
                wait = next(waits, None)
                if wait is None:
                    raise
                await asyncio.sleep(wait)

    async def _in_time(self, attempt: Awaitable[bytes], place: str) -> bytes:
        try:
            async with asyncio.timeout(self._settings.request_seconds):
                return await attempt
        except NETWORK_ERRORS as error:
            reason = one_line(str(error)) or type(error).__name__
            raise PassingError(f"no whole answer from {place}: {reason}") from None

    async def _attempt(self, request: Request) -> bytes:
        url = safe_url(request.url)
        for _ in range(request.redirects + 1):
            async with self._response(request, url) as response:
                if response.status not in REDIRECTS:
                    return await self._body(response, request, url)
                target = _header(response, b"location")
            url = safe_url(target, base=url)
        raise RefusedError(
            f"{where(request.url)} redirects, {request.redirects} times are allowed"
        )

    @asynccontextmanager
    async def _response(
        self, request: Request, url: httpx2.URL
    ) -> AsyncIterator[httpcore2.Response]:
        # Compressed answers are not asked for and not taken: they can grow without bound.
        headers = {
            "User-Agent": self._settings.user_agent,
            "Accept-Encoding": "identity",
            **request.headers,
        }
        address = httpcore2.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )
        async with self._pool.stream(
            request.method, address, headers=list(headers.items()), content=request.body
        ) as response:
            yield response

    async def _body(
        self, response: httpcore2.Response, request: Request, url: httpx2.URL
    ) -> bytes:
        place = where(str(url))
        if response.status in PASSING_STATUS:
            raise PassingError(
                f"{place} answered with status {response.status}",
                retry_after(_header(response, b"retry-after")),
            )
        if response.status != 200:
            raise StatusError(response.status, place, await _read(response, 2_000, lambda: None))
        if _header(response, b"content-encoding").lower() not in ("", "identity"):
            raise RefusedError(f"{place} sends compressed content, which was not asked for")

        def too_large() -> None:
            raise RefusedError(f"{place} sends more than {request.max_bytes} bytes")

        claimed = _header(response, b"content-length")
        if claimed.isdecimal() and int(claimed[:20]) > request.max_bytes:
            too_large()
        return await _read(response, request.max_bytes, too_large)


def safe_url(text: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """An http or https address without user and password, or RefusedError."""
    try:
        url = httpx2.URL(text) if base is None else base.join(text)
    except (httpx2.InvalidURL, TypeError, ValueError):
        raise RefusedError(f"'{one_line(text, 80)}' is no address") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise RefusedError(f"'{one_line(text, 80)}' is not an http or https address")
    if url.port is not None and not 0 < url.port < 65_536:
        raise RefusedError(f"the address at {url.host} has no port {url.port}")
    if url.userinfo:
        raise RefusedError(f"the address at {url.host} carries a user name")
    return url


def where(url: str) -> str:
    """What a message may say of an address: the host and nothing that could be secret."""
    try:
        return httpx2.URL(url).host or "a server"
    except (httpx2.InvalidURL, TypeError, ValueError):
        return "a server"


async def _read(response: httpcore2.Response, limit: int, beyond: Callable[[], None]) -> bytes:
    """The body; calls `beyond`, and stops, as soon as it is larger than the limit."""
    received = bytearray()
    async for chunk in response.aiter_stream():
        received += chunk
        if len(received) > limit:
            beyond()
            break
    return bytes(received[:limit])


def _header(response: httpcore2.Response, name: bytes) -> str:
    """A header of the answer, empty if it is not there."""
    found = (value for key, value in response.headers if key.lower() == name)
    return next(found, b"").decode("latin-1").strip()
