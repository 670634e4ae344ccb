# SPDX-License-Identifier: Apache-2.0
"""A service that answers later: no thread of the executor waits for the web."""

import functools
import threading
from collections.abc import Callable
from typing import Any

from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node

Answer = Callable[[Any], None]


class DeferredService:
    """Calls `begin(request, response, answer)`; `answer(response)` may come from any thread.

    rclpy sends what a callback returns, and polls a callback that is a coroutine without rest.
    So the callback here only hands the request on, and sending begins the work instead.
    """

    def __init__(
        self, node: Node, service_type: type, name: str, begin: Callable[[Any, Any, Answer], None]
    ) -> None:
        self._begin = begin
        self._lock = threading.Lock()  # a service sends one response at a time
        service = node.create_service(
            service_type, name, lambda request, response: (request, response)
        )
        self._send = service.send_response
        service.send_response = self._start

    def _start(self, exchange: tuple[Any, Any], header: Any) -> None:
        request, response = exchange
        self._begin(request, response, functools.partial(self._answer, header))

    def _answer(self, header: Any, response: Any) -> None:
        with self._lock:
            try:
                self._send(response, header)
            except (rclpy_implementation.InvalidHandle, rclpy_implementation.RCLError):
                return  # the node or the client is gone: nobody is left to tell
