# SPDX-License-Identifier: Apache-2.0
"""How a process that runs networks for long treats its memory."""

import atexit
import ctypes
import gc

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of the GNU C library
_KEPT = 2**30  # bytes


def keep_freed_memory() -> bool:
    """Reuse the memory of large tensors on a CPU instead of returning it to the system each time.

    Otherwise every pass of a batch asks the kernel for fresh pages, which takes half as long as
    computing. False where the C library has no such setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all([mallopt(_M_TRIM_THRESHOLD, _KEPT), mallopt(_M_MMAP_THRESHOLD, _KEPT)])


def spare_loaded_objects() -> None:
    """Let the garbage collector pass over everything that is loaded now.

    Libraries and models are a million objects that stay. A full collection looks at all of them,
    half a second in which no other thread has the interpreter: a frame is late or lost. Objects
    that were spared before are looked at once more, since their model may be gone.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    atexit.unregister(gc.unfreeze)
    atexit.register(gc.unfreeze)  # at the end of the process all of it goes
