# SPDX-License-Identifier: Apache-2.0
import array
import io
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from PIL import Image as PillowImage
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from newfound_runtime import image_input
from newfound_runtime.image_input import RateLimiter, matching_qos
from newfound_runtime.testing import Echo, eventually, image

RELIABLE, BEST_EFFORT = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT
VOLATILE, LATCHED = DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL


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
    begun, go_on, matching = threading.Event(), threading.Event(), matching_qos

    def held(*arguments):
        begun.set()
        assert go_on.wait(60)
        return matching(*arguments)

    node = ros.started(Echo)
    monkeypatch.setattr(image_input, "matching_qos", held)
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
    pace, noise = RateLimiter(), np.random.default_rng(0)
    arrivals = (np.arange(10 * camera) + noise.uniform(-0.05, 0.05, 10 * camera)) / camera
    times = [now for now in 1000 + arrivals if pace.passes(now, rate)]
    assert abs(len(times) - taken) <= 1
    assert np.diff(times).max() < 1 / rate + 1.2 / camera


def test_a_new_rate_counts_at_once():
    pace = RateLimiter()
    assert pace.passes(100.0, rate=0.01)
    assert not pace.passes(101.0, rate=0.01)
    assert pace.passes(102.0, rate=10)
    assert not pace.passes(102.01, rate=10)
    assert pace.passes(102.02, rate=0)


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


def publishers(*offers):
    return [
        SimpleNamespace(qos_profile=QoSProfile(depth=1, reliability=r, durability=d))
        for r, d in offers
    ]


@pytest.mark.parametrize(
    ("offers", "reliability", "durability"),
    [
        ([], BEST_EFFORT, VOLATILE),
        ([(RELIABLE, VOLATILE)], RELIABLE, VOLATILE),
        ([(BEST_EFFORT, VOLATILE)], BEST_EFFORT, VOLATILE),
        ([(RELIABLE, LATCHED)], RELIABLE, LATCHED),
        ([(RELIABLE, LATCHED), (BEST_EFFORT, VOLATILE)], BEST_EFFORT, VOLATILE),
    ],
)
def test_the_strictest_profile_that_every_publisher_offers(offers, reliability, durability):
    profile = matching_qos(publishers(*offers))
    assert (profile.reliability, profile.durability) == (reliability, durability)


def test_a_wish_overrides_what_is_offered():
    offer = publishers((BEST_EFFORT, VOLATILE))
    assert matching_qos(offer, "reliable").reliability == RELIABLE
    assert matching_qos(publishers((RELIABLE, VOLATILE)), "best_effort").reliability == BEST_EFFORT


def test_a_publisher_with_incompatible_qos_is_reported(ros):
    ros.collect(Header, "/echo/echo")
    ros.publisher(Image, "/image", reliable=False)
    node = ros.started(Echo, image_reliability="reliable")
    newest = ros.diagnostics("/echo")
    eventually(node._input.problems, "noticed")
    eventually(lambda: newest() and "incompatible QoS (RELIABILITY)" in newest().message)
    assert newest().level == DiagnosticStatus.WARN
    eventually(lambda: any("incompatible QoS" in text for text in ros.warnings("/echo")))


def test_two_cameras_on_one_topic_are_warned_about(ros):
    ros.collect(Header, "/echo/echo")
    ros.publisher(Image, "/image")
    ros.publisher(Image, "/image")
    node = ros.started(Echo)
    eventually(node._input.problems, "noticed")
    assert "2 publishers on /image, whose frames are mixed: /client, /client" in str(
        node._input.problems()
    )
    eventually(lambda: any("2 publishers" in text for text in ros.warnings("/echo")))


def test_a_remapping_works_beside_the_parameter(ros):
    ros.collect(Header, "/echo/echo")
    camera = ros.publisher(Image, "/front/image_raw")
    node = Echo(context=ros.context, cli_args=["--ros-args", "-r", "image:=/front/image_raw"])
    ros.nodes.append(node)
    ros.executor.add_node(node)
    ros.connected(camera)
    assert node._input.topic == "/front/image_raw"


def test_qos_overrides_win_over_what_is_matched(ros):
    ros.collect(Header, "/echo/echo")
    camera = ros.publisher(Image, "/image", reliable=True)
    override = {"qos_overrides./image.subscription.reliability": "best_effort"}
    ros.started(Echo, **override)
    ros.connected(camera)
    [found] = ros.client.get_subscriptions_info_by_topic("/image")
    assert found.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT


def test_the_qos_of_an_output_can_be_overridden(ros):
    override = {"qos_overrides./echo/echo.publisher.reliability": "best_effort"}
    ros.started(Echo, **override)
    [found] = ros.client.get_publishers_info_by_topic("/echo/echo")
    assert found.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT


def test_an_exception_while_receiving_is_counted_and_the_next_frame_arrives(ros, monkeypatch):
    answers = ros.collect(Header, "/echo/echo")
    camera = ros.publisher(Image, "/image")
    node = ros.started(Echo)
    ros.connected(camera)
    eventually(lambda: node._input.reliability() == "reliable", "matched")
    put, failures = node._input.mailbox.put, iter([True, True])

    def fails_twice(item):
        if next(failures, False):
            raise RuntimeError("boom")
        return put(item)

    monkeypatch.setattr(node._input.mailbox, "put", fails_twice)
    for number in range(2):
        camera.publish(image(number=number))
        eventually(lambda n=number: node._input.counters.failed == n + 1)
    camera.publish(image(number=2))
    eventually(lambda: answers and answers[-1].stamp.sec == 2)
    eventually(lambda: any("RuntimeError: boom" in text for text in ros.warnings("/echo")))
