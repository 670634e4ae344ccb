# SPDX-License-Identifier: Apache-2.0
"""A thread that waits for the messages of one subscription, and for nothing else.

An rclpy executor looks at every service, timer and subscription of its nodes each time it
wakes up, which costs milliseconds of Python per message. Images come often and must be quick,
so they do not pass through it.
"""

import threading
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.guard_condition import GuardCondition
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import QoSProfile

LOOK_AROUND = 500_000_000  # ns between two looks whether the process is going down


class Receiver:
    """Subscribes to a topic and hands its messages to `receive`, in a thread of its own."""

    def __init__(
        self,
        node: Node,
        message_type: type,
        topic: str,
        receive: Callable[[Any], None],
        profile: QoSProfile,
    ) -> None:
        self._node = node
        self._receive = receive
        self._subscription = node.create_subscription(
            message_type, topic, receive, profile, callback_group=_LeftAlone()
        )
        self._wake_up = GuardCondition(None, None, context=node.context)
        self._open = True
        self._thread = threading.Thread(
            target=self._listen, name=f"{node.get_name()}-receiver", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Unsubscribe; no message is handed over after this."""
        self._open = False
        self._wake_up.trigger()
        self._thread.join()
        self._wake_up.destroy()
        self._node.destroy_subscription(self._subscription)

    def _listen(self) -> None:
        context, handle = self._node.context, self._subscription.handle
        with handle, self._wake_up.handle, context.handle:
            waiting = rclpy_implementation.WaitSet(1, 1, 0, 0, 0, 0, context.handle)
            while self._open and context.ok():
                waiting.clear_entities()
                waiting.add_subscription(handle)
                waiting.add_guard_condition(self._wake_up.handle)
                waiting.wait(LOOK_AROUND)
                taken = handle.take_message(self._subscription.msg_type, False)
                if taken is not None and self._open:
                    self._receive(taken[0])


class _LeftAlone(CallbackGroup):
    """Tells executors to leave the subscription alone."""

    def can_execute(self, entity: Any) -> bool:
        """Never."""
        return False

    def beginning_execution(self, entity: Any) -> bool:
        """Never."""
        return False

    def ending_execution(self, entity: Any) -> None:
        """Nothing began."""
