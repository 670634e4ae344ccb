# SPDX-License-Identifier: Apache-2.0
"""Without a GPU only the order of the calls can be tested."""

from contextlib import contextmanager

import pytest
import torch

from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.aside import _stream, aside


@pytest.fixture
def calls(monkeypatch):
    """What is asked of CUDA, in order."""
    asked = []

    class Stream:
        def __init__(self, device):
            asked.append(f"new on {device}")

        def wait_stream(self, other):
            asked.append(f"wait for {other}")

        def synchronize(self):
            asked.append("synchronize")

    @contextmanager
    def stream(_):
        asked.append("enter")
        yield
        asked.append("leave")

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"{device} default")
    _stream.cache_clear()
    yield asked
    _stream.cache_clear()


def test_work_aside_begins_after_what_was_asked_before_and_is_done_when_left(calls):
    for _ in range(2):
        with aside(torch.device("cuda:1")):
            calls.append("work")
    once = ["wait for cuda:1 default", "enter", "work", "leave", "synchronize"]
    assert calls == ["new on cuda:1", *once, *once]


def test_work_that_fails_is_waited_for_too(calls):
    with pytest.raises(RuntimeError, match="out of memory"), aside(torch.device("cuda")):
        raise RuntimeError("out of memory")
    assert calls[-1] == "synchronize"


def test_nothing_is_asked_of_cuda_on_a_cpu(calls, network, shifted_frames):
    onda = Onda(network, OndaConfig(frames_per_update=2))
    for frame in shifted_frames(2):
        onda.predict(frame)
    assert onda.status().updates == 1
    assert calls == []
