# SPDX-License-Identifier: Apache-2.0
import threading
import time

import pytest
from diagnostic_msgs.msg import DiagnosticStatus

from newfound_runtime import stream
from newfound_runtime.managed_node import status_message
from newfound_runtime.stream import Mailbox, StreamCounters, StreamHealth


def test_the_newest_item_replaces_the_one_that_waits():
    mailbox = Mailbox()
    assert mailbox.put("old") is False
    assert mailbox.put("new") is True
    assert mailbox.take() == "new"


def test_take_waits_for_an_item():
    mailbox, taken = Mailbox(), []
    consumer = threading.Thread(target=lambda: taken.append(mailbox.take()))
    consumer.start()
    mailbox.put("item")
    consumer.join(5)
    assert taken == ["item"]


def test_closing_wakes_a_waiting_consumer_and_keeps_items_from_it():
    mailbox, taken = Mailbox(), []
    consumer = threading.Thread(target=lambda: taken.append(mailbox.take()))
    consumer.start()
    mailbox.close()
    consumer.join(5)
    mailbox.put("too late")
    assert taken == [None]
    assert mailbox.take() is None


def test_clear_tells_whether_something_waited():
    mailbox = Mailbox()
    assert mailbox.clear() is False
    mailbox.put("item")
    assert mailbox.clear() is True


def test_no_item_is_lost_or_doubled_between_a_fast_producer_and_a_consumer():
    mailbox, taken = Mailbox(), []

    def consume():
        while (item := mailbox.take()) is not None:
            taken.append(item)

    consumer = threading.Thread(target=consume)
    consumer.start()
    replaced = sum(mailbox.put(number) for number in range(1, 2001))
    while len(taken) + replaced < 2000:
        pass
    mailbox.close()
    consumer.join(5)
    assert taken == sorted(set(taken))
    assert taken[-1] == 2000


def test_percentiles_are_of_the_frames_that_were_finished():
    counters = StreamCounters()
    for milliseconds in range(1, 101):
        counters.finish(milliseconds / 1000, age=None)
    numbers = counters.snapshot()
    assert numbers["processed"] == 100
    assert numbers["latency_p50_ms"] == 51
    assert numbers["latency_p95_ms"] == 96
    assert "age_p50_ms" not in numbers


def test_a_processed_frame_ends_a_row_of_failures():
    counters = StreamCounters()
    counters.fail()
    counters.fail()
    assert counters.consecutive_failures == 2
    counters.finish(0.01, 0.02)
    assert counters.consecutive_failures == 0
    assert counters.failed == 2


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_running_stream_is_ok_and_has_a_rate(clock):
    health, counters = StreamHealth(), StreamCounters()
    for _ in range(20):
        counters.receive()
        counters.finish(0.01, 0.02)
    clock[0] += 2.0
    level, _, values = health.assess(counters, subscribed=True)
    assert level == DiagnosticStatus.OK
    assert values["rate_hz"] == 10.0


def test_silence_of_the_camera_is_a_warning(clock):
    health, counters = StreamHealth(), StreamCounters()
    clock[0] += stream.STALE_AFTER + 1
    level, message, _ = health.assess(counters, subscribed=True)
    assert level == DiagnosticStatus.WARN
    assert "no image" in message


def test_silence_is_fine_when_nobody_listens(clock):
    health, counters = StreamHealth(), StreamCounters()
    clock[0] += 60
    assert health.assess(counters, subscribed=False)[0] == DiagnosticStatus.OK
    clock[0] += 1
    assert health.assess(counters, subscribed=True)[0] == DiagnosticStatus.OK


def test_a_failed_frame_warns_once_and_a_row_of_them_is_an_error(clock):
    health, counters = StreamHealth(), StreamCounters()
    counters.receive()
    counters.fail()
    assert health.assess(counters, subscribed=True)[0] == DiagnosticStatus.WARN
    assert health.assess(counters, subscribed=True)[0] == DiagnosticStatus.OK
    for _ in range(stream.FAILING_AFTER):
        counters.fail()
    assert health.assess(counters, subscribed=True)[0] == DiagnosticStatus.ERROR


def test_the_message_carries_every_value_as_text():
    from builtin_interfaces.msg import Time

    array = status_message(
        Time(sec=5), "/ns/node", DiagnosticStatus.WARN, "text", {"device": "cpu", "rate_hz": 1.5}
    )
    (status,) = array.status
    assert (status.name, status.message, status.hardware_id) == ("/ns/node", "text", "cpu")
    assert {v.key: v.value for v in status.values} == {"device": "cpu", "rate_hz": "1.5"}
    assert array.header.stamp.sec == 5
