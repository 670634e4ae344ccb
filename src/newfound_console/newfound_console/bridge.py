# SPDX-License-Identifier: Apache-2.0
"""Subscriptions and service calls of the node, for code that runs in the server's event loop.

Messages come from the executor's threads and are handed over to the loop: what the console knows
is touched by one thread only.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile

CALL_TIMEOUT = 20.0  # s for an answer of a service
FIND_TIMEOUT = 3.0  # s in which a service must be found
_SETTLE = 0.2  # s: the server of a new client must find it, too, and there is no event for that
_MAX_CLIENTS = 100  # of services, kept for the next call
Wanted = tuple[type, str, Callable[[Any], None], QoSProfile | int]  # type, topic, callback, QoS


class CallError(Exception):
    """A request that was not granted; says why to the operator."""


class Bridge:
    """The node as the event loop sees it."""

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        self.node, self.loop = node, loop
        self._group = ReentrantCallbackGroup()
        self._clients: dict[tuple[type, str], Any] = {}

    def hand_over(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Call something in the loop, from any thread; nothing once the loop is closed."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(callback, *arguments)

    def subscribe(self, wanted: Wanted) -> Any:
        """Subscribe; the callback runs in the loop."""
        kind, topic, callback, profile = wanted
        return self.node.create_subscription(
            kind,
            topic,
            lambda message: self.hand_over(callback, message),
            profile,
            callback_group=self._group,
        )

    async def call(self, kind: type, name: str, request: Any) -> Any:
        """Call a service and return its answer; a CallError if there is none, or it refuses."""
        client = await self._client(kind, name)
        answered: asyncio.Future[Any] = self.loop.create_future()
        future = client.call_async(request)
        future.add_done_callback(lambda done: self.hand_over(_settle, answered, done))
        try:
            response = await asyncio.wait_for(answered, CALL_TIMEOUT)
        except TimeoutError:
            client.remove_pending_request(future)
            raise CallError(f"{name} did not answer in {CALL_TIMEOUT:.0f} s") from None
        code = getattr(response, "result", 0)  # of our services; ROS's own have none, or an object
        if (isinstance(code, int) and code) or not getattr(response, "success", True):
            raise CallError(response.message or f"{name} refused")
        return response

    async def _client(self, kind: type, name: str) -> Any:
        if len(self._clients) > _MAX_CLIENTS:
            self.close()
        client = self._clients.get((kind, name))
        if client is not None and client.service_is_ready():
            return client
        if client is None:
            client = self.node.create_client(kind, name, callback_group=self._group)
            self._clients[kind, name] = client
        end = time.monotonic() + FIND_TIMEOUT
        while not client.service_is_ready():
            if time.monotonic() > end:
                raise CallError(f"{name} is not there: is its node running?")
            await asyncio.sleep(0.05)
        await asyncio.sleep(_SETTLE)
        return client

    def close(self) -> None:
        """Let go of all clients."""
        for client in self._clients.values():
            self.node.destroy_client(client)
        self._clients.clear()


def _settle(answered: "asyncio.Future[Any]", done: Any) -> None:
    if answered.done():
        return
    error = done.exception()
    if error is not None:
        answered.set_exception(CallError(f"{type(error).__name__}: {error}"))
    else:
        answered.set_result(done.result())


class Subscriptions:
    """A set of subscriptions that follows what is wanted."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._open: dict[tuple[type, str], Any] = {}

    def want(self, wanted: Mapping[str, Wanted]) -> None:
        """Subscribe to these, by topic, and to nothing else."""
        keys = {(w[0], topic) for topic, w in wanted.items()}
        for key in [key for key in self._open if key not in keys]:
            self._bridge.node.destroy_subscription(self._open.pop(key))
        for topic, each in wanted.items():
            if (each[0], topic) not in self._open:
                self._open[each[0], topic] = self._bridge.subscribe(each)

    def close(self) -> None:
        """Unsubscribe from all."""
        self.want({})
