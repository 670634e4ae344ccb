# SPDX-License-Identifier: Apache-2.0
"""HTTP client with limits on bytes, time, redirects and request rates, and with retries."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpcore2
import httpx2
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
    wait_random_exponential,
)
from tenacity.wait import wait_base

from newfound_web.addresses import PublicNetwork
from newfound_web.errors import ProviderError, RateLimitError, RefusedError, TransientError
from newfound_web.text import one_line

TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS = 4
MAX_JSON_BYTES = 4_000_000
BURST = 5  # requests that may follow each other at once after a pause
# Everything that the network or a broken server can do to a request.
NETWORK_ERRORS = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    OSError,
    TimeoutError,
)


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential back-off with jitter, so that robots do not retry in lockstep."""

    retries: int = 2
    first_wait: float = 0.5  # s
    longest_wait: float = 10.0  # s; a server that asks for more is given up

    def wait(self) -> wait_base:
        """Half of each doubling wait is fixed, half is random ("equal jitter")."""
        half, longest = self.first_wait / 2, self.longest_wait / 2
        return wait_exponential(half, longest) + wait_random_exponential(half, longest)


@dataclass(frozen=True)
class FetchSettings:
    """How the client behaves towards servers."""

    user_agent: str = "newfound/0.1"
    request_seconds: float = 10.0  # for one attempt, from name resolution to the last byte
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
    service: str  # whose rate limit counts
    per_minute: float
    method: str = "GET"
    body: bytes | None = None
    redirects: int = 0  # how many are followed


class StatusError(ProviderError):
    """The server answered with an HTTP error status that a retry would not change."""

    def __init__(self, status: int, where: str, body: bytes) -> None:
        super().__init__(f"{where} answered with status {status}")
        self.status = status
        self.body = body  # its first bytes, where services explain the error


class RateLimiter:
    """Spaces the requests to each service; a wait longer than `longest_wait` is an error.

    After a pause a few requests may start at once, as the pages of one search; then they are
    spaced evenly (generic cell rate algorithm).
    """

    def __init__(
        self,
        longest_wait: float,
        burst: int = BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._longest_wait = longest_wait
        self._burst = burst
        self._clock = clock
        self._due: dict[str, float] = {}  # service: when its next request would be on time
        self._paused: dict[str, float] = {}  # service: until when

    async def wait(self, service: str, per_minute: float) -> None:
        """Wait until a request to this service may start."""
        now, interval = self._clock(), 60.0 / per_minute
        due = max(now, self._due.get(service, now))
        start = max(now, due - (self._burst - 1) * interval, self._paused.get(service, now))
        if start - now > self._longest_wait:
            raise RateLimitError(f"{service} may be asked again only in {start - now:.0f} s")
        self._drop_expired(now)
        self._due[service] = max(due, start) + interval
        await asyncio.sleep(start - now)

    def pause(self, service: str, seconds: float) -> None:
        """Start no request to this service for a while, because it asked for that."""
        self._paused[service] = max(self._paused.get(service, 0.0), self._clock() + seconds)

    def _drop_expired(self, now: float) -> None:
        for times in (self._due, self._paused):
            if len(times) > 1000:  # any number of image hosts
                for service in [s for s, time_ in times.items() if time_ <= now]:
                    del times[service]


class Fetcher:
    """Downloads JSON from services and images from any host. Use it in one event loop only."""

    def __init__(self, settings: FetchSettings, limiter: RateLimiter | None = None) -> None:
        self._settings = settings
        self._limiter = limiter or RateLimiter(settings.retry.longest_wait)
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
        """Query a service. Redirects are refused: the key in a header would go along."""
        request = Request(
            url,
            {"Accept": "application/json", **(headers or {})},
            MAX_JSON_BYTES,
            service,
            per_minute,
            method="GET" if body is None else "POST",
            body=body,
        )
        text = await self._fetch(request)
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ProviderError(f"{host_of(url)} did not answer with JSON") from None

    async def image(self, url: str) -> bytes:
        """Download a file that claims to be an image; the content is not checked here."""
        request = Request(
            url,
            {"Accept": "image/jpeg, image/png, image/webp"},
            self._settings.max_image_bytes,
            service=f"the host {safe_url(url).host}",
            per_minute=self._settings.image_requests_per_minute,
            redirects=MAX_REDIRECTS,
        )
        return await self._fetch(request)

    async def _fetch(self, request: Request) -> bytes:
        """Send the request until it succeeds or fails for good."""
        policy = self._settings.retry
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(TransientError),
            stop=stop_after_attempt(1 + policy.retries),
            wait=policy.wait(),
            reraise=True,
        )
        return await retrying(self._attempt, request)

    async def _attempt(self, request: Request) -> bytes:
        """Send the request once, when the rate limit allows it."""
        await self._limiter.wait(request.service, request.per_minute)
        try:
            async with asyncio.timeout(self._settings.request_seconds):
                return await self._follow(request)
        except NETWORK_ERRORS as error:
            reason = one_line(str(error)) or type(error).__name__
            host = host_of(request.url)
            raise TransientError(f"no complete answer from {host}: {reason}") from None
        except TransientError as error:
            # Retry-After holds for every request to the service, not for this one alone.
            if error.retry_after > 0:
                self._limiter.pause(request.service, error.retry_after)
            if error.retry_after > self._settings.retry.longest_wait:
                raise RateLimitError(f"{error}; wait {error.retry_after:.0f} s") from None
            raise

    async def _follow(self, request: Request) -> bytes:
        url = safe_url(request.url)
        for _ in range(request.redirects + 1):
            async with self._response(request, url) as response:
                if response.status not in REDIRECTS:
                    return await self._body(response, request, url)
                target = _header(response, b"location")
            url = safe_url(target, base=url)
        raise RefusedError(
            f"{host_of(request.url)} redirects, {request.redirects} times are allowed"
        )

    @asynccontextmanager
    async def _response(
        self, request: Request, url: httpx2.URL
    ) -> AsyncIterator[httpcore2.Response]:
        # Compressed answers are neither requested nor accepted: they can grow without bound.
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
        host = host_of(str(url))
        if response.status in TRANSIENT_STATUS:
            raise TransientError(
                f"{host} answered with status {response.status}",
                retry_after(_header(response, b"retry-after")),
            )
        if response.status != 200:
            raise StatusError(response.status, host, await _read(response, 2_000, lambda: None))
        if _header(response, b"content-encoding").lower() not in ("", "identity"):
            raise RefusedError(f"{host} sends compressed content, which was not requested")

        def too_large() -> None:
            raise RefusedError(f"{host} sends more than {request.max_bytes} bytes")

        claimed = _header(response, b"content-length")
        if claimed.isdecimal() and int(claimed[:20]) > request.max_bytes:
            too_large()
        return await _read(response, request.max_bytes, too_large)


def safe_url(text: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """Parse an http or https address without user and password; else raise RefusedError."""
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


def host_of(url: str) -> str:
    """The host of an address, for messages: nothing else of it is free of secrets."""
    try:
        return httpx2.URL(url).host or "a server"
    except (httpx2.InvalidURL, TypeError, ValueError):
        return "a server"


def retry_after(header: str, now: datetime | None = None) -> float:
    """Parse a Retry-After header, a number or a date, to seconds; 0 if it is neither."""
    try:
        seconds = float(header)
    except ValueError:
        try:
            then = parsedate_to_datetime(header)
        except ValueError:
            return 0.0
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        seconds = (then - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


async def _read(response: httpcore2.Response, limit: int, beyond: Callable[[], None]) -> bytes:
    """Read the body; call `beyond`, and stop, as soon as it is larger than the limit."""
    received = bytearray()
    async for chunk in response.aiter_stream():
        received += chunk
        if len(received) > limit:
            beyond()
            break
    return bytes(received[:limit])


def _header(response: httpcore2.Response, name: bytes) -> str:
    """A response header, empty if it is not there."""
    found = (value for key, value in response.headers if key.lower() == name)
    return next(found, b"").decode("latin-1").strip()
