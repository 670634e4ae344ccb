# SPDX-License-Identifier: Apache-2.0
"""Several nodes in one process, with one copy of torch and of the models' libraries.

    ros2 run newfound_nodes container --ros-args --params-file robot.yaml \\
        -p nodes:="['adaptive_classifier', 'place_categorizer:/rear/places']"

Each entry is the name of one of our executables, or the dotted path of a ManagedNode
class, optionally followed by `:` and the node's name, with slashes for namespaces below the
container's. Parameters come from the same file that separate processes would use, matched by
the node's full name. A node that cannot be made is reported; the others run.
"""

import functools
import importlib
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, ShutdownException
from rclpy.logging import get_logger
from rclpy.node import Node

from newfound_core.allocation import keep_freed_memory, spare_loaded_objects
from newfound_runtime.managed_node import ManagedNode
from newfound_runtime.rclpy_compat import InvalidHandle
from newfound_runtime.shared_memory import remove_dead_segments

GROUP = "newfound.nodes"
NodeFactory = Callable[[], Node]


class ContainerError(Exception):
    """An entry of the container's node list that names nothing we can run."""


def node_class(name: str) -> type[ManagedNode]:
    """The node class registered under a name, or at a dotted path."""
    if "." not in name:
        found = entry_points(group=GROUP, name=name)
        if not found:
            known = ", ".join(sorted(entry.name for entry in entry_points(group=GROUP))) or "none"
            raise ContainerError(f"no node '{name}'; the nodes installed here: {known}")
        loaded = next(iter(found)).load()
    else:
        module, _, attribute = name.rpartition(".")
        loaded = getattr(importlib.import_module(module), attribute, None)
    if not (isinstance(loaded, type) and issubclass(loaded, ManagedNode)):
        raise ContainerError(f"'{name}' is not a ManagedNode class")
    return loaded


def make_node(entry: str, base: str = "/", **node_arguments: Any) -> ManagedNode:
    """Make the node of one entry of the list, below the container's own namespace."""
    kind, _, full_name = entry.partition(":")
    loaded = node_class(kind)
    namespace, _, name = full_name.rpartition("/")
    namespace = f"{base.rstrip('/')}/{namespace.strip('/')}".rstrip("/") or "/"
    # As rules of its own: those of the process (a launch file's name and namespace) are
    # meant for the container and would otherwise apply to every node in it.
    rules = [f"__ns:={namespace}", f"__node:={name or loaded.NAME}"]
    arguments = ["--ros-args", *(part for rule in rules for part in ("-r", rule))]
    return loaded(cli_args=arguments, **node_arguments)


def run(node_class: type[ManagedNode], arguments: Sequence[str] | None = None) -> int:
    """Run one node until Ctrl-C or SIGTERM; returns the exit code."""
    return _in_context(lambda: [node_class], arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the nodes that the parameter `nodes` lists; returns the exit code."""
    return _in_context(_listed_nodes, arguments)


def _in_context(
    factories: Callable[[], Sequence[NodeFactory]], arguments: Sequence[str] | None
) -> int:
    try:
        freed = remove_dead_segments()
        try:
            rclpy.init(args=None if arguments is None else list(arguments))
        except RuntimeError as error:  # rcl cannot read an argument or a parameter file
            get_logger("newfound").error(str(error))
            return 1
        if freed:
            text = f"removed {freed / 2**20:.0f} MB of shared memory of processes that were killed"
            get_logger("newfound").info(text)
        return serve(factories())
    except KeyboardInterrupt:  # before the nodes were made: there is nothing to end in order
        return 0
    finally:
        rclpy.try_shutdown()


def _listed_nodes() -> list[NodeFactory]:
    """The nodes that the parameter `nodes` of a node called container lists."""
    container = Node("container")
    factories: list[NodeFactory] = []
    try:
        entries = container.declare_parameter("nodes", [""]).value
    except ParameterException as error:
        container.get_logger().error(str(error))
        return factories
    for entry in filter(None, entries):
        factory = functools.partial(make_node, entry, container.get_namespace())
        factory.__name__ = entry  # type: ignore[attr-defined]
        factories.append(factory)
    if not factories:
        container.get_logger().error("nothing to run: the parameter `nodes` is empty")
    container.destroy_node()
    return factories


def serve(factories: Sequence[NodeFactory]) -> int:
    """Make the nodes and spin them until the context ends; 1 if not one could be made."""
    keep_freed_memory()
    # A node that loads its model holds a thread for as long as that takes: two for each
    # node, so that the others still answer.
    executor = MultiThreadedExecutor(num_threads=2 * len(factories) + 2)
    nodes: list[Node] = []
    try:
        for factory in factories:
            node = _make(factory)
            if node is not None:
                if isinstance(node, ManagedNode):
                    node.on_loaded = spare_loaded_objects
                nodes.append(node)
                executor.add_node(node)
        if nodes:
            spin(executor)
    except KeyboardInterrupt:
        return 0
    finally:
        # Nodes save their state now. A second Ctrl-C would end that: of an impatient person, or of
        # systemd and `ros2 launch`, which both send one.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        _end(executor, nodes)
    return 0 if nodes or not rclpy.ok() else 1


def _make(factory: NodeFactory) -> Node | None:
    try:
        return factory()
    except Exception as error:
        if not rclpy.ok():
            return None  # Ctrl-C while the node was made
        name = getattr(factory, "__name__", repr(factory))
        why = str(error) if isinstance(error, ContainerError) else f"\n{traceback.format_exc()}"
        get_logger("newfound").error(f"{name} could not be made: {why}")
        return None


def spin(executor: MultiThreadedExecutor) -> None:
    """Spin; an exception in one node's callback is logged and stops neither it nor the others."""
    while executor.context.ok():
        try:
            executor.spin_once()
        except (ExternalShutdownException, ShutdownException):
            return
        except InvalidHandle:
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


if __name__ == "__main__":
    sys.exit(main())
