# SPDX-License-Identifier: Apache-2.0
import array
import re
import threading
import time
from typing import ClassVar

import pytest
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import State
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from newfound_runtime import perception_node
from newfound_runtime.perception_node import PerceptionNode
from newfound_runtime.testing import (
    ACTIVE,
    FINALIZED,
    INACTIVE,
    UNCONFIGURED,
    Echo,
    eventually,
    image,
    values,
)


def worker_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.endswith("-worker")]


@pytest.fixture
def stream(ros):
    """A camera, an active echo node and the list of its answers, connected."""
    camera = ros.publisher(Image, "/image")
    answers = ros.collect(Header, "/echo/echo")
    node = ros.started(Echo)
    ros.connected(camera)
    eventually(lambda: node._input.reliability() == "reliable")
    return camera, node, answers


def test_the_output_header_is_the_input_header(stream):
    camera, _, answers = stream
    sent = image(number=42)
    camera.publish(sent)
    eventually(lambda: answers)
    assert answers == [sent.header]


def test_autostart_off_waits_for_a_manager(ros):
    ros.add(Echo, autostart=False)
    assert ros.state("/echo") == UNCONFIGURED
    assert ros.change("/echo", "configure")
    assert ros.state("/echo") == INACTIVE
    assert ros.change("/echo", "activate")
    assert ros.state("/echo") == ACTIVE
    assert ros.change("/echo", "deactivate")
    assert ros.change("/echo", "cleanup")
    assert ros.state("/echo") == UNCONFIGURED
    assert worker_threads() == []


def test_a_node_can_go_round_its_lifecycle_many_times(ros):
    camera = ros.publisher(Image, "/image")
    answers = ros.collect(Header, "/echo/echo")
    ros.started(Echo)
    for lap in range(1, 4):
        ros.connected(camera)
        camera.publish(image(number=lap))
        eventually(lambda lap=lap: answers and answers[-1].stamp.sec == lap)
        for transition in ("deactivate", "cleanup", "configure", "activate"):
            assert ros.change("/echo", transition)
    assert worker_threads() == ["echo-worker"]


def test_an_impossible_transition_is_answered_and_harms_nothing(ros, stream):
    camera, _, answers = stream
    assert ros.change("/echo", "configure") is False
    assert ros.state("/echo") == ACTIVE
    camera.publish(image(number=1))
    eventually(lambda: answers)


def test_shutdown_ends_the_worker(ros):
    node = ros.started(Echo)
    assert ros.change("/echo", "shutdown")
    assert node.state() == FINALIZED
    assert worker_threads() == []


def test_a_load_that_raises_leaves_the_node_unconfigured_with_a_traceback(ros):
    node = ros.add(Echo, fail_in="load")
    eventually(lambda: ros.logged("asked to fail in load"), "traceback in the log")
    eventually(lambda: ros.state("/echo") == UNCONFIGURED)
    assert ros.set("/echo", fail_in="").successful
    assert ros.change("/echo", "configure")
    assert node.state() == INACTIVE


def test_a_process_that_raises_costs_the_frame_and_nothing_else(ros, stream, capfd):
    camera, node, answers = stream
    assert ros.set("/echo", fail_in="process").successful
    camera.publish(image(number=1))
    eventually(lambda: node._input.counters.failed == 1)
    assert "asked to fail in process" in capfd.readouterr().err
    assert node.state() == ACTIVE
    ros.set("/echo", fail_in="")
    camera.publish(image(number=2))
    eventually(lambda: answers)
    assert answers[0].stamp.sec == 2


def test_failing_frames_are_reported_at_a_throttled_rate(ros, stream, capfd):
    camera, node, _ = stream
    bad = image()
    bad.encoding = "nonsense"
    for expected in range(1, 31):
        camera.publish(bad)
        eventually(lambda expected=expected: node._input.counters.failed == expected)
    assert 1 <= capfd.readouterr().err.count("frame skipped") <= 3


def test_a_parameter_check_that_raises_refuses_the_change_with_a_traceback(ros, stream, capfd):
    ros.set("/echo", fail_in="check")
    result = ros.set("/echo", mood="wild")
    assert not result.successful
    assert "RuntimeError" in result.reason
    assert "Traceback" in capfd.readouterr().err
    assert stream[1].param("mood") == "calm"


def test_a_diagnose_or_unload_that_raises_is_logged_and_survived(ros, capfd):
    status = ros.diagnostics("/echo")
    ros.started(Echo, fail_in="diagnose")
    eventually(lambda: status() and values(status())["state"] == "active")
    assert "asked to fail in diagnose" in capfd.readouterr().err
    ros.set("/echo", fail_in="unload")
    ros.change("/echo", "deactivate")
    assert ros.change("/echo", "cleanup")
    assert "asked to fail in unload" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seconds": -1.0}, "seconds"),
        ({"seconds": 11.0}, "seconds"),
        ({"seconds": "long"}, "expected .Type.DOUBLE."),
        ({"mood": "sad"}, "one of calm, wild"),
        ({"mood": "wild", "seconds": 2.0}, "at most one second"),
        ({"always": True}, "cannot change"),
    ],
)
def test_wrong_parameter_values_are_refused_with_the_reason(ros, stream, change, reason):
    before = {name: stream[1].param(name) for name in change}
    result = ros.set("/echo", **change)
    assert not result.successful
    assert re.search(reason, result.reason)
    assert {name: stream[1].param(name) for name in change} == before


def test_a_live_parameter_takes_effect_with_the_next_frame(ros, stream):
    camera, node, answers = stream
    assert ros.set("/echo", seconds=0.3).successful
    camera.publish(image(number=1))
    eventually(lambda: answers)
    eventually(lambda: node._input.counters.processed == 1)
    assert node._input.counters.snapshot()["latency_p50_ms"] >= 300


def test_a_wrong_value_in_the_parameter_file_keeps_the_node_unconfigured_but_alive(ros):
    node = ros.add(Echo, seconds="long", mood="sad")
    eventually(lambda: ros.logged("not configured"), "the reason in the log")
    eventually(lambda: ros.state("/echo") == UNCONFIGURED)
    assert ros.set("/echo", seconds=0.5).successful
    assert not ros.change("/echo", "configure")
    assert ros.set("/echo", mood="calm").successful
    assert ros.change("/echo", "configure")
    assert node.param("seconds") == 0.5


def test_a_slow_model_always_gets_the_newest_frame(ros, stream):
    camera, node, answers = stream
    ros.set("/echo", seconds=0.2)
    camera.publish(image(number=1))
    eventually(lambda: node._input.counters.received == 1 and not node._input.mailbox._item)
    for number in range(2, 7):  # as many as DDS keeps
        camera.publish(image(number=number))
    eventually(lambda: len(answers) == 2)
    assert [header.stamp.sec for header in answers] == [1, 6]
    assert node._input.counters.dropped == 4


def test_state_and_parameters_answer_while_the_model_works_and_while_it_loads(ros):
    camera = ros.publisher(Image, "/image")
    ros.collect(Header, "/echo/echo")
    node = ros.add(Echo, load_seconds=1.5, seconds=1.5)
    eventually(lambda: node.state() == State.TRANSITION_STATE_CONFIGURING)
    assert ros.state("/echo") == State.TRANSITION_STATE_CONFIGURING
    eventually(lambda: node.state() == ACTIVE)
    ros.connected(camera)
    camera.publish(image())
    eventually(lambda: node._input.counters.received == 1)
    assert ros.set("/echo", seconds=1.4).successful
    assert ros.state("/echo") == ACTIVE
    assert ros.change("/echo", "deactivate")
    assert node._input.counters.processed == 0, "all of this while the first frame is in work"


def test_what_was_in_work_at_deactivation_is_not_published(ros, stream):
    camera, node, answers = stream
    ros.set("/echo", seconds=0.3)
    camera.publish(image(number=1))
    eventually(lambda: node._input.counters.received == 1)
    assert ros.change("/echo", "deactivate")
    eventually(lambda: node._input.counters.processed == 1)
    assert answers == []


def test_a_worker_that_never_returns_fails_the_clean_up(ros, stream, monkeypatch):
    camera, node, _ = stream
    monkeypatch.setattr(perception_node, "WORKER_TIMEOUT", 0.1)
    ros.set("/echo", seconds=4.0)
    camera.publish(image())
    eventually(lambda: node._input.counters.received == 1)
    assert ros.change("/echo", "deactivate")
    assert ros.change("/echo", "cleanup") is False
    assert ros.state("/echo") == INACTIVE
    eventually(lambda: not worker_threads())
    assert ros.change("/echo", "cleanup")


def test_diagnostics_tell_state_rate_latency_drops_and_device(ros, stream):
    camera, _, _ = stream
    status = ros.diagnostics("/echo")

    def published():
        camera.publish(image())
        return status() and float(values(status()).get("rate_hz", 0)) > 0

    eventually(published)
    told = values(status())
    assert status().level == DiagnosticStatus.OK
    assert told["state"] == "active"
    assert told["device"] == "cpu"
    assert {"received", "dropped", "failed", "latency_p50_ms", "latency_p99_ms"} <= told.keys()


def test_absurd_stamps_are_passed_on_and_count_as_no_age(stream):
    camera, node, answers = stream
    for sec, nanosec in ((-(2**31), 0), (2**31 - 1, 2**32 - 1), (0, 0)):
        message = image()
        message.header.stamp.sec, message.header.stamp.nanosec = sec, nanosec
        camera.publish(message)
        eventually(lambda m=message: answers and answers[-1] == m.header)
    assert "age_p50_ms" not in node._input.counters.snapshot()


def test_a_fresh_stamp_gives_an_age(ros, stream):
    camera, node, _ = stream
    message = image()
    message.header.stamp = ros.client.get_clock().now().to_msg()
    camera.publish(message)
    eventually(lambda: node._input.counters.processed == 1)
    assert 0 < node._input.counters.snapshot()["age_p50_ms"] < 5000


def test_garbage_on_both_transports_is_counted_and_survived(ros):
    for transport, kind, garbage in (
        ("raw", Image, Image(width=5, height=5, step=1, encoding="rgb8")),
        ("compressed", CompressedImage, CompressedImage(data=array.array("B", b"\xff\xd8junk"))),
    ):
        name = f"echo_{transport}"
        topic = "/cam/compressed" if transport == "compressed" else "/cam"
        camera = ros.publisher(kind, topic)
        ros.collect(Header, f"/{name}/echo")
        node = ros.started(Echo, name, image_topic="/cam", image_transport=transport)
        ros.connected(camera)
        camera.publish(garbage)
        eventually(lambda node=node: node._input.counters.failed == 1)
        assert ros.state(f"/{name}") == ACTIVE


def test_process_must_be_written_by_the_subclass(ros):
    class Hollow(PerceptionNode):
        NAME = "hollow"
        OUTPUTS: ClassVar = {"out": (Header, 1)}

    camera = ros.publisher(Image, "/image")
    ros.collect(Header, "/hollow/out")
    node = ros.started(Hollow)
    ros.connected(camera)
    camera.publish(image())
    eventually(lambda: node._input.counters.failed == 1)


def test_closing_from_any_state_leaves_no_thread(ros):
    for name, autostart in (("one", True), ("two", False)):
        node = ros.add(Echo, name, autostart=autostart)
        eventually(lambda n=node, a=autostart: n.state() == (ACTIVE if a else UNCONFIGURED))
        started = time.monotonic()
        node.close()
        assert time.monotonic() - started < perception_node.WORKER_TIMEOUT
    assert worker_threads() == []


def test_with_simulated_time_a_clock_that_stands_still_or_jumps_back_stops_nothing(ros):
    node = ros.started(Echo, use_sim_time=True)  # autostart, though nobody publishes /clock
    told = ros.diagnostics("/echo")
    eventually(told, "diagnostics come")
    clock, camera = ros.publisher(Clock, "/clock"), ros.publisher(Image, "/image")
    seen = ros.collect(Header, "/echo/echo")
    for second in (50, 60, 5):  # the last: a bag that begins anew
        eventually(
            lambda at=second: (
                clock.publish(Clock(clock=Time(sec=at)))
                or node.get_clock().now().nanoseconds == at * 10**9
            )
        )
        message = image(number=second)
        message.header.stamp.sec = second
        eventually(
            lambda m=message: camera.publish(m) or m.header.stamp in [h.stamp for h in seen],
            "a frame is processed",
        )
