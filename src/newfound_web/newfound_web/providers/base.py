# SPDX-License-Identifier: Apache-2.0
"""What providers share: their interfaces, cached queries, and keys of services."""

import contextlib
import json
import os
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from newfound_web.cache import DiskCache
from newfound_web.errors import ProviderError, SettingsError
from newfound_web.image_folder import Origin
from newfound_web.pictures import Picture

HIDDEN = "[key]"
_WRONG_FORM = (AttributeError, IndexError, KeyError, TypeError, ValueError)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Candidate:
    """A proposed label for the crop."""

    label: str
    confidence: float  # 0 to 1; comparable within one provider only
    provider: str
    span_share: float = 0.0  # 0 to 1, LabelCandidate.msg; 0: the provider does not say


@dataclass(frozen=True)
class Offer:
    """A search result; `load` downloads the image, whose bytes are untrusted."""

    origin: Origin
    load: Callable[[], Awaitable[bytes]]


class LabelProvider(Protocol):
    """Proposes labels for a crop. Raises ProviderError if it cannot answer."""

    name: str

    async def candidates(self, crop: Picture, count: int) -> Sequence[Candidate]:
        """At most `count` proposals, best first; may be empty."""


@runtime_checkable
class MultiViewProvider(Protocol):
    """A label provider that also uses several views of one object, and names to leave out."""

    async def candidates_of_views(
        self, views: Sequence[Picture], count: int, exclude: Collection[str]
    ) -> Sequence[Candidate]:
        """At most `count` proposals, best first; NoIdeaError instead of bad ones."""


class ImageProvider(Protocol):
    """Finds images of a label. Raises ProviderError if it cannot answer."""

    name: str

    async def offers(self, label: str, count: int) -> Sequence[Offer]:
        """About `count` search results, best first; may be empty."""


@contextlib.contextmanager
def documented_form(provider: str) -> Iterator[None]:
    """Turn the errors of reading an answer of another form into a ProviderError."""
    try:
        yield
    except _WRONG_FORM as error:
        raise ProviderError(
            f"{provider} answered in a form that it does not document ({type(error).__name__})"
        ) from None


async def cached_query(
    cache: DiskCache,
    provider: str,
    query: str,
    ask: Callable[[], Awaitable[Any]],
    read: Callable[[Any], Result],
) -> Result:
    """Read the answer to a query from the cache, or ask the provider and cache its answer.

    Only an answer that `read` accepts is cached: an error that came with status 200 is not.
    """
    stored = cache.get(provider, query)
    if stored is not None:
        with contextlib.suppress(*_WRONG_FORM):  # stored by a version that read it differently
            return read(json.loads(stored))
    answer = await ask()
    with documented_form(provider):
        result = read(answer)
    cache.put(provider, query, json.dumps(answer).encode())
    return result


class Key:
    """A secret that does not print itself; `reveal` is for the header of a request only."""

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        if not (value.isascii() and value.isprintable() and " " not in value):
            raise SettingsError(f"{name} holds characters that no key has: was it cut wrongly?")
        self._value = value

    def reveal(self) -> str:
        """The secret itself."""
        return self._value

    def hide(self, text: str) -> str:
        """The text without the secret: servers repeat a key in their error messages."""
        return text.replace(self._value, HIDDEN)

    def __repr__(self) -> str:
        return f"Key({self.name})"


def find_key(name: str, environment: Mapping[str, str] = os.environ) -> Key | None:
    """The key in this environment variable, or None."""
    value = environment.get(name, "").strip()
    return Key(name, value) if value else None


def require_key(name: str, provider: str, environment: Mapping[str, str] = os.environ) -> Key:
    """The key in this environment variable; SettingsError if there is none."""
    key = find_key(name, environment)
    if key is None:
        raise SettingsError(f"{provider} needs a key in the environment variable {name}")
    return key
