# SPDX-License-Identifier: Apache-2.0
"""What the demo makes of what it hears; the whole of it is `make demo`."""

import io
from dataclasses import replace

import pytest
import yaml
from PIL import Image
from sensor_msgs.msg import CompressedImage, RegionOfInterest

from newfound_msgs.msg import (
    Classification,
    GroundTruth,
    GroundTruthObject,
    OpenWorldDetection,
    OpenWorldDetections,
)
from newfound_runtime.container import node_class
from scripts.demo.judging import Sighting, overlap, share, sightings, true_label
from scripts.demo.light import ADAPTING, FROZEN, LitThings
from scripts.demo.report import draw
from scripts.demo.story import Shown, Story
from scripts.demo.table import RealTable
from scripts.demo.witness import Heard
from tests import ROOT

KNOWN, UNKNOWN = OpenWorldDetection.KIND_KNOWN, OpenWorldDetection.KIND_UNKNOWN


def region(left, top, width=10, height=10):
    return RegionOfInterest(x_offset=left, y_offset=top, width=width, height=height)


def found(kind, label, left):
    return OpenWorldDetection(kind=kind, label=label, region=region(left, 0))


def light(*shares):
    """Classifiers that are right before the change, and in these shares of the frames after it."""
    lit = LitThings()
    for frame in range(60):
        truth = GroundTruth(frame=frame, illumination="cloudy" if frame >= 20 else "artificial")
        truth.header.stamp.sec = frame
        truth.objects = [GroundTruthObject(label="mug")]
        lit.learn_truth(truth)
        for name, right in zip((ADAPTING, FROZEN), shares, strict=True):
            good = frame < 20 or frame % 10 < 10 * right
            lit.hear(
                name, Classification(header=truth.header, nearest_label="mug" if good else "can")
            )
    return lit


def table(jpeg):
    """Two real frames; of three labelled objects one is known, one unknown, one not found."""
    seen = RealTable()
    said = [[found(KNOWN, "mug", 0), found(UNKNOWN, "", 21)], [found(UNKNOWN, "", 90)]]
    for frame, (detections, lefts) in enumerate(zip(said, ([0, 20], [40]), strict=True)):
        truth = GroundTruth(frame=frame, last=frame == 1)
        truth.header.stamp.sec = frame
        truth.objects = [GroundTruthObject(label="object", region=region(x, 0)) for x in lefts]
        seen.see(CompressedImage(header=truth.header, data=jpeg))
        seen.learn_truth(truth)
        seen.hear(OpenWorldDetections(header=truth.header, detections=detections))
    return seen


@pytest.fixture
def story():
    """One that is as it should be."""
    picture = io.BytesIO()
    Image.new("RGB", (64, 48)).save(picture, "JPEG")
    shown = Shown(
        picture.getvalue(),
        OpenWorldDetections(
            detections=[found(KNOWN, "mug", 5), found(UNKNOWN, "", 30)],
        ),
        13.0,
    )
    names = ("camera", "unknown", "asked", "decided", "fetched", "learning", "learned")
    events = {name: float(at) for at, name in enumerate(names)} | {"recognised": 50.0}
    seen = [
        *(Sighting(t, t, int(t), "teapot", "", "unknown") for t in (1.0, 2.0, 3.0)),
        *(Sighting(50 + t, t, int(t), "teapot", "teapot", "right") for t in (0.0, 25.0)),
        *(Sighting(t, 2.0, 2, "mug", "mug", "right") for t in (2.0, 52.0)),
    ]
    return Story(
        "teapot", ["mug"], 0.0, 40.0, events, "confirmed", 8, seen, light(0.9, 0.4),
        table(picture.getvalue()), shown, shown,
    )  # fmt: skip


def test_what_is_said_is_held_against_the_truth():
    assert overlap(region(0, 0), region(5, 0)) == pytest.approx(1 / 3)
    truth = GroundTruth(
        objects=[
            GroundTruthObject(label=label, region=region(left, 0), visible=visible)
            for label, left, visible in (
                ("mug", 0, 1.0), ("teapot", 20, 1.0), ("can", 40, 1.0),
                ("fork", 60, 1.0), ("ball", 80, 0.1),
            )
        ]
    )  # fmt: skip
    said = OpenWorldDetections(
        detections=[found(KNOWN, "mug", 1), found(UNKNOWN, "", 20), found(KNOWN, "mug", 40)]
    )
    judged = sightings([Heard(1.0, said)], {(0, 0): truth})
    assert [(s.label, s.verdict) for s in judged] == [
        ("mug", "right"), ("teapot", "unknown"), ("can", "wrong"), ("fork", "missed"),
    ]  # fmt: skip
    assert share(judged, "right") == 0.25
    assert true_label(region(21, 0), truth) == "teapot"
    assert true_label(region(30, 30), truth) == ""


def test_the_loop_is_closed_only_if_every_part_is_there(story):
    assert (story.missing(), story.summary()["closed"]) == ([], True)
    broken = {
        "no image was fetched": replace(story, images=0),
        "the classifiers did not see the light change": replace(story, lit=LitThings()),
        "the teapot was never learned": replace(
            story, events={k: v for k, v in story.events.items() if k != "learned"}
        ),
        "the teapot is not recognised in most frames": replace(story, seen=story.seen[:3]),
        "the teapot is not recognised in the other light": replace(
            story, seen=[s for s in story.seen if s.clip_time < 23]
        ),
        "the teapot was not unknown in most frames": replace(story, seen=story.seen[3:]),
        "known things were not recognised in most frames": replace(story, seen=story.seen[:-1]),
        "adapting did not help in the new light": replace(story, lit=light(0.4, 0.4)),
    }
    for what, other in broken.items():
        assert what in other.missing()


def test_accuracy_is_that_before_right_after_and_once_there_was_time():
    found = light(0.9, 0.4).accuracy(FROZEN)
    assert (found.before, found.right_after, found.recovered) == (1.0, 0.4, 0.4)


def test_the_real_recording_is_counted_by_its_labelled_objects(story):
    assert story.summary()["real_recording"] == {
        "frames": 2,
        "objects_labelled": 3,
        "objects_found": 2,
        "called_unknown": 1,
        "regions": 3,
    }
    assert story.table.answered()


def test_a_real_frame_without_an_answer_is_waited_for_and_not_counted(story):
    del story.table.detections[1, 0]
    assert not story.table.answered()
    assert story.table.summary()["frames"] == 1
    assert RealTable().summary()["objects_labelled"] == 0


def test_the_report_is_drawn_also_when_pictures_are_missing(story, tmp_path):
    for number, told in enumerate(
        (story, replace(story, before=None, lit=LitThings(), table=RealTable()))
    ):
        file = tmp_path / f"{number}.png"
        draw(told, file)
        assert Image.open(file).size[0] > 500


def test_the_parameter_file_sets_parameters_that_there_are():
    content = yaml.safe_load((ROOT / "config/demo.yaml").read_text())
    nodes = content.pop("/container")["ros__parameters"]["nodes"]
    kinds = {(e.partition(":")[2] or e.partition(":")[0]): e.partition(":")[0] for e in nodes}
    assert {f"/{full}" for full in kinds} == set(content)
    for full, kind in kinds.items():
        node = node_class(kind)
        declared = {p.name: p for p in (*node.COMMON_PARAMETERS, *node.PARAMETERS)}
        for key, value in content[f"/{full}"]["ros__parameters"].items():
            assert type(value) is type(declared[key].default), f"{full} {key}"
            assert declared[key].problem(value) is None
