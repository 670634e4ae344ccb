# SPDX-License-Identifier: Apache-2.0
"""Image provider Openverse: openly licensed images.

https://api.openverse.org/v1/: GET /v1/images/?q=…; anonymous users get at most 20 results a page.
With OPENVERSE_CLIENT_ID and OPENVERSE_CLIENT_SECRET in the environment a token is requested
first (POST /v1/auth_tokens/token/), which raises the limits.
"""

import functools
import math
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from newfound_web.cache import DiskCache
from newfound_web.errors import ProviderError
from newfound_web.fetching import Fetcher
from newfound_web.image_folder import Origin
from newfound_web.providers.base import Key, Offer, cached_query, documented_form
from newfound_web.text import one_line

URL = "https://api.openverse.org"
ID_VARIABLE, SECRET_VARIABLE = "OPENVERSE_CLIENT_ID", "OPENVERSE_CLIENT_SECRET"
PAGE = 20  # what an anonymous user gets at most
MAX_PAGES = 5


class Openverse:
    """Searches Openverse; the images are downloaded from their original hosts."""

    name = "openverse"

    def __init__(
        self,
        fetcher: Fetcher,
        cache: DiskCache,
        credentials: tuple[Key, Key] | None = None,
        *,
        url: str = URL,
        per_minute: float = 15,
        max_pixels: int = 40_000_000,
    ) -> None:
        self._fetcher = fetcher
        self._cache = cache
        self._credentials = credentials
        self._url = url.rstrip("/")
        self._per_minute = per_minute
        self._max_pixels = max_pixels
        self._token: Key | None = None
        self._token_until = 0.0

    async def offers(self, label: str, count: int) -> Sequence[Offer]:
        """Request pages until there are enough results or no more pages."""
        found: list[Offer] = []
        for page in range(1, min(MAX_PAGES, math.ceil(count / PAGE)) + 1):
            query = {"q": label, "page_size": PAGE, "page": page, "mature": "false"}
            query_url = f"{self._url}/v1/images/?{urlencode(query)}"
            ask = functools.partial(self._ask, query_url)
            try:
                offers, pages = await cached_query(
                    self._cache, self.name, query_url, ask, self._read
                )
            except ProviderError:
                if not found:
                    raise
                break  # use the pages before
            found += offers
            if page >= pages:
                break
        return found[:count]

    async def _ask(self, query_url: str) -> Any:
        headers = {}
        if self._credentials:
            headers["Authorization"] = f"Bearer {(await self._valid_token()).reveal()}"
        return await self._json(query_url, headers)

    async def _valid_token(self) -> Key:
        if self._token is None or time.monotonic() > self._token_until:
            assert self._credentials is not None, "a token needs credentials"
            identity, secret = self._credentials
            form = {
                "grant_type": "client_credentials",
                "client_id": identity.reveal(),
                "client_secret": secret.reveal(),
            }
            answer = await self._json(
                f"{self._url}/v1/auth_tokens/token/",
                {"Content-Type": "application/x-www-form-urlencoded"},
                urlencode(form).encode(),
            )
            with documented_form(self.name):
                self._token = Key("Openverse's token", answer["access_token"])
                self._token_until = time.monotonic() + float(answer["expires_in"]) - 60.0
        return self._token

    async def _json(self, url: str, headers: dict[str, str], body: bytes | None = None) -> Any:
        return await self._fetcher.json(
            url, service=self.name, per_minute=self._per_minute, headers=headers, body=body
        )

    def _read(self, answer: Any) -> tuple[list[Offer], int]:
        offers = [self._offer(result) for result in answer["results"]]
        return [offer for offer in offers if offer], int(answer["page_count"])

    def _offer(self, result: Any) -> Offer | None:
        # The original, or Openverse's thumbnail if the original exceeds max_pixels.
        pixels = (result.get("width") or 0) * (result.get("height") or 0)
        url = result.get("thumbnail" if pixels > self._max_pixels else "url")
        if not isinstance(url, str):
            return None
        origin = Origin(
            self.name,
            source=one_line(url, 2000),
            page=one_line(result.get("foreign_landing_url"), 2000),
            licence=licence(result.get("license"), result.get("license_version")),
            attribution=one_line(result.get("attribution") or result.get("creator"), 500),
        )
        return Offer(origin, functools.partial(self._fetcher.image, url))


def licence(code: object, version: object) -> str:
    """Format a licence: "CC BY-SA 4.0", "CC0 1.0", "PDM 1.0"."""
    code = one_line(code, 40).upper()
    if not code:
        return ""
    family = "" if code in ("CC0", "PDM") else "CC "
    return f"{family}{code} {one_line(version, 10)}".strip()
