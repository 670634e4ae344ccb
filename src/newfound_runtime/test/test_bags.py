# SPDX-License-Identifier: Apache-2.0
"""The command as a process of its own, on small bags, with a node that needs no model."""

import json
import os
import signal
import subprocess
import sys

import cv2
import pytest
from mcap.reader import make_reader
from rclpy.serialization import deserialize_message
from std_msgs.msg import Header

from newfound_runtime.bag_testing import PERIOD, START, camera_messages, write_db3, write_mcap

ECHO = "newfound_runtime.testing.Echo"
pytestmark = pytest.mark.slow


def command(*arguments):
    return [sys.executable, "-m", "newfound_runtime.bags", *map(str, arguments)]


def run(*arguments):
    return subprocess.run(
        command(*arguments), check=False, capture_output=True, text=True, timeout=120
    )


def echoes(file):
    """Stamp and time of each echo in an MCAP file."""
    with file.open("rb") as stream:
        found = make_reader(stream).iter_messages(topics=["/echo/echo"])
        headers = [(deserialize_message(m.data, Header).stamp, m.log_time) for _, _, m in found]
    return [(stamp.sec * 10**9 + stamp.nanosec, time) for stamp, time in headers]


def test_every_frame_goes_through_and_keeps_its_stamp(tmp_path):
    bag = write_db3(tmp_path / "bag", camera_messages(frames=30))
    params = tmp_path / "slow.yaml"
    params.write_text("/echo: {ros__parameters: {seconds: 0.01, max_rate: 1.0, image_topic: /x}}")
    out = tmp_path / "out"
    ran = run(bag, "--out", out, "--nodes", ECHO, "--params", params, "--images")
    assert ran.returncode == 0, ran.stderr
    wanted = [START + n * PERIOD for n in range(30)]
    assert echoes(out / "output.mcap") == list(zip(wanted, wanted, strict=True))
    report = json.loads((out / "report.json").read_text())
    assert (report["frames"], report["complete"], report["warnings"]) == (30, True, [])
    assert report["recorded_seconds"] == pytest.approx(3.0)
    assert report["speed"] == pytest.approx(3.0 / report["replay_seconds"], rel=0.05)
    assert report["messages"]["/recording/camera_info"] == 30
    coco = json.loads((out / "detections.coco.json").read_text())
    assert [image["stamp_ns"] for image in coco["images"]] == wanted
    picture = cv2.imread(str(out / "images" / coco["images"][3]["file_name"]))
    assert abs(picture.mean() - 60) < 2
    assert (out / "timeline.png").exists()


def test_ctrl_c_writes_what_there_is(tmp_path):
    bag = write_mcap(tmp_path / "a.mcap", camera_messages(frames=200))
    params = tmp_path / "slow.yaml"
    params.write_text("/echo: {ros__parameters: {seconds: 0.2}}")
    out = tmp_path / "out"
    child = subprocess.Popen(
        command(bag, "--out", out, "--nodes", ECHO, "--params", params),
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in child.stderr:
        if line.startswith("frame "):
            os.kill(child.pid, signal.SIGINT)
            break
    rest = child.stderr.read()
    assert child.wait(60) == 130
    assert "writing what there is" in rest
    assert "Traceback" not in rest
    report = json.loads((out / "report.json").read_text())
    assert 0 < report["frames"] < 200
    assert not report["complete"]
    assert len(echoes(out / "output.mcap")) == report["frames"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("missing.mcap", "--out", "out", "--nodes", ECHO), "does not exist"),
        (("a.mcap", "--out", "taken", "--nodes", ECHO), "exists"),
        (("a.mcap", "--out", "out", "--params", "broken.yaml", "--nodes", ECHO), "asked to fail"),
        (("a.mcap", "--out", "out", "--image-topic", "/x", "--nodes", ECHO), "Its topics: /chat"),
        (("a.mcap", "--out", "out", "--nodes", "no_such_node"), "no node 'no_such_node'"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line_and_leaves_nothing(tmp_path, arguments, told):
    write_mcap(tmp_path / "a.mcap", camera_messages(frames=2))
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "report.json").write_text("{}")
    (tmp_path / "broken.yaml").write_text("/echo: {ros__parameters: {fail_in: load}}")
    ran = subprocess.run(
        command(*arguments), check=False, capture_output=True, text=True, cwd=tmp_path,
        timeout=120,
    )  # fmt: skip
    assert ran.returncode == 1
    assert told in ran.stderr.splitlines()[-1]
    assert ran.stderr.splitlines()[-1].startswith("newfound_runtime.bags: ")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".*writing*"))
    assert (tmp_path / "taken" / "report.json").read_text() == "{}"


def test_frames_that_are_damaged_are_left_out_and_counted(tmp_path):
    messages = camera_messages(frames=4)
    next(m for t, m, _ in messages if t == "/front/image_raw").height = 999
    bag = write_mcap(tmp_path / "a.mcap", messages)
    out = tmp_path / "out"
    ran = run(bag, "--out", out, "--nodes", ECHO)
    assert ran.returncode == 0, ran.stderr
    report = json.loads((out / "report.json").read_text())
    assert (report["frames"], report["frames_damaged"]) == (3, 1)
    assert report["frames_failed"] == {ECHO: 0}
