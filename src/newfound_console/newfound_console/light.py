# SPDX-License-Identifier: Apache-2.0
"""How nodes follow the light: drift over time, for as long as someone watches."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from newfound_console.bridge import Bridge, Subscriptions
from newfound_console.directory import Directory
from newfound_console.live import number
from newfound_msgs import msg

KEPT = 600  # points of a curve: ten minutes at one a second
MOST_NODES = 40
ADAPTING = ("detector", "classifier", "places", "segmenter")
_STATES = {
    msg.AdaptationStatus.STATE_DISABLED: "off",
    msg.AdaptationStatus.STATE_ADAPTING: "following",
    msg.AdaptationStatus.STATE_FROZEN: "frozen",
    msg.AdaptationStatus.STATE_RESTING: "resting",
}
_RESETS = {
    msg.AdaptationStatus.RESET_REQUESTED: "a person asked for it",
    msg.AdaptationStatus.RESET_ALARM: "the adapted model contradicted the original",
    msg.AdaptationStatus.RESET_NOT_NEEDED: "the light is the usual one again",
    msg.AdaptationStatus.RESET_RESTORED: "a saved state was restored",
}


class LightFeed:
    """Adaptation of all nodes that adapt."""

    def __init__(
        self, bridge: Bridge, directory: Directory, publish: Callable[[Any], None]
    ) -> None:
        self._bridge, self._directory, self._publish = bridge, directory, publish
        self._subscriptions = Subscriptions(bridge)
        self._newest: dict[str, dict[str, Any]] = {}
        self._curves: dict[str, deque[tuple[float, float | None]]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen."""
        self._task = self._bridge.loop.create_task(self._run())

    def stop(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
        self._subscriptions.close()

    async def _run(self) -> None:
        while True:
            nodes = [n for kind in ADAPTING for n in self._directory.of_kind(kind)]
            wanted = {
                f"{node}/adaptation": (
                    msg.AdaptationStatus,
                    f"{node}/adaptation",
                    partial(self._on_status, node),
                    5,
                )
                for node in nodes[:MOST_NODES]
            }
            self._subscriptions.want(wanted)
            for gone in [node for node in self._newest if node not in nodes]:
                del self._newest[gone], self._curves[gone]
            self._publish({"nodes": [self._shown(node) for node in sorted(self._newest)]})
            await asyncio.sleep(1.0)

    def _on_status(self, node: str, message: msg.AdaptationStatus) -> None:
        curve = self._curves.setdefault(node, deque(maxlen=KEPT))
        now = time.time()
        if not curve or now - curve[-1][0] >= 0.9:
            curve.append((round(now, 1), number(message.drift_mean)))
        found = self._directory.nodes.get(node)
        self._newest[node] = {
            "node": node,
            "kind": found.kind if found else "",
            "state": _STATES.get(message.state, ""),
            "drift": number(message.drift_mean),
            "updates": message.updates,
            "frames": message.frames,
            "alarms": message.alarms,
            "agreement": number(message.agreement),
            "confidence_drop": number(message.confidence_drop),
            "reset": _RESETS.get(message.last_reset_reason, ""),
            "message": message.message,
            # Domains that the statistics are composed of, in messages that have them.
            "domains": [
                [name, number(weight)]
                for name, weight in zip(
                    getattr(message, "node_names", ()),
                    getattr(message, "node_weights", ()),
                    strict=False,
                )
            ],
        }

    def _shown(self, node: str) -> dict[str, Any]:
        return {**self._newest[node], "curve": list(self._curves[node])}
