# SPDX-License-Identifier: Apache-2.0
"""Coroutines in a thread of their own: no executor thread is blocked while the network is slow."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

HELPERS = 16  # threads for decoding, disk and name resolution, some of which cannot be cancelled


class LoopThread:
    """An asyncio event loop in its own thread; runs coroutines submitted from any thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._helpers = ThreadPoolExecutor(HELPERS, thread_name_prefix=f"{name}-helper")
        self._loop.set_default_executor(self._helpers)
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future:
        """Start a coroutine; its future can be cancelled."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def stop(self, last: Coroutine[Any, Any, Any], timeout: float) -> bool:
        """Cancel all coroutines, run the last one and end the thread; False after the timeout."""
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._end(last)))
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        self._helpers.shutdown(wait=False, cancel_futures=True)
        self._loop.close()
        return True

    async def _end(self, last: Coroutine[Any, Any, Any]) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        try:
            await last
        finally:
            self._loop.stop()
