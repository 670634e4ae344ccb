# SPDX-License-Identifier: Apache-2.0
import array
import io
import threading

import numpy as np
import pytest
from PIL import Image as PillowImage
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from newfound_runtime import qos
from newfound_runtime.image_input import Pace
from newfound_runtime.testing import Echo, eventually, image


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


@pytest.mark.parametrize(
    ("camera", "rate", "taken"), [(15, 10, 100), (30, 1, 10), (10, 10, 100), (5, 10, 50)]
)
def test_at_most_so_many_images_a_second_are_taken_evenly_and_no_fewer(camera, rate, taken):
    pace, noise = Pace(), np.random.default_rng(0)
    arrivals = (np.arange(10 * camera) + noise.uniform(-0.05, 0.05, 10 * camera)) / camera
    times = [now for now in 1000 + arrivals if pace.takes(now, rate)]
    assert abs(len(times) - taken) <= 1
    assert np.diff(times).max() < 1 / rate + 1.2 / camera


def test_a_new_rate_counts_at_once():
    pace = Pace()
    assert pace.takes(100.0, rate=0.01)
    assert not pace.takes(101.0, rate=0.01)
    assert pace.takes(102.0, rate=10)
    assert not pace.takes(102.01, rate=10)
    assert pace.takes(102.02, rate=0)


def test_images_above_the_rate_are_dropped_before_they_are_decoded(ros):
    camera = ros.publisher(Image, "/image")
    answers = ros.collect(Header, "/echo/echo")
    node = ros.started(Echo, max_rate=0.001)
    ros.connected(camera)
    eventually(lambda: node._input.reliability() == "reliable")
    camera.publish(image(number=1))
    eventually(lambda: answers)
    broken = image(number=2)
    broken.encoding = "nonsense"
    camera.publish(broken)
    counters = node._input.counters
    eventually(lambda: counters.dropped == 1)
    assert ros.set("/echo", max_rate=0.0).successful
    camera.publish(image(number=3))
    eventually(lambda: len(answers) == 2)
    assert (counters.received, counters.processed, counters.failed) == (3, 2, 0)
