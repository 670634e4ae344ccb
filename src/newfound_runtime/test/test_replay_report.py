# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage, RegionOfInterest

from newfound_msgs.msg import (
    AdaptationStatus,
    Classification,
    OpenWorldDetection,
    OpenWorldDetections,
    UnknownObject,
)
from newfound_runtime.bag_testing import header
from newfound_runtime.bag_writer import type_name
from newfound_runtime.replay import Received
from newfound_runtime.replay_report import PlayedImage, ReplayReport

SECOND = 10**9


def received(output, message, node="detector"):
    topic = f"/{node}/{output}"
    return Received(node, output, topic, type_name(type(message)), serialize_message(message))


def detections(second, *found):
    kinds = OpenWorldDetection
    return received(
        "detections",
        OpenWorldDetections(
            header=header(second * SECOND),
            detections=[
                kinds(
                    kind=kinds.KIND_KNOWN if label else kinds.KIND_UNKNOWN,
                    label=label,
                    unknown_id=unknown_id,
                    region=RegionOfInterest(x_offset=3, y_offset=4, width=5, height=6),
                    score=0.25,
                    track_id=7,
                )
                for label, unknown_id in found
            ],
        ),
    )


def unknown(second, sightings, crops=True):
    message = UnknownObject(id="u1", sightings=sightings, nearest_label="mug", distance=2.0)
    message.first_seen = header(1 * SECOND).stamp
    message.last_seen = header(second * SECOND).stamp
    message.crops = [CompressedImage(format="jpeg", data=b"\xff\xd8best")] if crops else []
    return received("unknowns", message)


def status(second, drift):
    message = AdaptationStatus(header=header(second * SECOND), drift_mean=drift, updates=second)
    message.entropy = float("nan")
    return received("adaptation", message, "classifier")


def played(second):
    return PlayedImage(second, f"{second:06d}.jpg", second * SECOND, 64, 48)


@pytest.fixture
def report():
    found = ReplayReport()
    found.add(played(1), [detections(1, ("mug", ""), ("", "")), status(1, 0.0)], status=True)
    found.add(played(2), [detections(2, ("", "u1")), unknown(2, 2), status(2, 0.9)], status=False)
    found.add(played(3), [detections(3, ("", "u1")), unknown(2, 2, crops=False)], status=False)
    answer = Classification(header=header(4 * SECOND), label="can")
    found.add(
        played(4),
        [detections(4, ("", "u1")), status(4, 0.5), received("classification", answer, "c")],
        status=True,
    )
    return found


def test_sightings_after_the_last_message_are_counted(report):
    (entry,) = report.unknown_entries()
    assert (entry["id"], entry["sightings"]) == ("u1", 4)
    assert (entry["first_seen"], entry["last_seen"]) == (1.0, 4.0)
    assert (entry["nearest_label"], entry["crop"]) == ("mug", "unknowns/u1.jpg")


def test_coco_has_boxes_scores_tracks_and_unknown_as_its_first_category(report):
    coco = report.coco()
    assert coco["categories"] == [{"id": 1, "name": "unknown"}, {"id": 2, "name": "mug"}]
    first, second, *_ = coco["annotations"]
    assert (first["category_id"], second["category_id"]) == (2, 1)
    assert (first["bbox"], first["area"], first["score"]) == ([3, 4, 5, 6], 30, 0.25)
    assert (first["track_id"], first["image_id"]) == (7, 1)
    assert [a["id"] for a in coco["annotations"]] == [1, 2, 3, 4, 5]


def test_drift_is_that_of_the_status_that_was_asked_for(report):
    drift = report.drift_entries("classifier")
    assert [(p["stamp"], p["drift_mean"], p["entropy"]) for p in drift] == [
        (1.0, 0.0, None), (4.0, 0.5, None)
    ]  # fmt: skip


def test_the_summary_says_how_fast_it_was_and_what_was_said(report):
    summary = report.summary(seconds=2.0, rate=1.0)
    assert (summary["frames"], summary["recorded_seconds"], summary["speed"]) == (4, 4.0, 2.0)
    assert summary["labels"] == {"detector": {"unknown": 4, "mug": 1}, "c": {"can": 1}}
    assert ReplayReport().summary(seconds=0.0, rate=1.0)["speed"] == 0.0


def test_the_files_are_json_a_crop_and_a_figure(report, tmp_path):
    report.write(tmp_path, report.summary(1.0, 1.0))
    assert json.loads((tmp_path / "report.json").read_text())["frames"] == 4
    assert json.loads((tmp_path / "detections.coco.json").read_text())["images"]
    assert (tmp_path / "unknowns/u1.jpg").read_bytes() == b"\xff\xd8best"
    assert (tmp_path / "timeline.png").stat().st_size > 5000
