# SPDX-License-Identifier: Apache-2.0
"""Running nodes in a process: one executor, an orderly end, failures that stay where they are."""

import sys
import traceback
from collections.abc import Callable, Sequence

import rclpy
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, ShutdownException
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.logging import get_logger
from rclpy.node import Node

from newfound_core.allocation import keep_freed_memory
from newfound_nodes.managed_node import ManagedNode

NodeFactory = Callable[[], Node]


def run(node_class: type[ManagedNode], arguments: Sequence[str] | None = None) -> int:
    """The body of an executable: one node until Ctrl-C or SIGTERM; returns the exit code."""
    rclpy.init(args=arguments)
    try:
        return serve([node_class])
    finally:
        rclpy.try_shutdown()


def serve(factories: Sequence[NodeFactory]) -> int:
    """Make the nodes and spin them until the context ends; 1 if not one could be made."""
    keep_freed_memory()
    # A node that loads its model holds a thread for as long as that takes: two for each
    # node, so that the others still answer.
    executor = MultiThreadedExecutor(num_threads=2 * len(factories) + 2)
    nodes = [node for node in map(_make, factories) if node is not None]
    for node in nodes:
        executor.add_node(node)
    try:
        if nodes:
            spin(executor)
    except KeyboardInterrupt:
        pass
    finally:
        _end(executor, nodes)
    return 0 if nodes else 1


def _make(factory: NodeFactory) -> Node | None:
    try:
        return factory()
    except Exception:
        name = getattr(factory, "__name__", repr(factory))
        get_logger("newfound").error(f"{name} could not be made:\n{traceback.format_exc()}")
        return None


def spin(executor: MultiThreadedExecutor) -> None:
    """Spin; an exception in one node's callback is logged and stops neither it nor the others."""
    while executor.context.ok():
        try:
            executor.spin_once()
        except (ExternalShutdownException, ShutdownException):
            return
        except rclpy_implementation.InvalidHandle:
            continue  # a transition destroyed a publisher while the executor looked at it
        except Exception:
            if not executor.context.ok():
                return
            get_logger("newfound").error(f"a callback raised:\n{traceback.format_exc()}")


def _end(executor: MultiThreadedExecutor, nodes: Sequence[Node]) -> None:
    for node in nodes:
        if isinstance(node, ManagedNode):
            node.close()
    executor.shutdown(timeout_sec=5.0)
    for node in nodes:
        node.destroy_node()
    sys.stdout.flush()
