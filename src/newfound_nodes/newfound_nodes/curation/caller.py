# SPDX-License-Identifier: Apache-2.0
"""A service that is called without waiting: its answer is handed over, or that none came."""

import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.task import Future

Hand = Callable[[Any], None]


class Caller:
    """A client with a time limit; whoever owns it calls `expire` now and then."""

    def __init__(self, node: Node, kind: type, name: str, group: CallbackGroup) -> None:
        self.kind = kind
        self._node = node
        self._client = node.create_client(kind, name, callback_group=group)
        self._lock = threading.Lock()
        self._waiting: dict[Future, tuple[float, Hand]] = {}  # until when, and for whom

    @property
    def name(self) -> str:
        """The full name of the service."""
        return self._client.srv_name

    def ready(self) -> bool:
        """Whether somebody offers the service."""
        return self._client.service_is_ready()

    def call(self, request: Any, seconds: float, hand: Hand) -> None:
        """Ask; `hand` gets the response, or None if there is none in time."""
        future = self._client.call_async(request)
        with self._lock:
            self._waiting[future] = (time.monotonic() + seconds, hand)
        future.add_done_callback(self._answered)

    def expire(self) -> None:
        """Give up what was waited for too long."""
        now = time.monotonic()
        with self._lock:
            late = [future for future, (end, _) in self._waiting.items() if now > end]
        for future in late:
            self._client.remove_pending_request(future)
            self._settle(future, None)

    def forget(self) -> None:
        """Answers that are under way are no longer wanted."""
        with self._lock:
            self._waiting.clear()

    def destroy(self) -> None:
        """Let go of the client."""
        self.forget()
        self._node.destroy_client(self._client)

    def _answered(self, future: Future) -> None:
        self._settle(future, None if future.exception() else future.result())

    def _settle(self, future: Future, response: Any) -> None:
        with self._lock:
            _, hand = self._waiting.pop(future, (0.0, None))
        if hand is not None:
            hand(response)
