# SPDX-License-Identifier: Apache-2.0
"""Everything that relies on rclpy internals, in one place, with the upstream source of each.

Written against rclpy 7.1 (Jazzy, https://github.com/ros2/rclpy/tree/jazzy/rclpy):

- `InvalidHandle`: raised by the wait set when an entity is destroyed while the executor looks at
  it; not exported by a public module (rclpy/src/rclpy/exceptions.cpp).
- `answer_impossible_transitions`: `LifecycleNodeMixin` lets an RCLError escape from the
  change_state callback (rclpy/lifecycle/node.py, `__on_change_state`).
- `undeclared_overrides`, `subscription_overrides`: `Node._parameter_overrides`, what was set from
  outside; no public accessor (rclpy/node.py).
- `DeferredService`: replaces `Service.send_response` (rclpy/service.py); the executor sends what a
  callback returns, and polls a coroutine in a busy loop (rclpy/executors.py, `_execute_service`).
- `Receiver`: a wait set of its own for one subscription. An rclpy executor rebuilds its wait set
  from every service, timer and subscription each time it wakes up (rclpy/executors.py,
  `_wait_for_ready_callbacks`), which costs milliseconds of Python per message. Images come often
  and must be quick, so they do not pass through it.
"""

import copy
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.guard_condition import GuardCondition
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import QoSPolicyKind, QoSProfile, qos_policy_name_from_kind
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription

SHUTDOWN_POLL = 500_000_000  # ns between two checks whether the process is going down
ERROR_PAUSE = 0.01  # s


InvalidHandle = rclpy_implementation.InvalidHandle
Answer = Callable[[Any], None]  # sends a response


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
            wanted = request.transition.label or request.transition.id
            here = current_state(node)[1]
            node.get_logger().warning(f"transition '{wanted}' is not possible in '{here}'")
            response.success = False
            return response

    service.callback = callback


def current_state(node: Any) -> tuple[int, str]:
    """The lifecycle state of a node: a number of lifecycle_msgs/State, and its label."""
    return node._state_machine.current_state


def undeclared_overrides(node: Node) -> list[str]:
    """Parameters set from outside (file, command line, launch) that the node does not declare."""
    known = ("use_sim_time", "start_type_description_service", "qos_overrides.")
    names = node._parameter_overrides
    return sorted(n for n in names if not node.has_parameter(n) and not n.startswith(known))


def subscription_overrides(node: Node, topic: str) -> QoSOverridingOptions:
    """The QoS policies of a subscription that a `qos_overrides` parameter sets.

    Only these are declared: rclpy would declare all of them with the values of the first
    subscription, and a later one that follows another publisher could not differ.
    """
    prefix = f"qos_overrides.{topic}.subscription."
    given = {n.removeprefix(prefix) for n in node._parameter_overrides if n.startswith(prefix)}
    return QoSOverridingOptions([p for p in QoSPolicyKind if p.name.lower() in given])


class Receiver:
    """Subscribes to a topic and hands its messages to `receive`, in a thread of its own.

    `on_error` gets any exception while a message is taken or received; the thread goes on.
    `on_incompatible` gets the name of the QoS policy that keeps a publisher from being heard.
    `period` is the least time between two messages; those in between stay with the middleware,
    which drops them when there are more than the depth of the profile.
    """

    def __init__(
        self,
        node: Node,
        message_type: type,
        topic: str,
        receive: Callable[[Any], None],
        profile: QoSProfile,
        *,
        period: float = 0.0,
        on_error: Callable[[Exception], None],
        on_incompatible: Callable[[str], None],
    ) -> None:
        self._node = node
        self._receive, self._on_error = receive, on_error
        self._period, self._closing = period, threading.Event()

        def incompatible(event: Any) -> None:
            on_incompatible(qos_policy_name_from_kind(event.last_policy_kind))

        self._subscription = node.create_subscription(
            message_type,
            topic,
            receive,
            copy.copy(profile),  # rclpy writes overrides into it
            callback_group=_EventsOnly(),
            event_callbacks=SubscriptionEventCallbacks(incompatible_qos=incompatible),
            qos_overriding_options=subscription_overrides(node, topic),
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
        self._closing.set()
        self._wake_up.trigger()
        self._thread.join()
        self._wake_up.destroy()
        self._node.destroy_subscription(self._subscription)

    def _listen(self) -> None:
        context, handle = self._node.context, self._subscription.handle
        assert context.handle is not None, "the context of a node is initialised"
        with handle, self._wake_up.handle, context.handle:
            wait_set = rclpy_implementation.WaitSet(1, 1, 0, 0, 0, 0, context.handle)
            while self._open and context.ok():
                try:
                    wait_set.clear_entities()
                    wait_set.add_subscription(handle)
                    wait_set.add_guard_condition(self._wake_up.handle)
                    wait_set.wait(SHUTDOWN_POLL)
                    taken = handle.take_message(self._subscription.msg_type, False)
                    if taken is not None and self._open:
                        self._receive(taken[0])
                        if self._period:
                            self._closing.wait(self._period)
                except Exception as error:
                    if not context.ok():
                        return
                    self._on_error(error)
                    time.sleep(ERROR_PAUSE)  # an error that persists must not take a core


class _EventsOnly(CallbackGroup):
    """Lets executors handle the events of a subscription, but not take its messages."""

    def can_execute(self, entity: Any) -> bool:
        """Whether an executor may run this entity."""
        return not isinstance(entity, Subscription)

    def beginning_execution(self, entity: Any) -> bool:
        """Whether an executor may run this entity now."""
        return self.can_execute(entity)

    def ending_execution(self, entity: Any) -> None:
        """Nothing to release."""


class DeferredService:
    """Calls `begin(request, response, answer)`; `answer(response)` may come from any thread.

    rclpy sends what a callback returns, and polls a callback that is a coroutine in a busy loop.
    Here the callback only passes the request on, and `send_response` starts the work instead.
    """

    def __init__(
        self,
        node: Node,
        service_type: type,
        name: str,
        begin: Callable[[Any, Any, Answer], None],
    ) -> None:
        self._begin = begin
        self._lock = threading.Lock()  # a service sends one response at a time
        # Any: rclpy's types do not allow what the docstring says.
        service: Any = node.create_service(service_type, name, _pass_on)
        self._send = service.send_response
        service.send_response = self._start

    def _start(self, exchange: tuple[Any, Any], header: Any) -> None:
        request, response = exchange
        self._begin(request, response, functools.partial(self._answer, header))

    def _answer(self, header: Any, response: Any) -> None:
        with self._lock:
            try:
                self._send(response, header)
            except (InvalidHandle, rclpy_implementation.RCLError):
                return  # the node or the client is gone


def _pass_on(request: Any, response: Any) -> Any:
    return request, response
