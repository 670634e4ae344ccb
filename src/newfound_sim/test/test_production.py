# SPDX-License-Identifier: Apache-2.0
import signal

import pytest
from newfound_sim.errors import DatasetError
from newfound_sim.production import PARTIAL, produce, sweep, write_whole


def test_a_file_is_replaced_as_a_whole_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "new" / "a.txt"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_sweeping_removes_half_files_only(tmp_path):
    (tmp_path / "whole.jpg").write_bytes(b"x")
    (tmp_path / f"half.jpg.77{PARTIAL}").write_bytes(b"x")
    sweep(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["whole.jpg"]


def test_one_worker_works_in_this_process_and_does_every_task():
    done: list[int] = []
    produce([3, 1, 2], done.append, workers=1)
    assert done == [3, 1, 2]


@pytest.mark.slow
def test_a_killed_worker_is_reported_with_advice():
    # A function that worker processes can import by name, and that ends them.
    with pytest.raises(DatasetError, match="run the same command again"):
        produce([signal.SIGKILL], signal.raise_signal, workers=2)
