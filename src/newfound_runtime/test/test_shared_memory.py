# SPDX-License-Identifier: Apache-2.0
"""Shared memory of killed processes is removed, and nothing else."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from newfound_runtime.shared_memory import FOLDER, remove_dead_segments

NODE = """
import sys, rclpy
from std_msgs.msg import String
rclpy.init()
node = rclpy.create_node("left")
node.create_publisher(String, "left", 1)
print("up", flush=True)
sys.stdin.read()
"""


def segment(folder, number, size=1000):
    made = folder / f"fastrtps_{number:016x}"
    made.write_bytes(bytes(size))
    lock = folder / f"{made.name}_el"
    lock.touch()
    os.utime(lock, (0, 0))
    return made, lock


def test_only_segments_whose_process_is_gone_are_removed(tmp_path):
    dead, alive, young = (segment(tmp_path, number) for number in (1, 2, 3))
    os.utime(young[1])
    others = [tmp_path / name for name in ("fastrtps_port7411_el", "sem.fastrtps_port7411", "x")]
    for other in others:
        other.touch()
        os.utime(other, (0, 0))
    with alive[1].open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert remove_dead_segments(tmp_path) == 1000
    assert sorted(tmp_path.iterdir()) == sorted([*alive, *young, *others])
    assert not dead[0].exists()


def test_without_the_folder_or_the_segment_nothing_happens(tmp_path):
    assert remove_dead_segments(tmp_path / "nowhere") == 0
    (tmp_path / "fastrtps_00000000000000ab_el").touch()
    assert remove_dead_segments(tmp_path, youngest=-1) == 0


@pytest.mark.skipif(
    os.environ.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp") != "rmw_fastrtps_cpp",
    reason="another middleware",
)
def test_a_real_node_keeps_its_segments_until_it_is_killed():
    def locks():
        return {each for each in FOLDER.glob("fastrtps_*_el") if "port" not in each.name}

    before = locks()
    command = [sys.executable, "-c", NODE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as node:
        assert node.stdout.readline() == b"up\n"
        own = [each for each in locks() - before if _held_by(each, node.pid)]
        if not own:
            node.kill()
            pytest.skip("Fast DDS does not use shared memory here")
        remove_dead_segments(youngest=-1)
        assert all(each.exists() for each in own)
        node.send_signal(signal.SIGKILL)
    remove_dead_segments(youngest=-1)
    assert not any(each.exists() for each in own)


def _held_by(path, pid):
    return any(each.resolve() == path for each in Path(f"/proc/{pid}/fd").iterdir())
