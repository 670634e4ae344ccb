# SPDX-License-Identifier: Apache-2.0
"""How a request ended; the names are those of the result codes in the service definitions."""

import enum
from collections.abc import Mapping


class Outcome(enum.Enum):
    """RESULT_<name> in QueryLabel.srv and FetchImages.srv."""

    OK = enum.auto()
    NOTHING_FOUND = enum.auto()
    BAD_IMAGE = enum.auto()
    INVALID_LABEL = enum.auto()
    TIMEOUT = enum.auto()
    PROVIDERS_FAILED = enum.auto()
    STORAGE = enum.auto()
    NOT_READY = enum.auto()
    INTERNAL = enum.auto()


def without_result(failures: Mapping[str, str], providers: int) -> Outcome:
    """What to say when nothing came: did all providers fail, or did one have nothing?"""
    failed = providers > 0 and len(failures) == providers
    return Outcome.PROVIDERS_FAILED if failed else Outcome.NOTHING_FOUND


def failures_text(failures: Mapping[str, str]) -> str:
    """Each provider's reason, for a person."""
    return "; ".join(f"{provider}: {reason}" for provider, reason in failures.items())
