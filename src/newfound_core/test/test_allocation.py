# SPDX-License-Identifier: Apache-2.0
import platform
import resource
import subprocess
import sys

import pytest

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
