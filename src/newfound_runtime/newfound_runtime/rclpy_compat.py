# SPDX-License-Identifier: Apache-2.0
"""Everything that relies on rclpy internals, in one place, with the upstream source of each.

Written against rclpy 7.1 (Jazzy, https://github.com/ros2/rclpy/tree/jazzy/rclpy):

- `InvalidHandle`: raised by the wait set when an entity is destroyed while the executor looks at
  it; not exported by a public module (rclpy/src/rclpy/exceptions.cpp).
- `answer_impossible_transitions`: `LifecycleNodeMixin` lets an RCLError escape from the
  change_state callback (rclpy/lifecycle/node.py, `__on_change_state`).
- `Receiver`: a wait set of its own for one subscription. An rclpy executor rebuilds its wait set
  from every service, timer and subscription each time it wakes up (rclpy/executors.py,
  `_wait_for_ready_callbacks`), which costs milliseconds of Python per message. Images come often
  and must be quick, so they do not pass through it.
"""

import threading
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.guard_condition import GuardCondition
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import QoSProfile

SHUTDOWN_POLL = 500_000_000  # ns between two checks whether the process is going down


InvalidHandle = rclpy_implementation.InvalidHandle


def answer_impossible_transitions(node: Any) -> None:
    """Answer a transition that the state does not allow with success=False.

    rclpy raises out of the service callback instead: the client would wait for ever and the
    executor, with all its other nodes, would stop.
    """
    service = node._service_change_state
    change_state = service.callback

    def callback(request: Any, response: Any) -> Any:
        try:
            return change_state(request, response)
        except rclpy_implementation.RCLError:
            wish = request.transition.label or request.transition.id
            here = current_state(node)[1]
            node.get_logger().warning(f"transition '{wish}' is not possible in '{here}'")
            response.success = False
            return response

    service.callback = callback


def current_state(node: Any) -> tuple[int, str]:
    """The lifecycle state of a node: a number of lifecycle_msgs/State, and its label."""
    return node._state_machine.current_state


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
            message_type, topic, receive, profile, callback_group=_NeverExecuted()
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
                waiting.wait(SHUTDOWN_POLL)
                taken = handle.take_message(self._subscription.msg_type, False)
                if taken is not None and self._open:
                    self._receive(taken[0])


class _NeverExecuted(CallbackGroup):
    """Keeps executors away from the subscription: its own thread takes the messages."""

    def can_execute(self, entity: Any) -> bool:
        """Never."""
        return False

    def beginning_execution(self, entity: Any) -> bool:
        """Never."""
        return False

    def ending_execution(self, entity: Any) -> None:
        """Nothing began."""
