# SPDX-License-Identifier: Apache-2.0
"""Work on a GPU beside the frames instead of in the queue before them."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def aside(device: torch.device) -> Iterator[None]:
    """On CUDA, run what is inside in a stream of its own; when left, it is done. Nothing on a CPU.

    It begins after all that was asked of the device before, so what it reads is there. Since it
    waits for its end, what it read is not given back while it runs, and what it made is whole.
    """
    if device.type != "cuda":
        yield
        return
    stream = _stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        stream.synchronize()


@functools.cache  # torch keeps memory for every stream that was ever used
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # of the lowest priority, as the default stream
