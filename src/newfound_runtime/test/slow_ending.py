# SPDX-License-Identifier: Apache-2.0
"""A node that takes a second to save its state at the end, as a process of its own."""

import time

from newfound_runtime.container import run
from newfound_runtime.testing import Echo


class SlowEnding(Echo):
    def unload(self) -> None:
        print("saving", flush=True)
        time.sleep(1.0)
        print("saved", flush=True)


if __name__ == "__main__":
    raise SystemExit(run(SlowEnding))
