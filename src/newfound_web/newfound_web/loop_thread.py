# SPDX-License-Identifier: Apache-2.0
"""An event loop in a thread of its own, for work that waits for the network."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

HELPERS = 16  # threads for decoding, disk and name look-ups, some of which cannot be cancelled


class LoopThread:
    """Runs coroutines from any thread, until it is stopped."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._helpers = ThreadPoolExecutor(HELPERS, thread_name_prefix=f"{name}-helper")
        self._loop.set_default_executor(self._helpers)
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future:
        """Start a coroutine; its future can be cancelled."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def stop(self, last: Coroutine[Any, Any, Any], patience: float) -> bool:
        """Cancel what runs, run the last coroutine and end the thread; False if it does not."""
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._end(last)))
        self._thread.join(patience)
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
