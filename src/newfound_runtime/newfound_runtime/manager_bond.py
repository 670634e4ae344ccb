# SPDX-License-Identifier: Apache-2.0
"""The bond of a node with its lifecycle manager, by bondpy where it is installed.

As in Nav2: from its activation on the node sends heartbeats on the topic `bond`, under its own
name; a manager that misses them takes the node for dead.
"""

from typing import Any

from rclpy.node import Node

try:
    from bondpy import bondpy
except ImportError:
    bondpy = None

TOPIC, TIMEOUT = "bond", 4.0  # s without a heartbeat after which a bond is broken, as in Nav2
AVAILABLE = bondpy is not None
MISSING = (
    "bond_heartbeat_period is set, but bondpy is not installed: install it, or set the period to "
    "0.0 and bond_timeout of the lifecycle manager, too"
)


class ManagerBond:
    """A bond that is open until `close`."""

    def __init__(self, node: Node, period: float) -> None:
        self._node, self._closed = node, False
        self._bond: Any = bondpy.Bond(node, TOPIC, node.get_name(), on_broken=self._broken)
        self._bond.heartbeat_period, self._bond.heartbeat_timeout = period, TIMEOUT
        self._bond.start()

    def _broken(self) -> None:
        if not self._closed and self._node.context.ok():
            self._node.get_logger().warning(
                f"no bond with a lifecycle manager on {self._node.resolve_topic_name(TOPIC)}: the "
                "node goes on without one"
            )

    def close(self) -> None:
        """Tell the manager that this is no failure."""
        self._closed = True
        # bondpy destroys both, but the node and its executor would still have them in their lists.
        self._node.destroy_subscription(self._bond.sub)
        self._bond.shutdown()
        self._node.destroy_publisher(self._bond.pub)
