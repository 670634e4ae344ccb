# SPDX-License-Identifier: Apache-2.0
"""What the HTTP providers share: cached questions, and answers that may have any form."""

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from newfound_web.cache import DiskCache
from newfound_web.errors import ProviderError

_WRONG_FORM = (AttributeError, IndexError, KeyError, TypeError, ValueError)


@contextlib.contextmanager
def documented_form(provider: str) -> Iterator[None]:
    """Around the reading of an answer: anything but the documented form is a ProviderError."""
    try:
        yield
    except _WRONG_FORM as error:
        raise ProviderError(
            f"{provider} answered in a form that it does not document ({type(error).__name__})"
        ) from None


async def asked_once(
    cache: DiskCache, provider: str, question: str, ask: Callable[[], Any], read: Callable
) -> Any:
    """Read the answer to a question from the cache, or ask, read it, and keep it.

    Only an answer that `read` accepts is kept: an error that came with status 200 is not.
    """
    stored = cache.get(provider, question)
    if stored is not None:
        with contextlib.suppress(*_WRONG_FORM):  # kept by a version that read it differently
            return read(json.loads(stored))
    answer = await ask()
    with documented_form(provider):
        result = read(answer)
    cache.put(provider, question, json.dumps(answer).encode())
    return result
