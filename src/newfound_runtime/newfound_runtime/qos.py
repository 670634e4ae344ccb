# SPDX-License-Identifier: Apache-2.0
"""Quality of service that fits the other side."""

from collections.abc import Sequence

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.topic_endpoint_info import TopicEndpointInfo

DEPTH = 5  # frames kept by DDS while the process is busy; the mailbox keeps the newest

LATCHED = QoSProfile(
    depth=1,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)


def matching(publishers: Sequence[TopicEndpointInfo], wish: str = "auto") -> QoSProfile:
    """The strictest profile that every publisher of the topic can satisfy.

    Asking for more than is offered connects nothing, silently; asking for less loses frames
    that a reliable camera would have sent again. With no publisher yet, ask for the least.
    A `wish` of "reliable" or "best_effort" overrides the reliability.
    """
    offered = [publisher.qos_profile for publisher in publishers]
    reliable = bool(offered) and all(
        profile.reliability == ReliabilityPolicy.RELIABLE for profile in offered
    )
    if wish != "auto":
        reliable = wish == "reliable"
    latched = bool(offered) and all(
        profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for profile in offered
    )
    return QoSProfile(
        depth=DEPTH,
        history=HistoryPolicy.KEEP_LAST,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=(DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE),
    )
