# SPDX-License-Identifier: Apache-2.0
"""Named errors and the outcome of a request; error messages may be shown to the operator."""

import enum
from collections.abc import Mapping

from newfound_core.errors import NewfoundError


class WebError(NewfoundError):
    """Base of every error that this package raises on purpose. Messages never hold a key."""


class SettingsError(WebError):
    """A provider needs a parameter or an environment variable that is missing or wrong."""


class ProviderError(WebError):
    """A provider could not answer."""


class NoIdeaError(ProviderError):
    """A provider has looked at the object and knows no name that is good enough."""


class TransientError(ProviderError):
    """A failure worth retrying: a busy server, a broken connection."""

    def __init__(self, text: str, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.retry_after = retry_after  # s, from the Retry-After header; 0 without one


class RateLimitError(ProviderError):
    """The rate limit of a service would delay the request for too long."""


class RefusedError(ProviderError):
    """What a server offers is not safe to accept: its address, size or encoding."""


class PictureError(WebError):
    """The bytes are not an image that may be stored."""


class Outcome(enum.Enum):
    """How a request ended: RESULT_<name> in QueryLabel.srv and FetchImages.srv."""

    OK = enum.auto()
    NOTHING_FOUND = enum.auto()
    BAD_IMAGES = enum.auto()
    INVALID_LABEL = enum.auto()
    TIMEOUT = enum.auto()
    PROVIDERS_FAILED = enum.auto()
    STORAGE = enum.auto()
    NOT_READY = enum.auto()
    INTERNAL = enum.auto()


def outcome_without_result(failures: Mapping[str, str], providers: int) -> Outcome:
    """The outcome if nothing was found: every provider failed, or at least one has nothing."""
    failed = providers > 0 and len(failures) == providers
    return Outcome.PROVIDERS_FAILED if failed else Outcome.NOTHING_FOUND


def failures_text(failures: Mapping[str, str]) -> str:
    """Join the providers' failures into one message."""
    return "; ".join(f"{provider}: {reason}" for provider, reason in failures.items())
