# SPDX-License-Identifier: Apache-2.0
import threading

from newfound_nodes.mailbox import Mailbox, StreamCounters


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
