# SPDX-License-Identifier: Apache-2.0
"""Which robots, cameras and nodes there are, and how they are: from the ROS graph and diagnostics.

A camera is an image topic; the nodes that work on its images say so in their parameter
`image_topic`. Nothing is asked for while no browser is open.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
from rclpy.qos import qos_profile_sensor_data

from newfound_console.bridge import Bridge, CallError, Subscriptions

BUDGET = ("questions_per_minute", "max_open_questions")  # of a curator
# What a node is, by the type of a topic or service that it alone offers, and that one's name.
TOPICS = {
    "newfound_msgs/msg/OpenWorldDetections": ("detector", "/detections"),
    "newfound_msgs/msg/PlaceCategory": ("places", "/place"),
    "newfound_msgs/msg/Classification": ("classifier", "/classification"),
    "newfound_msgs/msg/LabelProposals": ("curator", "/proposals"),
}
SERVICES = {
    "newfound_msgs/srv/FindObject": ("memory", "/find_object"),
    "newfound_msgs/srv/AddSegmentClass": ("segmenter", "/add_segment_class"),
}
ASKED = {
    "curator": ("detector", *BUDGET),
    "memory": ("cameras", "detector"),
}  # parameters of interest; else those of images
IMAGES = ("image_topic", "image_transport")
PERIOD = 1.0  # s between two looks at the graph
SILENT = 5.0  # s without diagnostics after which a node is down
FORGOTTEN = 600.0  # s after which a node that is down is not shown any more
MAX_NODES = 300
_LEVELS = {b"\x00": "ok", b"\x01": "warn", b"\x02": "error", b"\x03": "error"}


@dataclass
class Found:
    """A node of ours: what it does, and its parameters once it has told them."""

    kind: str
    parameters: dict[str, Any] = field(default_factory=dict)
    asking: bool = False


@dataclass
class Health:
    """What a node says of itself, and when."""

    level: str
    message: str
    values: dict[str, str]
    heard: float  # s, time.monotonic()


@dataclass
class Camera:
    """Images and the nodes that work on them."""

    id: str  # name of the detector, or the topic where there is none
    topic: str = ""  # of the images; empty: not known
    transport: str = "raw"
    detector: str = ""
    curator: str = ""
    budget: list[float] = field(default_factory=list)  # questions a minute, and open at a time
    places: list[str] = field(default_factory=list)
    classifiers: list[str] = field(default_factory=list)
    segmenters: list[str] = field(default_factory=list)
    memory: str = ""  # the object memory that listens to the detector
    name: str = ""  # for people


class Directory:
    """The nodes of the domain; `on_change` is called when something is different."""

    def __init__(self, bridge: Bridge, on_change: Callable[[], None]) -> None:
        self._bridge, self._on_change = bridge, on_change
        self._subscriptions = Subscriptions(bridge)
        self.nodes: dict[str, Found] = {}
        self.health: dict[str, Health] = {}
        self.cameras: dict[str, Camera] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        topic = "/diagnostics"
        wanted = (DiagnosticArray, topic, self._on_diagnostics, qos_profile_sensor_data)
        self._subscriptions.want({topic: wanted})
        self._task = self._bridge.loop.create_task(self._watch())

    def stop(self) -> None:
        """Look no more; what is down then is found out anew."""
        self._subscriptions.close()
        if self._task is not None:
            self._task.cancel()
        self._task = None
        self.health.clear()

    def of_kind(self, kind: str) -> list[str]:
        """Names of the nodes of a kind."""
        return sorted(name for name, found in self.nodes.items() if found.kind == kind)

    async def _watch(self) -> None:
        while True:
            self.look()
            self._on_change()
            await asyncio.sleep(PERIOD)

    def look(self) -> None:
        """Look at the graph."""
        present = dict(self._present())
        for name in [name for name in self.nodes if name not in present]:
            del self.nodes[name]
        for name, kind in present.items():
            found = self.nodes.setdefault(name, Found(kind))
            if not found.parameters and not found.asking:
                found.asking = True
                self._bridge.loop.create_task(self._ask(name, found))
        self.cameras = {camera.id: camera for camera in self._cameras()}
        self._forget_old()

    def _present(self) -> Iterable[tuple[str, str]]:
        node = self._bridge.node
        for topic, types in node.get_topic_names_and_types():
            kind, ending = TOPICS.get(types[0], ("", ""))
            # Our own subscription makes a topic appear, too.
            if kind and topic.endswith(ending) and node.count_publishers(topic):
                yield topic.removesuffix(ending), kind
        for service, types in node.get_service_names_and_types():
            kind, ending = SERVICES.get(types[0], ("", ""))
            if kind and service.endswith(ending):
                yield service.removesuffix(ending), kind

    async def _ask(self, name: str, found: Found) -> None:
        names = ASKED.get(found.kind, IMAGES)
        try:
            request = GetParameters.Request(names=list(names))
            answer = await self._bridge.call(GetParameters, f"{name}/get_parameters", request)
            found.parameters = {"": True} | {
                key: _value(value) for key, value in zip(names, answer.values, strict=False)
            }
        except CallError:
            await asyncio.sleep(PERIOD)  # it is asked again
        finally:
            found.asking = False

    def _cameras(self) -> list[Camera]:
        found: dict[str, Camera] = {}
        curators = {
            resolved(name, self.nodes[name].parameters.get("detector") or ""): name
            for name in self.of_kind("curator")
        }
        for name in self.of_kind("detector"):
            given = self.nodes[name].parameters
            camera = Camera(name, detector=name, curator=curators.get(name, ""))
            if camera.curator:
                asked = self.nodes[camera.curator].parameters
                camera.budget = [asked[key] for key in BUDGET if asked.get(key) is not None]
            if given.get("image_topic"):
                camera.topic = resolved(name, given["image_topic"])
                camera.transport = given.get("image_transport") or "raw"
            found[name] = camera
        for kind in ("places", "classifier", "segmenter"):
            for name in self.of_kind(kind):
                self._attach(found, kind, name)
        memories = self._memories()
        for camera in found.values():
            only = next(iter(memories)) if len(memories) == 1 else ""
            camera.memory = next((m for m in memories if camera.detector in memories[m]), only)
            camera.name = _shown(camera, found.values())
        return list(found.values())

    def _memories(self) -> dict[str, list[str]]:
        """The detectors that each object memory listens to."""
        found = {}
        for name in self.of_kind("memory"):
            given = self.nodes[name].parameters
            detector = given.get("detector") or ""
            found[name] = [
                resolved(name, f"{camera}/{detector}" if camera else detector)
                for camera in given.get("cameras") or ()
            ]
        return found

    def _attach(self, cameras: dict[str, Camera], kind: str, name: str) -> None:
        given = self.nodes[name].parameters
        if not given.get("image_topic"):
            return
        topic = resolved(name, given["image_topic"])
        on_it = [camera for camera in cameras.values() if camera.topic == topic]
        if not on_it:
            transport = given.get("image_transport") or "raw"
            on_it = [cameras.setdefault(topic, Camera(topic, topic, transport))]
        for camera in on_it:
            nodes: dict[str, list[str]] = {
                "places": camera.places,
                "classifier": camera.classifiers,
                "segmenter": camera.segmenters,
            }
            nodes[kind].append(name)

    # Health.

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        now = time.monotonic()
        for status in message.status[:MAX_NODES]:
            if not status.name.startswith("/") or len(self.health) >= MAX_NODES:
                continue
            values = {pair.key: pair.value for pair in status.values[:60]}
            level = _LEVELS.get(status.level, "error")
            if values.get("state", "active") != "active" and level == "ok":
                level = "warn"
            self.health[status.name] = Health(level, status.message[:500], values, now)

    def _forget_old(self) -> None:
        oldest = time.monotonic() - FORGOTTEN
        for name in [name for name, health in self.health.items() if health.heard < oldest]:
            del self.health[name]

    def report(self) -> dict[str, Any]:
        """For the page: cameras, nodes and how each is."""
        now = time.monotonic()
        nodes = [
            {
                "name": name,
                "kind": self.nodes[name].kind if name in self.nodes else "",
                "level": "down" if now - health.heard > SILENT else health.level,
                "message": health.message,
                "silent": round(now - health.heard),
                "rate": health.values.get("rate_hz", ""),
                "latency": health.values.get("latency_p50_ms", ""),
            }
            for name, health in sorted(self.health.items())
        ]
        cameras = [vars(camera) for camera in self.cameras.values()]
        return {"cameras": cameras, "nodes": nodes, "memories": self.of_kind("memory")}


def resolved(node: str, name: str) -> str:
    """A topic or node name of a parameter, as the node itself resolves it."""
    if not name or name.startswith("/"):
        return name
    if name.startswith("~"):
        return f"{node}/{name.lstrip('~/')}"
    return f"{node.rpartition('/')[0]}/{name}"


def _shown(camera: Camera, everyone: Iterable[Camera]) -> str:
    """A name for people: where the images come from, and the detector if that leaves a doubt."""
    source = (camera.topic or camera.id).strip("/")
    place = source.rpartition("/")[0] or source
    place = place.replace("/", " · ").replace("_", " ")
    same = [other for other in everyone if other.topic == camera.topic and other.detector]
    if camera.topic and len(same) > 1:
        return f"{place} ({camera.detector.rpartition('/')[2]})"
    return place


def _value(value: Any) -> Any:
    return {
        ParameterType.PARAMETER_STRING: value.string_value,
        ParameterType.PARAMETER_DOUBLE: value.double_value,
        ParameterType.PARAMETER_INTEGER: value.integer_value,
        ParameterType.PARAMETER_STRING_ARRAY: list(value.string_array_value),
    }.get(value.type)
