# SPDX-License-Identifier: Apache-2.0
import array
import io
import threading

import numpy as np
from PIL import Image as PillowImage
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from newfound_nodes import qos
from tests.harness import eventually, image
from tests.nodes import Echo


def test_nothing_is_subscribed_until_somebody_listens_and_nothing_after(ros):
    camera = ros.publisher(Image, "/image")
    node = ros.started(Echo)
    for _ in range(3):
        camera.publish(image())
    assert not node._input.subscribed
    subscription = ros.client.create_subscription(Header, "/echo/echo", lambda m: None, 10)
    ros.connected(camera)
    ros.client.destroy_subscription(subscription)
    eventually(lambda: camera.get_subscription_count() == 0, "unsubscribed again")
    assert node._input.counters.received == 0


def test_a_node_that_adapts_gets_frames_without_listeners(ros):
    camera = ros.publisher(Image, "/image")
    node = ros.started(Echo, always=True)
    ros.connected(camera)
    camera.publish(image())
    eventually(lambda: node._input.counters.processed == 1)


def test_reliability_follows_the_cameras_as_they_come_and_go(ros):
    ros.collect(Header, "/echo/echo")
    node = ros.started(Echo)
    reliable = ros.publisher(Image, "/image", reliable=True)
    eventually(lambda: node._input.reliability() == "reliable", "matched the reliable camera")
    best_effort = ros.publisher(Image, "/image", reliable=False)
    eventually(lambda: node._input.reliability() == "best_effort", "lowered for the second one")
    ros.connected(best_effort)
    ros.connected(reliable)


def test_a_subscription_in_the_making_does_not_outlive_the_deactivation(ros, monkeypatch):
    begun, go_on, matching = threading.Event(), threading.Event(), qos.matching

    def held(*arguments):
        begun.set()
        assert go_on.wait(60)
        return matching(*arguments)

    node = ros.started(Echo)
    monkeypatch.setattr(qos, "matching", held)
    looking = threading.Thread(target=node._input.refresh, args=(True,))
    looking.start()
    assert begun.wait(60)
    ending = threading.Thread(target=ros.change, args=("/echo", "deactivate"))
    ending.start()
    ending.join(0.5)  # time to overtake, if it could
    go_on.set()
    looking.join()
    ending.join()
    assert not node._input.subscribed
    node._input.refresh(True)  # of a thread that has seen the node active just before
    assert not node._input.subscribed
    source = node._input
    assert ros.change("/echo", "cleanup")
    assert not source.subscribed


def test_a_best_effort_camera_is_heard(ros):
    camera = ros.publisher(Image, "/image", reliable=False)
    answers = ros.collect(Header, "/echo/echo")
    ros.started(Echo)
    ros.connected(camera)
    eventually(lambda: camera.publish(image(number=3)) or answers)
    assert answers[0].stamp.sec == 3


def test_the_reliability_can_be_forced(ros):
    ros.publisher(Image, "/image", reliable=True)
    ros.collect(Header, "/echo/echo")
    node = ros.started(Echo, image_reliability="best_effort")
    eventually(lambda: node._input.subscribed)
    assert node._input.reliability() == "best_effort"


def test_compressed_images_come_from_the_sibling_topic_of_the_remapped_one(ros):
    buffer = io.BytesIO()
    PillowImage.fromarray(np.zeros((48, 64, 3), np.uint8)).save(buffer, "JPEG")
    message = CompressedImage(format="jpeg", data=array.array("B", buffer.getvalue()))
    message.header.frame_id = "left eye"
    camera = ros.publisher(CompressedImage, "/camera/image_raw/compressed")
    answers = ros.collect(Header, "/echo/echo")
    node = ros.started(Echo, image_topic="/camera/image_raw", image_transport="compressed")
    ros.connected(camera)
    camera.publish(message)
    eventually(lambda: answers)
    assert answers[0] == message.header
    assert node.shapes == [(48, 64, 3)]
