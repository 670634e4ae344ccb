# SPDX-License-Identifier: Apache-2.0
"""Collect images of a label within a time limit: search, download, check, filter, store."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from newfound_core.errors import StorageError
from newfound_web.cache import DiskCache
from newfound_web.errors import (
    Outcome,
    PictureError,
    ProviderError,
    RefusedError,
    failures_text,
    outcome_without_result,
)
from newfound_web.image_folder import Collection, ImageFolder, Origin
from newfound_web.pictures import Picture, PictureLimits, open_picture
from newfound_web.providers.base import ImageProvider, Offer
from newfound_web.selection import DuplicateFilter, difference_hash, inliers
from newfound_web.text import label_problem

Features = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class CollectSettings:
    """Limits of a collection."""

    limits: PictureLimits = field(default_factory=PictureLimits)
    provider_seconds: float = 20.0  # for each search
    spare: float = 1.5  # ratio of images downloaded to images requested, before filtering
    at_once: int = 4  # concurrent downloads
    outlier_limit: float = 0.8  # robust standard deviations


@dataclass(frozen=True)
class Kept:
    """A picture that passed the checks."""

    rank: tuple[int, int]  # provider, position in its answer
    picture: Picture
    origin: Origin
    features: np.ndarray | None


@dataclass
class FetchAnswer:
    """Result of a fetch, filled while images arrive."""

    outcome: Outcome = Outcome.INTERNAL
    message: str = ""
    collection: Collection | None = None
    kept: list[Kept] = field(default_factory=list)
    dropped: Counter[str] = field(
        default_factory=Counter
    )  # count of images by the reason they were dropped
    failures: dict[str, str] = field(default_factory=dict)  # provider: reason
    remark: str = ""

    @property
    def rejected(self) -> int:
        """Downloaded images that were not kept; failed downloads are not counted."""
        return sum(self.dropped.values()) - self.dropped["unreachable"]

    def end(self, outcome: Outcome, reason: str = "") -> "FetchAnswer":
        """Set outcome and message, and return the answer."""
        stored = len(self.collection.images) if self.collection else 0
        dropped = ", ".join(f"{count} {why}" for why, count in sorted((+self.dropped).items()))
        parts = [reason, f"{stored} stored", dropped, self.remark, failures_text(self.failures)]
        self.outcome, self.message = outcome, "; ".join(part for part in parts if part)
        return self


class Collector:
    """Queries the image providers in their configured order and stores what they find.

    `features` computes a feature vector; without it, outliers are kept.
    """

    def __init__(
        self,
        providers: Sequence[ImageProvider],
        folder: ImageFolder,
        cache: DiskCache,
        features: Features | None,
        settings: CollectSettings,
    ) -> None:
        self._providers = providers
        self._folder = folder
        self._cache = cache
        self._features = features
        self._settings = settings

    async def collect(
        self, label: str, count: int, seconds: float, crop: bytes = b""
    ) -> FetchAnswer:
        """Store at most `count` images within `seconds`; on a timeout, those that have arrived."""
        answer = FetchAnswer()
        if problem := label_problem(label):
            return answer.end(Outcome.INVALID_LABEL, problem)
        in_time = True
        end = asyncio.get_running_loop().time() + seconds
        crop_features: np.ndarray | None = None
        try:
            # Leaves time to write what has arrived.
            async with asyncio.timeout_at(end - min(3.0, 0.2 * seconds)):
                await asyncio.to_thread(self._folder.check)
                crop_features = await self._crop_features(crop, answer)
                await self._gather(label, math.ceil(count * self._settings.spare), answer)
        except TimeoutError:
            in_time = False
        except StorageError as error:
            return answer.end(Outcome.STORAGE, str(error))
        chosen = self._choose(answer, crop_features)[:count]
        return await self._store(label, chosen, answer, in_time, end)

    async def _crop_features(self, crop: bytes, answer: FetchAnswer) -> np.ndarray | None:
        """The crop's features; with a bad crop, images are not compared with it."""
        if not crop or self._features is None:
            return None
        try:
            picture = await asyncio.to_thread(open_picture, crop, self._settings.limits)
        except PictureError as error:
            answer.remark = f"the crop was not used: {error}"
            return None
        return await asyncio.to_thread(self._features, picture.rgb)

    async def _gather(self, label: str, wanted: int, answer: FetchAnswer) -> None:
        """Query one provider after the other until there are enough pictures."""
        seen = DuplicateFilter()
        for number, provider in enumerate(self._providers):
            missing = wanted - len(answer.kept)
            if missing <= 0:
                return
            try:
                async with asyncio.timeout(self._settings.provider_seconds):
                    # Some links are dead and some images broken: request more than is missing.
                    offers = await provider.offers(label, missing + missing // 3 + 5)
            except TimeoutError:
                limit = self._settings.provider_seconds
                answer.failures[provider.name] = f"no answer in {limit:.1f} s"
            except ProviderError as error:
                answer.failures[provider.name] = str(error)
            else:
                await self._take_all(number, offers, wanted, seen, answer)

    async def _take_all(
        self, provider: int, offers: Sequence[Offer], wanted: int, seen: DuplicateFilter,
        answer: FetchAnswer,
    ) -> None:  # fmt: skip
        slots = asyncio.Semaphore(self._settings.at_once)

        async def take(place: int, offer: Offer) -> None:
            async with slots:
                if len(answer.kept) < wanted:
                    await self._take((provider, place), offer, seen, answer)

        async with asyncio.TaskGroup() as group:
            for place, offer in enumerate(offers):
                group.create_task(take(place, offer))

    async def _take(
        self, rank: tuple[int, int], offer: Offer, seen: DuplicateFilter, answer: FetchAnswer
    ) -> None:
        """Download one image and keep it if it is valid and no duplicate."""
        address = offer.origin.source
        try:
            stored = self._cache.get("image", address) if address else None
            data = await offer.load() if stored is None else stored
            picture, hashed, features = await asyncio.to_thread(self._examine, data)
        except (PictureError, RefusedError):
            answer.dropped["broken or unsafe"] += 1
        except (ProviderError, OSError):
            answer.dropped["unreachable"] += 1
        else:
            if stored is None and address:
                await asyncio.to_thread(self._cache.put, "image", address, data)
            if seen.add(hashed):
                answer.kept.append(Kept(rank, picture, offer.origin, features))
            else:
                answer.dropped["duplicates"] += 1

    def _examine(self, data: bytes) -> tuple[Picture, int, np.ndarray | None]:
        picture = open_picture(data, self._settings.limits)
        features = self._features(picture.rgb) if self._features else None
        return picture, difference_hash(picture.rgb), features

    def _choose(self, answer: FetchAnswer, crop: np.ndarray | None) -> list[Kept]:
        """Drop outliers; sort by provider and position."""
        kept = sorted(answer.kept, key=lambda each: each.rank)
        vectors = [each.features for each in kept if each.features is not None]
        if not vectors:
            return kept
        keep = inliers(np.stack(vectors), crop, self._settings.outlier_limit)
        answer.dropped["outliers"] += int((~keep).sum())
        return [each for each, good in zip(kept, keep, strict=True) if good]

    async def _store(
        self, label: str, chosen: Sequence[Kept], answer: FetchAnswer, in_time: bool, end: float
    ) -> FetchAnswer:
        try:
            if chosen:
                pictures = [(each.picture, each.origin) for each in chosen]
                async with asyncio.timeout_at(end):
                    answer.collection = await asyncio.to_thread(
                        self._folder.store, label, pictures
                    )
        except StorageError as error:
            return answer.end(Outcome.STORAGE, str(error))
        except TimeoutError:
            return answer.end(Outcome.TIMEOUT, "writing to the disk took too long")
        if not in_time:
            return answer.end(Outcome.TIMEOUT, "time was up")
        if answer.collection:
            return answer.end(Outcome.OK)
        return answer.end(outcome_without_result(answer.failures, len(self._providers)))
