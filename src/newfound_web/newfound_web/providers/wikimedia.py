# SPDX-License-Identifier: Apache-2.0
"""Image provider Wikimedia Commons, through the MediaWiki API.

https://commons.wikimedia.org/w/api.php?action=help: a search in the namespace of files as
generator, `imageinfo` as property. Thumbnails of a standard width are requested: originals are
large, and other widths are refused (https://w.wiki/GHai). Wikimedia expects a contact in the user
agent: the node's parameter `contact`.
"""

import functools
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from newfound_web.cache import DiskCache
from newfound_web.errors import ProviderError
from newfound_web.fetching import Fetcher
from newfound_web.image_folder import Origin
from newfound_web.providers.base import Offer, cached_query
from newfound_web.text import one_line, without_markup

URL = "https://commons.wikimedia.org/w/api.php"
WIDTH = 960  # pixels; one of the standard widths
MAX_RESULTS = 50  # results, for users without special rights
FILES = 6  # the number of the namespace "File:"


class Wikimedia:
    """Searches Wikimedia Commons for photographs and drawings."""

    name = "wikimedia"

    def __init__(
        self, fetcher: Fetcher, cache: DiskCache, url: str = URL, per_minute: float = 60
    ) -> None:
        self._fetcher = fetcher
        self._cache = cache
        self._url = url
        self._per_minute = per_minute

    async def offers(self, label: str, count: int) -> Sequence[Offer]:
        """Search results, in the order of the service."""
        query = {
            "action": "query",
            "format": "json",
            "formatversion": 2,
            "generator": "search",
            "gsrsearch": f"{plain_words(label)} filetype:bitmap",
            "gsrnamespace": FILES,
            "gsrlimit": min(count, MAX_RESULTS),
            "prop": "imageinfo",
            "iiprop": "url|size|mime|extmetadata",
            "iiurlwidth": WIDTH,
            "iiextmetadatafilter": "LicenseShortName|Artist",
        }
        query_url = f"{self._url}?{urlencode(query)}"

        async def ask() -> Any:
            return await self._fetcher.json(
                query_url, service=self.name, per_minute=self._per_minute
            )

        found = await cached_query(self._cache, self.name, query_url, ask, self._read)
        return found[:count]

    def _read(self, answer: Any) -> list[Offer]:
        if "error" in answer:
            code = one_line(answer["error"].get("code"), 80)
            raise ProviderError(f"{self.name} refuses the search: {code}")
        pages = answer.get("query", {}).get("pages", [])  # both are missing if nothing was found
        ranked = sorted(pages, key=lambda page: page.get("index", 0))
        found = [self._offer(page["imageinfo"][0]) for page in ranked if page.get("imageinfo")]
        return [offer for offer in found if offer]

    def _offer(self, info: Any) -> Offer | None:
        url = info.get("thumburl") or info.get("url")
        if not isinstance(url, str):
            return None
        facts = info.get("extmetadata") or {}
        origin = Origin(
            self.name,
            source=one_line(info.get("url"), 2000),
            page=one_line(info.get("descriptionurl"), 2000),
            licence=without_markup(facts.get("LicenseShortName", {}).get("value"), 80),
            attribution=without_markup(facts.get("Artist", {}).get("value"), 500),
        )
        return Offer(origin, functools.partial(self._fetcher.image, url))


def plain_words(label: str) -> str:
    """Only the words of a label: `-`, `:`, quotes and brackets are search operators."""
    return " ".join("".join(c if c.isalnum() else " " for c in label).split())
