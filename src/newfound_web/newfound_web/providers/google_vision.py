# SPDX-License-Identifier: Apache-2.0
"""Label provider Google Cloud Vision: web detection, which finds pages with similar images.

https://cloud.google.com/vision/docs/detecting-web: POST /v1/images:annotate with the feature
WEB_DETECTION. The answer's `bestGuessLabels` come without a score, `webEntities` with one.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from newfound_web.cache import DiskCache
from newfound_web.errors import ProviderError
from newfound_web.fetching import Fetcher, StatusError
from newfound_web.pictures import Picture
from newfound_web.providers.base import Candidate, Key, cached_query
from newfound_web.text import LONGEST_LABEL, one_line

URL = "https://vision.googleapis.com/v1/images:annotate"
KEY_VARIABLE = "GOOGLE_VISION_API_KEY"
MAX_RESULTS = 10


class GoogleVision:
    """Sends the crop, re-encoded as JPEG, to Google and reads its guesses."""

    name = "google_vision"

    def __init__(
        self, fetcher: Fetcher, cache: DiskCache, key: Key, url: str = URL, per_minute: float = 60
    ) -> None:
        self._fetcher = fetcher
        self._cache = cache
        self._key = key
        self._url = url
        self._per_minute = per_minute

    async def candidates(self, crop: Picture, count: int) -> Sequence[Candidate]:
        """The best guess, then entities by descending score."""
        jpeg = crop.jpeg()
        query = f"{self._url} {hashlib.sha256(jpeg).hexdigest()}"
        found = await cached_query(
            self._cache, self.name, query, lambda: self._ask(jpeg), self._read
        )
        return found[:count]

    async def _ask(self, jpeg: bytes) -> Any:
        request = {
            "image": {"content": base64.b64encode(jpeg).decode()},
            "features": [{"type": "WEB_DETECTION", "maxResults": MAX_RESULTS}],
        }
        try:
            return await self._fetcher.json(
                self._url,
                service=self.name,
                per_minute=self._per_minute,
                headers={
                    "Content-Type": "application/json",
                    "X-Goog-Api-Key": self._key.reveal(),  # a header: addresses get logged
                },
                body=json.dumps({"requests": [request]}).encode(),
            )
        except StatusError as error:
            raise ProviderError(f"{error}{self._explanation(error.body)}") from None

    def _explanation(self, body: bytes) -> str:
        """Google's error message, without our key, which it may repeat."""
        try:
            text = json.loads(body)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            return ""
        return f": {self._key.hide(one_line(text))}"

    def _read(self, answer: Any) -> list[Candidate]:
        response = answer["responses"][0]
        if "error" in response:
            text = self._key.hide(one_line(response["error"].get("message", "")))
            raise ProviderError(f"{self.name} could not analyse the crop: {text}")
        detection = response.get("webDetection", {})
        entities = [
            (one_line(entity.get("description"), LONGEST_LABEL), float(entity.get("score", 0)))
            for entity in detection.get("webEntities", [])
        ]
        # Entity scores are relative, may exceed 1 and are not comparable across requests.
        scale = max([1.0, *(score for _, score in entities)])
        scored = sorted(((s / scale, label) for label, s in entities if label), reverse=True)
        best = scored[0][0] if scored else 0.5  # the best guess is at least as good as any entity
        guesses = [
            (best, one_line(guess.get("label"), LONGEST_LABEL))
            for guess in detection.get("bestGuessLabels", [])
        ]
        return [
            Candidate(label, min(max(score, 0.0), 1.0), self.name)
            for score, label in (*guesses, *scored)
            if label
        ]
