# SPDX-License-Identifier: Apache-2.0
import signal

import numpy as np
import pytest

from newfound_sim.errors import DatasetError
from newfound_sim.production import clean, millimetres, produce, stream


def test_cleaning_removes_half_files_only_at_any_depth(tmp_path):
    (tmp_path / "whole.jpg").write_bytes(b"x")
    (tmp_path / ".half.jpg.part77").write_bytes(b"x")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / ".half.jpg.part78").write_bytes(b"x")
    clean(tmp_path)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["whole.jpg"]


def test_one_worker_works_in_this_process_and_does_every_task():
    done: list[int] = []
    produce([3, 1, 2], done.append, workers=1)
    assert done == [3, 1, 2]


@pytest.mark.slow
def test_a_killed_worker_is_reported_with_advice():
    # A function that worker processes can import by name, and that ends them.
    with pytest.raises(DatasetError, match="run the same command again"):
        produce([signal.SIGKILL], signal.raise_signal, workers=2)


def test_random_streams_belong_to_their_keys():
    assert stream(1, "mug", 2).random() == stream(1, "mug", 2).random()
    others = {stream(*k).random() for k in ((1, "mug", 3), (2, "mug", 2), (1, "gum", 2))}
    assert stream(1, "mug", 2).random() not in others
    assert len(others) == 3


def test_depth_in_millimetres_is_rounded_and_zero_when_there_is_none():
    depth = np.array([0.5, 1.2344, 1.2346, np.inf, 70.0], np.float32)
    assert millimetres(depth).tolist() == [500, 1234, 1235, 0, 0]
