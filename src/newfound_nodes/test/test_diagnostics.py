# SPDX-License-Identifier: Apache-2.0
import time

import pytest
from diagnostic_msgs.msg import DiagnosticStatus

from newfound_nodes import diagnostics
from newfound_nodes.diagnostics import StreamHealth, status_message
from newfound_nodes.mailbox import StreamCounters


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
    clock[0] += diagnostics.STALE_AFTER + 1
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
    for _ in range(diagnostics.FAILING_AFTER):
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
