# SPDX-License-Identifier: Apache-2.0
"""How this process treats the memory of large tensors on a CPU."""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of the GNU C library
_KEPT = 2**30  # bytes


def keep_freed_memory() -> bool:
    """Reuse the memory of large tensors instead of returning it to the system each time.

    Otherwise every pass of a batch asks the kernel for fresh pages, which takes half as long as
    computing. For processes that run networks for long; False where the C library has no such
    setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all([mallopt(_M_TRIM_THRESHOLD, _KEPT), mallopt(_M_MMAP_THRESHOLD, _KEPT)])
