# SPDX-License-Identifier: Apache-2.0
"""The real nodes over a real scene, offline: what they find is written, and found again."""

import json
import subprocess
import sys

import cv2
import numpy as np
import pytest
from mcap.reader import make_reader

from newfound_runtime.bag_testing import PERIOD, START, compressed, header, write_mcap
from newfound_runtime.images import depth_message
from newfound_runtime.recordings import open_recording
from tests import ROOT

FRAMES = 12
PARAMETERS = """
/container: {ros__parameters: {nodes: [adaptive_classifier, web_query, open_world_detector]}}
/adaptive_classifier: {ros__parameters: {checkpoint: sim_workbench, frames_per_update: 4}}
/open_world_detector:
  ros__parameters: {checkpoint: sim_bench_bdoc, proposer: depth, announce_after: 2}
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def replays(tmp_path_factory):
    """The reports of two equal replays of a bag: one scene, getting darker; compressed colour."""
    folder = tmp_path_factory.mktemp("replay")
    table = open_recording(ROOT / "src/newfound_sim/clips/real_table")
    messages = []
    for n in range(FRAMES):
        stamp = START + n * PERIOD
        rgb = (table.rgb(5) * (1 - 0.02 * n)).astype(np.uint8)
        packed, depth = compressed(stamp, rgb), depth_message(header(stamp), table.depth(5))
        messages += [
            ("/front/image_raw/compressed", packed, stamp),
            ("/front/depth", depth, stamp),
        ]
    bag = write_mcap(folder / "scene.mcap", messages)
    (folder / "nodes.yaml").write_text(PARAMETERS)
    outs = [folder / name for name in ("one", "two")]
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "newfound_runtime.bags", bag, "--params",
             folder / "nodes.yaml", "--out", out],
            stderr=subprocess.PIPE, text=True,
        )
        for out in outs
    ]  # fmt: skip
    for child in children:
        _, told = child.communicate(timeout=300)
        assert child.returncode == 0, told
    return outs


def read(folder, name):
    return json.loads((folder / name).read_text())


def test_unknown_objects_are_reported_with_their_best_view(replays):
    report = read(replays[0], "report.json")
    assert (report["frames"], report["nodes"]) == (
        FRAMES, ["adaptive_classifier", "open_world_detector"]
    )  # fmt: skip
    assert report["unknowns"]
    for entry in report["unknowns"]:
        assert 2 <= entry["sightings"] <= FRAMES
        assert START * 1e-9 <= entry["first_seen"] <= entry["last_seen"]
        assert cv2.imread(str(replays[0] / entry["crop"])).size
    longest = max(report["unknowns"], key=lambda entry: entry["sightings"])
    assert longest["sightings"] == FRAMES


def test_detections_are_coco_annotations_with_unknown_as_a_category(replays):
    coco = read(replays[0], "detections.coco.json")
    names = {category["id"]: category["name"] for category in coco["categories"]}
    assert names[1] == "unknown"
    assert len(coco["images"]) == FRAMES
    unknown = [a for a in coco["annotations"] if a["category_id"] == 1]
    assert {a["image_id"] for a in unknown} == {image["id"] for image in coco["images"]}
    for annotation in coco["annotations"]:
        left, top, width, height = annotation["bbox"]
        assert 0 <= left < left + width <= 640
        assert 0 <= top < top + height <= 480
        assert annotation["area"] == width * height
        assert 0 <= annotation["score"] <= 1


def test_the_drift_of_the_light_is_reported_over_time(replays):
    drift = read(replays[0], "report.json")["drift"]["adaptive_classifier"]
    assert [point["updates"] for point in drift][-1] == FRAMES // 4
    assert drift[-1]["drift_mean"] > 0
    assert drift[0]["stamp"] < drift[-1]["stamp"]


def test_the_new_mcap_holds_what_the_nodes_said_at_the_times_of_the_recording(replays):
    with (replays[0] / "output.mcap").open("rb") as file:
        found = [(s.name, c.topic, m.log_time) for s, c, m in make_reader(file).iter_messages()]
    times = [START + n * PERIOD for n in range(FRAMES)]
    for topic, name in (("/adaptive_classifier/classification", "Classification"),
                        ("/open_world_detector/detections", "OpenWorldDetections")):  # fmt: skip
        assert [at for s, t, at in found if t == topic] == times
        assert {s for s, t, _ in found if t == topic} == {f"newfound_msgs/msg/{name}"}


def test_a_replay_finds_the_same_again(replays):
    one, two = (read(folder, "detections.coco.json") for folder in replays)
    for coco in (one, two):
        for annotation in coco["annotations"]:
            annotation["unknown_id"] = bool(annotation["unknown_id"])  # ids are drawn at random
    assert one == two
    drifts = [read(folder, "report.json")["drift"]["adaptive_classifier"] for folder in replays]
    assert drifts[0] == drifts[1]
