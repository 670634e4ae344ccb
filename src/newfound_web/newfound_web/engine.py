# SPDX-License-Identifier: Apache-2.0
"""The query engine: providers by name, HTTP client, cache and image folder, from settings."""

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
from newfound_web.labelling import Labeller
from newfound_web.providers import google_vision, openverse, wikimedia
from newfound_web.providers.base import find_key, require_key
from newfound_web.providers.local import ImageNet, Library, LibraryImages, LibraryLabels
from newfound_web.providers.names import Names, load_namer

# Entry points under which other packages add providers: functions of a `ProviderContext`.
LABEL_GROUP, IMAGE_GROUP = "newfound.label_providers", "newfound.image_providers"


class ImageNetwork(Protocol):
    """The interface of `vision.Vision`."""

    def features(self, rgb: np.ndarray) -> np.ndarray: ...  # noqa: D102

    def names(self, rgb: np.ndarray, count: int) -> Sequence[tuple[str, float]]: ...  # noqa: D102


@dataclass(frozen=True)
class WebSettings:
    """All settings, as plain values."""

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
    combine_labels: bool = False
    names_checkpoint: Path = Path("names")
    names_vocabulary: Path | None = None
    names_limit: float = 0.06
    names_min_span: float = 0.1
    urls: Mapping[str, str] = field(default_factory=dict)  # provider: address of its API
    per_minute: Mapping[str, float] = field(default_factory=dict)  # provider: requests
    fetch: FetchSettings = field(default_factory=FetchSettings)
    collect: CollectSettings = field(default_factory=CollectSettings)


@dataclass
class ProviderContext:
    """What a provider may use."""

    settings: WebSettings
    fetcher: Fetcher
    cache: DiskCache
    network: Callable[[], ImageNetwork]  # loaded when it is first needed
    environment: Mapping[str, str]

    def api(self, provider: str) -> dict[str, Any]:
        """Address and rate limit of a provider's API, where set."""
        settings = self.settings
        given = {
            "url": settings.urls.get(provider),
            "per_minute": settings.per_minute.get(provider),
        }
        return {name: value for name, value in given.items() if value}

    def library(self) -> Library:
        """The local library; SettingsError without library_folder."""
        if self.settings.library_folder is None:
            raise SettingsError("the provider `library` needs the parameter library_folder")
        return Library(self.settings.library_folder)


def _google_vision(context: ProviderContext) -> google_vision.GoogleVision:
    key = require_key(google_vision.KEY_VARIABLE, "google_vision", context.environment)
    return google_vision.GoogleVision(
        context.fetcher, context.cache, key, **context.api("google_vision")
    )


def _openverse(context: ProviderContext) -> openverse.Openverse:
    identity = find_key(openverse.ID_VARIABLE, context.environment)
    secret = find_key(openverse.SECRET_VARIABLE, context.environment)
    if (identity is None) != (secret is None):
        raise SettingsError(
            f"openverse needs {openverse.ID_VARIABLE} and {openverse.SECRET_VARIABLE}, or neither"
        )
    credentials = (identity, secret) if identity and secret else None
    return openverse.Openverse(
        context.fetcher,
        context.cache,
        credentials,
        max_pixels=context.settings.collect.limits.max_pixels,
        **context.api("openverse"),
    )


def _names(context: ProviderContext) -> Names:
    settings = context.settings
    namer = load_namer(
        settings.names_checkpoint, settings.names_vocabulary, settings.names_min_span
    )
    return Names(namer, settings.names_limit)


def _library_labels(context: ProviderContext) -> LibraryLabels:
    limits = context.settings.collect.limits
    return LibraryLabels(context.library(), context.network().features, context.cache, limits)


LABEL_PROVIDERS: dict[str, Callable[[ProviderContext], Any]] = {
    "imagenet": lambda context: ImageNet(context.network().names),
    "google_vision": _google_vision,
    "library": _library_labels,
    "names": _names,
}
IMAGE_PROVIDERS: dict[str, Callable[[ProviderContext], Any]] = {
    "library": lambda context: LibraryImages(context.library()),
    "openverse": _openverse,
    "wikimedia": lambda context: wikimedia.Wikimedia(
        context.fetcher, context.cache, **context.api("wikimedia")
    ),
}


class QueryEngine:
    """Answers label queries and image fetches. Create it anywhere, use it in one event loop."""

    def __init__(
        self,
        settings: WebSettings,
        network: Callable[[], ImageNetwork],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.cache = DiskCache(settings.cache_folder, settings.cache_bytes, settings.cache_seconds)
        self.fetcher = Fetcher(settings.fetch)
        context = ProviderContext(settings, self.fetcher, self.cache, network, environment)
        limits = settings.collect.limits
        self.labeller = Labeller(
            make_providers(settings.label_providers, LABEL_PROVIDERS, LABEL_GROUP, context),
            limits,
            settings.label_provider_seconds,
            settings.min_confidence,
            combine=settings.combine_labels,
        )
        self.collector = Collector(
            make_providers(settings.image_providers, IMAGE_PROVIDERS, IMAGE_GROUP, context),
            ImageFolder(
                settings.image_folder, settings.image_folder_bytes, settings.min_free_bytes
            ),
            self.cache,
            network().features if settings.filter_outliers and settings.image_providers else None,
            settings.collect,
        )


def make_providers(
    names: Sequence[str],
    known: Mapping[str, Callable[[ProviderContext], Any]],
    group: str,
    context: ProviderContext,
) -> list[Any]:
    """Create providers by name, in this order: built-in ones or entry points."""
    made = []
    for name in names:
        factory = known.get(name)
        if factory is None:
            found = entry_points(group=group, name=name)
            if not found:
                builtin = ", ".join(sorted(known))
                raise SettingsError(f"there is no provider '{name}' in {group}; known: {builtin}")
            factory = next(iter(found)).load()
        made.append(factory(context))
    return made
