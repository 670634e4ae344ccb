# SPDX-License-Identifier: Apache-2.0
"""Service callbacks that always answer: an error becomes a result code and a reason.

The codes are those of newfound_msgs/ResultCode; a response carries them as RESULT_ constants.
"""

from collections.abc import Callable
from typing import Any

from newfound_core.errors import (
    DamagedError,
    NewfoundError,
    StorageError,
    UnknownVersionError,
)
from newfound_runtime.managed_node import ManagedNode

_CODES: tuple[tuple[type[Exception], str], ...] = (
    (StorageError, "STORAGE"),
    (UnknownVersionError, "UNKNOWN_VERSION"),
    (DamagedError, "DAMAGED"),
)


class RequestError(NewfoundError):
    """A request that cannot be granted; `code` is the name of a RESULT_ constant."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def answering(node: ManagedNode, handler: Callable[[Any, Any], None]) -> Callable[[Any, Any], Any]:
    """A service callback around a handler that fills the response, or raises."""

    def callback(request: Any, response: Any) -> Any:
        try:
            handler(request, response)
        except NewfoundError as error:
            refuse(response, code_of(error), str(error))
        except Exception as error:
            node.log_traceback(f"{handler.__name__} failed")
            refuse(response, "INTERNAL", f"{type(error).__name__}: {error}")
        return response

    return callback


def code_of(error: NewfoundError) -> str:
    """The name of the result code for an error."""
    if isinstance(error, RequestError):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), "INTERNAL")


def refuse(response: Any, code: str, message: str) -> None:
    """Fill a response with a result code, by name, and the reason."""
    response.result = getattr(response, f"RESULT_{code}", response.RESULT_INTERNAL)
    response.message = message
