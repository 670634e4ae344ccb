# SPDX-License-Identifier: Apache-2.0
import asyncio
import threading
import time
from concurrent.futures import CancelledError

import pytest

from newfound_msgs.srv import FetchImages
from newfound_runtime.managed_node import ManagedNode
from newfound_runtime.rclpy_compat import DeferredService
from newfound_runtime.testing import ACTIVE, eventually
from newfound_web.async_services import LoopThread


class Patient(ManagedNode):
    """Answers each request only when it is told to."""

    NAME = "patient"

    def __init__(self, name=None, **arguments):
        super().__init__(name, **arguments)
        self.waiting = []
        DeferredService(
            self, FetchImages, "~/fetch", lambda *exchange: self.waiting.append(exchange)
        )


def test_many_requests_wait_without_holding_a_thread_and_each_gets_its_own_answer(ros):
    node = ros.started(Patient)
    client = ros.client.create_client(FetchImages, "/patient/fetch")
    assert client.wait_for_service(60)
    futures = {str(number): [] for number in range(20)}  # more than the executor has threads

    def all_arrived():
        # A server just found may not have found its client yet: ask again.
        missing = futures.keys() - {request.label for request, _, _ in node.waiting}
        for label in missing:
            futures[label].append(client.call_async(FetchImages.Request(label=label)))
        time.sleep(0.2)
        return not missing

    eventually(all_arrived, "all requests have arrived")
    assert ros.state("/patient") == ACTIVE
    assert not any(future.done() for sent in futures.values() for future in sent)

    for request, response, answer in reversed(node.waiting):
        response.message = f"answer to {request.label}"
        answer(response)
        sent = futures[request.label]
        # One at a time: a burst of answers is longer than the queue of a client.
        done = eventually(lambda sent=sent: [f for f in sent if f.done()], "it was answered")
        assert done[0].result().message == f"answer to {request.label}"


async def nothing() -> None:
    """The last coroutine of a loop with nothing to close."""


def test_coroutines_run_in_the_loops_own_thread():
    loop = LoopThread("web")

    async def here() -> str:
        return threading.current_thread().name

    assert loop.submit(here()).result() == "web"
    assert loop.stop(nothing(), timeout=60.0)


def test_stopping_cancels_what_runs_and_then_runs_the_last():
    loop, order = LoopThread("web"), []

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            order.append("cancelled")

    async def last() -> None:
        order.append("last")

    started = threading.Event()

    async def tell() -> None:
        started.set()

    running = loop.submit(forever())
    loop.submit(tell())
    started.wait()
    assert loop.stop(last(), timeout=60.0)
    assert order == ["cancelled", "last"]
    with pytest.raises(CancelledError):
        running.result()
