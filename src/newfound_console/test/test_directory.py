# SPDX-License-Identifier: Apache-2.0
"""Discovery and state, with messages of real publishers: several robots, thousands of unknowns."""

import asyncio
import contextlib
import json

import pytest
import websockets
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from sensor_msgs.msg import CompressedImage

from newfound_console import detectors
from newfound_console.directory import resolved
from newfound_console.node import Console
from newfound_msgs import msg
from newfound_msgs.srv import FindObject
from newfound_runtime.managed_node import LATCHED, ManagedNode
from newfound_runtime.parameters import Parameter
from newfound_runtime.testing import eventually

JPEG = b"\xff\xd8\xff"


class FakeDetector(ManagedNode):
    """Offers the topics of a detector."""

    NAME = "open_world_detector"
    PARAMETERS = (
        Parameter("image_topic", "image_raw", "Topic of the images."),
        Parameter("image_transport", "raw", "How they come."),
    )
    OUTPUTS = {  # noqa: RUF012
        "detections": (msg.OpenWorldDetections, 10),
        "unknowns": (msg.UnknownObject, 1000),
        "knowledge": (msg.KnowledgeBase, LATCHED),
    }


class FakeMemory(ManagedNode):
    """Offers the service by which an object memory is known."""

    NAME = "object_memory"
    PARAMETERS = (
        Parameter("cameras", [""], "Namespaces of the cameras."),
        Parameter("detector", "open_world_detector", "Name of the detector of each camera."),
    )

    def __init__(self, name=None, **node_arguments):
        super().__init__(name, **node_arguments)
        self.create_service(FindObject, "~/find_object", lambda _, response: response)


@pytest.fixture
def console(ros):
    return ros.started(Console, port=0)


def add_robot(ros, name):
    return ros.started(FakeDetector, f"{name}_detector", image_topic=f"/{name}/front/image_raw")


@contextlib.asynccontextmanager
async def watching(console, *channels):
    """A browser, and the newest data of each channel that it watches."""
    port = console._server.port
    address, origin = f"ws://127.0.0.1:{port}/live", f"http://127.0.0.1:{port}"
    newest = {}

    async def listen(socket):
        async for message in socket:
            if isinstance(message, str):
                found = json.loads(message)
                newest[found["channel"]] = found["data"]

    async with websockets.connect(address, origin=origin, max_size=2**24) as socket:
        await socket.send(json.dumps({"watch": ["status", *channels]}))
        task = asyncio.create_task(listen(socket))
        yield newest
        task.cancel()


async def until(condition):
    async with asyncio.timeout(60):
        while not (found := condition()):
            await asyncio.sleep(0.02)
        return found


def test_cameras_of_several_robots_come_and_go(ros, console):
    one, _ = add_robot(ros, "ada"), add_robot(ros, "bob")

    def names(newest):
        return sorted(camera["name"] for camera in newest.get("status", {}).get("cameras", []))

    async def run():
        async with watching(console) as newest:
            await until(lambda: names(newest) == ["ada · front", "bob · front"])
            topics = [camera["topic"] for camera in newest["status"]["cameras"]]
            assert sorted(topics) == ["/ada/front/image_raw", "/bob/front/image_raw"]
            assert ros.change("/ada_detector", "deactivate")
            assert ros.change("/ada_detector", "cleanup")
            await until(lambda: names(newest) == ["bob · front"])
            assert ros.change("/ada_detector", "configure")
            await until(lambda: len(names(newest)) == 2)

    asyncio.run(run())
    assert one.count_subscribers("/ada_detector/detections") == 0


def test_a_camera_has_the_object_memory_that_listens_to_its_detector(ros, console):
    for name in ("ada", "bob", "cleo"):
        add_robot(ros, name)
    ros.started(FakeMemory, "a_memory", detector="bob_detector")
    ros.started(FakeMemory, "b_memory", detector="ada_detector", cameras=["", "/elsewhere"])

    def memories(newest):
        cameras = newest.get("status", {}).get("cameras", [])
        return {camera["id"]: camera["memory"] for camera in cameras}

    async def run():
        async with watching(console) as newest:
            expected = {"/ada_detector": "/b_memory", "/bob_detector": "/a_memory"}
            await until(lambda: memories(newest) == expected | {"/cleo_detector": ""})

    asyncio.run(run())


def test_nothing_is_subscribed_to_while_nobody_watches(ros, console):
    robot = add_robot(ros, "ada")
    topic = "/ada_detector/knowledge"

    async def run():
        assert robot.count_subscribers(topic) == 0
        async with watching(console):
            await until(lambda: robot.count_subscribers(topic) == 1)
            assert robot.count_subscribers("/ada_detector/detections") == 0
            assert robot.count_subscribers("/ada_detector/unknowns") == 0

    asyncio.run(run())
    eventually(lambda: robot.count_subscribers(topic) == 0, "nobody listens")
    assert robot.count_subscribers("/diagnostics") == 0


def test_of_ten_thousand_unknown_things_a_page_is_shown_and_the_others_are_counted(ros, console):
    robot = add_robot(ros, "ada")
    channel = "inbox:/ada_detector"

    def publish(number):
        picture = [CompressedImage(data=JPEG + number.to_bytes(4) + bytes(2000))]
        state = msg.UnknownObject.STATE_WAITING
        robot.publish("unknowns", msg.UnknownObject(id=f"u{number}", state=state, crops=picture))

    async def run():
        async with watching(console, channel) as newest:
            await until(lambda: robot.count_subscribers("/ada_detector/unknowns") == 1)
            await asyncio.sleep(0.3)
            unknowns = console.pages.detectors["/ada_detector"]._unknowns
            for number in range(10_000):
                publish(number)
                if number % 80 == 79:  # fewer than the subscription keeps: none is lost
                    await until(lambda last=f"u{number}": last in unknowns)
            hidden = detectors.MAX_UNKNOWNS - detectors.MAX_CARDS
            await until(lambda: newest.get(channel, {}).get("hidden") == hidden)
            assert len(newest[channel]["cards"]) == detectors.MAX_CARDS
            assert len(unknowns) == detectors.MAX_UNKNOWNS
            assert console.pages.pictures.size <= 64 * 2**20

    asyncio.run(run())


def test_a_node_without_diagnostics_is_down_and_one_that_is_not_active_is_not_well(
    ros, console, monkeypatch
):
    monkeypatch.setattr("newfound_console.directory.SILENT", 0.5)
    publisher = ros.publisher(DiagnosticArray, "/diagnostics")

    def levels(newest):
        return {node["name"]: node["level"] for node in newest.get("status", {}).get("nodes", [])}

    async def run():
        async with watching(console) as newest:
            await until(lambda: publisher.get_subscription_count() >= 1)
            status = DiagnosticStatus(
                name="/robot/arm", level=DiagnosticStatus.WARN, message="hot"
            )
            publisher.publish(DiagnosticArray(status=[status]))
            await until(lambda: levels(newest).get("/robot/arm") == "warn")
            await until(lambda: levels(newest).get("/robot/arm") == "down")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("node", "name", "expected"),
    [
        ("/camera/detector", "image", "/camera/image"),
        ("/detector", "image", "/image"),
        ("/a/b/detector", "/c/image", "/c/image"),
        ("/a/detector", "~/image", "/a/detector/image"),
        ("/a/detector", "", ""),
    ],
)
def test_names_are_resolved_as_the_node_does(node, name, expected):
    assert resolved(node, name) == expected
