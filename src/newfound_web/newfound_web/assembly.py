# SPDX-License-Identifier: Apache-2.0
"""From settings to a working desk: providers by name, the client, the cache, the folder."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from newfound_web.cache import DiskCache
from newfound_web.collecting import Collector, CollectSettings
from newfound_web.errors import SettingsError
from newfound_web.fetching import Fetcher, FetchSettings
from newfound_web.image_folder import ImageFolder
from newfound_web.keys import find_key, need_key
from newfound_web.labelling import Labeller
from newfound_web.providers import google_vision, openverse, wikimedia
from newfound_web.providers.imagenet import ImageNet
from newfound_web.providers.library import Library, LibraryImages, LibraryLabels

# Packages add providers of their own under these entry points: a function of `Tools`.
LABEL_GROUP, IMAGE_GROUP = "newfound.label_providers", "newfound.image_providers"


class Sight(Protocol):
    """What is needed of `vision.Vision`."""

    def features(self, rgb: np.ndarray) -> np.ndarray: ...  # noqa: D102

    def names(self, rgb: np.ndarray, count: int) -> Sequence[tuple[str, float]]: ...  # noqa: D102


@dataclass(frozen=True)
class WebSettings:
    """All that can be set, in plain values."""

    label_providers: tuple[str, ...] = ("imagenet",)
    image_providers: tuple[str, ...] = ("openverse", "wikimedia")
    library_folder: Path | None = None
    image_folder: Path = Path("images")
    image_folder_bytes: int = 2_000_000_000
    min_free_bytes: int = 200_000_000
    cache_folder: Path = Path("cache")
    cache_bytes: int = 500_000_000
    cache_seconds: float = 7 * 86_400.0
    filter_outliers: bool = True
    label_provider_seconds: float = 10.0
    min_confidence: float = 0.05
    urls: Mapping[str, str] = field(default_factory=dict)  # provider: address of its API
    per_minute: Mapping[str, float] = field(default_factory=dict)  # provider: requests
    fetch: FetchSettings = field(default_factory=FetchSettings)
    collect: CollectSettings = field(default_factory=CollectSettings)


@dataclass
class Tools:
    """What a provider may be made of."""

    settings: WebSettings
    fetcher: Fetcher
    cache: DiskCache
    see: Callable[[], Sight]  # loads the network when it is first needed
    environment: Mapping[str, str]

    def api(self, provider: str) -> dict[str, Any]:
        """Address and rate of a provider's API, as far as they are set."""
        settings = self.settings
        given = {
            "url": settings.urls.get(provider),
            "per_minute": settings.per_minute.get(provider),
        }
        return {name: value for name, value in given.items() if value}

    def library(self) -> Library:
        """The local library, which has to be set."""
        if self.settings.library_folder is None:
            raise SettingsError("the provider `library` needs the parameter library_folder")
        return Library(self.settings.library_folder)


def _google_vision(tools: Tools) -> google_vision.GoogleVision:
    key = need_key(google_vision.KEY_VARIABLE, "google_vision", tools.environment)
    return google_vision.GoogleVision(
        tools.fetcher, tools.cache, key, **tools.api("google_vision")
    )


def _openverse(tools: Tools) -> openverse.Openverse:
    identity = find_key(openverse.ID_VARIABLE, tools.environment)
    secret = find_key(openverse.SECRET_VARIABLE, tools.environment)
    if (identity is None) != (secret is None):
        raise SettingsError(
            f"openverse needs {openverse.ID_VARIABLE} and {openverse.SECRET_VARIABLE}, or neither"
        )
    credentials = (identity, secret) if identity and secret else None
    return openverse.Openverse(
        tools.fetcher,
        tools.cache,
        credentials,
        max_pixels=tools.settings.collect.limits.max_pixels,
        **tools.api("openverse"),
    )


def _library_labels(tools: Tools) -> LibraryLabels:
    limits = tools.settings.collect.limits
    return LibraryLabels(tools.library(), tools.see().features, tools.cache, limits)


LABEL_PROVIDERS: dict[str, Callable[[Tools], Any]] = {
    "imagenet": lambda tools: ImageNet(tools.see().names),
    "google_vision": _google_vision,
    "library": _library_labels,
}
IMAGE_PROVIDERS: dict[str, Callable[[Tools], Any]] = {
    "library": lambda tools: LibraryImages(tools.library()),
    "openverse": _openverse,
    "wikimedia": lambda tools: wikimedia.Wikimedia(
        tools.fetcher, tools.cache, **tools.api("wikimedia")
    ),
}


class Desk:
    """Everything that answers requests. Make it anywhere, use it in one event loop."""

    def __init__(
        self,
        settings: WebSettings,
        see: Callable[[], Sight],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.cache = DiskCache(settings.cache_folder, settings.cache_bytes, settings.cache_seconds)
        self.fetcher = Fetcher(settings.fetch)
        tools = Tools(settings, self.fetcher, self.cache, see, environment)
        limits = settings.collect.limits
        self.labeller = Labeller(
            make(settings.label_providers, LABEL_PROVIDERS, LABEL_GROUP, tools),
            limits,
            settings.label_provider_seconds,
            settings.min_confidence,
        )
        self.collector = Collector(
            make(settings.image_providers, IMAGE_PROVIDERS, IMAGE_GROUP, tools),
            ImageFolder(
                settings.image_folder, settings.image_folder_bytes, settings.min_free_bytes
            ),
            self.cache,
            see().features if settings.filter_outliers and settings.image_providers else None,
            settings.collect,
        )


def make(
    names: Sequence[str], known: Mapping[str, Callable[[Tools], Any]], group: str, tools: Tools
) -> list[Any]:
    """The providers of these names, in this order: ours, or another package's entry points."""
    made = []
    for name in names:
        factory = known.get(name)
        if factory is None:
            found = entry_points(group=group, name=name)
            if not found:
                ours = ", ".join(sorted(known))
                raise SettingsError(f"there is no provider '{name}' in {group}; known: {ours}")
            factory = next(iter(found)).load()
        made.append(factory(tools))
    return made
