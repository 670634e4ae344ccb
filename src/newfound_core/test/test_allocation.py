# SPDX-License-Identifier: Apache-2.0
import gc
import platform
import resource
import subprocess
import sys
import weakref

import pytest

from newfound_core.allocation import spare_loaded_objects

_PASSES = """
import resource, sys, torch
from newfound_core.allocation import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
torch.set_num_threads(1)
for number in range(60):
    if number == 40:  # the heap has found its size, which takes a different time in each process
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    (torch.ones(10_000_000) + 1) * 2
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def fresh_pages(way: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _PASSES, way], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of the GNU C library")
def test_large_tensors_are_computed_in_memory_that_is_there_already():
    pages = 40_000_000 // resource.getpagesize()  # of one tensor
    assert fresh_pages("keep") < pages / 10
    assert fresh_pages("default") > 20 * pages


class Thing:
    """An object that refers to itself, so that only the garbage collector frees it."""

    def __init__(self):
        self.itself = self


def test_what_is_loaded_is_not_looked_at_by_later_collections():
    loaded, garbage = Thing(), weakref.ref(Thing())
    try:
        spare_loaded_objects()
        assert garbage() is None
        assert gc.get_freeze_count() > 0
        assert all(found is not loaded for found in gc.get_objects())
        seen, later = weakref.ref(loaded), weakref.ref(Thing())
        del loaded
        gc.collect()
        assert later() is None
        assert seen() is not None
        spare_loaded_objects()  # another model was loaded in the place of the first
        assert seen() is None
    finally:
        gc.unfreeze()
