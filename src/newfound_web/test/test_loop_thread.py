# SPDX-License-Identifier: Apache-2.0
import asyncio
import threading
from concurrent.futures import CancelledError

import pytest

from newfound_web.loop_thread import LoopThread


async def nothing() -> None:
    """The last coroutine of a loop with nothing to close."""


def test_coroutines_run_in_the_loops_own_thread():
    loop = LoopThread("web")

    async def here() -> str:
        return threading.current_thread().name

    assert loop.submit(here()).result() == "web"
    assert loop.stop(nothing(), patience=60.0)


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
    assert loop.stop(last(), patience=60.0)
    assert order == ["cancelled", "last"]
    with pytest.raises(CancelledError):
        running.result()
