# SPDX-License-Identifier: Apache-2.0
"""A class of pixels that one segmenter learned is known by another."""

import hashlib
import json
import struct

import cv2
import numpy as np
import pytest

from newfound_core.knowledge.knowledge_base import KnowledgeBase
from newfound_core.knowledge.segments import forgetting, from_checkpoint, read_segments, renaming
from newfound_core.learning import learn
from newfound_core.learning.job import JobState, SegmentOptions
from newfound_core.packages import Package, PackageError, pack, unpack
from newfound_core.packages.__main__ import main
from newfound_core.packages.classes import class_images
from newfound_core.packages.segments import export_segment, import_segment, segment_pairs
from newfound_core.segmentation.samples import LabelledImage
from newfound_core.segmentation.taught import read_taught, write_taught
from newfound_core.testing import COLOURS, coloured_scene, tiny_open_world, tiny_segments

YELLOW = {**COLOURS, "yellow": (230, 220, 40)}
BEFORE = ("background", *COLOURS)
QUICK = SegmentOptions(
    iterations=20, variants=0, frozen_stages=0, max_accuracy_loss=1.0, max_class_loss=1.0
)


def png(values):
    return cv2.imencode(".png", values[..., ::-1] if values.ndim == 3 else values)[1].tobytes()


def scenes(count=4):
    """Images with yellow things, and the masks of these."""
    found = [coloured_scene(YELLOW, 100 + seed) for seed in range(count)]
    return [(png(rgb), png((labels == 4).astype(np.uint8))) for rgb, labels in found]


def named(content):
    return f"images/{hashlib.sha256(content).hexdigest()}.png"


def yellow(pairs=None, **changes):
    """A package of a class of pixels, as it should be but for the changes."""
    pairs = scenes() if pairs is None else pairs
    entries = [{"file": named(image), "mask": named(mask)} for image, mask in pairs]
    return Package(
        **{
            "kind": "segmentation_class",
            "name": "yellow",
            "details": {"images": entries},
            "files": {named(content): content for pair in pairs for content in pair},
            "provenance": {"robot": "r2"},
            **changes,
        }
    )


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    return tiny_segments(tmp_path_factory.mktemp("segments") / "tiny", skilled=True)


def make_robot(root, checkpoint):
    base = KnowledgeBase(root, read_segments)
    base.open(from_checkpoint(checkpoint))
    base.close()
    return root


@pytest.fixture
def robot(tmp_path, shipped):
    return make_robot(tmp_path / "robot", shipped)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory, shipped):
    """A robot that has learned yellow; tests do not change it."""
    root = make_robot(tmp_path_factory.mktemp("one") / "base", shipped)
    assert import_segment(root, yellow(), QUICK).state is JobState.DONE
    return root


def masks_of(package):
    return list(segment_pairs(package)[1].values())


def test_a_class_goes_from_robot_to_robot_and_can_be_undone(teacher, robot):
    package = unpack(pack(export_segment(teacher / "current", "Yellow", "robot one")))
    assert (package.name, package.provenance["robot"]) == ("yellow", "robot one")
    assert masks_of(package) == masks_of(yellow())  # drawn once, the same everywhere
    status = import_segment(robot, package, QUICK)
    assert (status.state, status.version) == (JobState.DONE, 2)
    assert masks_of(export_segment(robot / "current", "yellow")) == masks_of(package)
    base = KnowledgeBase(robot, read_segments)
    assert base.open().content.labels == (*BEFORE, "yellow")
    base.switch(base.copy(1))
    assert base.open().content.labels == BEFORE
    base.switch(base.copy(2))
    assert len(masks_of(export_segment(robot / "current", "yellow"))) == 4
    base.close()


def test_a_shipped_class_is_given_away_with_the_frames_that_show_it(shipped, tmp_path):
    package = export_segment(shipped, "red")
    images, masks = segment_pairs(unpack(pack(package)))
    assert list(images) == [f"image_00{n}.jpg" for n in range(4)]
    first = cv2.imread(str(shipped / "reference/labels/000.png"), cv2.IMREAD_UNCHANGED)
    mask = cv2.imdecode(np.frombuffer(masks["image_000.jpg"], np.uint8), cv2.IMREAD_UNCHANGED)
    assert (mask == (first == 1)).all()
    without = tmp_path / "without"
    without.mkdir()
    forgetting(shipped, "red")(without)
    robot = make_robot(tmp_path / "other", without)
    assert import_segment(robot, package, QUICK).state is JobState.DONE
    for label in ("background", "pink"):
        with pytest.raises(PackageError, match="no class"):
            export_segment(shipped, label)


def test_what_a_class_was_taught_with_follows_it_through_versions(teacher, tmp_path):
    before, after = masks_of(export_segment(teacher / "current", "yellow")), {}
    for name, write in {
        "smaller": forgetting(teacher / "current", "green"),
        "renamed": renaming(teacher / "current", "yellow", "ochre"),
        "forgotten": forgetting(teacher / "current", "yellow"),
        "copied": from_checkpoint(teacher / "current"),
    }.items():
        after[name] = tmp_path / name
        after[name].mkdir()
        write(after[name])
    for name, label in {"smaller": "yellow", "renamed": "ochre", "copied": "yellow"}.items():
        assert masks_of(export_segment(after[name], label)) == before
    assert not read_taught(after["forgotten"], 4)
    robot = make_robot(tmp_path / "next", teacher / "current")
    assert import_segment(robot, yellow(name="lemon"), QUICK).state is JobState.DONE
    for label in ("yellow", "lemon"):
        assert masks_of(export_segment(robot / "current", label)) == before


@pytest.mark.parametrize(("showing", "kept"), [(2, 2), (10, 10), (50, 15)])
def test_of_many_images_twenty_are_kept_that_show_the_class_and_that_do_not(
    tmp_path, showing, kept
):
    rgb = np.zeros((4, 4, 3), np.uint8)
    masks = [np.full((4, 4), number < showing, np.uint8) for number in range(100)]
    write_taught(tmp_path, 7, [LabelledImage(rgb, mask) for mask in masks])
    found = read_taught(tmp_path, 7)
    assert (len(found), sum(int(f.labels[0, 0]) for f in found)) == (20, kept)


def test_one_that_is_known_or_rejected_changes_nothing(robot, monkeypatch):
    with pytest.raises(PackageError, match="'red' is known already"):
        import_segment(robot, yellow(name="Red"), QUICK)
    verdict = JobState.REJECTED, "forgot_too_much", "floors would be walls"
    monkeypatch.setattr(learn, "validate", lambda accuracy, options: verdict)
    status = import_segment(robot, yellow(), QUICK)
    assert (status.state, status.message) == (JobState.REJECTED, "floors would be walls")
    assert (robot / "current").readlink().name == "000001"


def test_a_class_of_which_nothing_is_kept_cannot_be_given_away(shipped, tmp_path):
    renaming(shipped, "red", "crimson")(tmp_path)
    for path in (tmp_path / "reference").rglob("*.*"):
        path.unlink()
    with pytest.raises(PackageError, match="'crimson' cannot be given away: no images"):
        export_segment(tmp_path, "crimson")


def test_the_command_knows_the_knowledge_of_a_segmenter(teacher, robot, tmp_path, capsys):
    file = str(tmp_path / "yellow.nfp")
    assert main(["export", str(teacher), "yellow", file, "--unsigned"]) == 0
    assert "'yellow', 4 images" in capsys.readouterr().out
    assert main(["inspect", file]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "segmentation_class"
    load = ["import", str(robot), file, "--unsigned"]
    assert main([*load, "--extend"]) == 2
    assert "cannot be extended" in capsys.readouterr().err
    assert main(load) in (0, 3)  # learned, or rejected, with the settings of a robot
    assert "'yellow': " in capsys.readouterr().out


def test_a_class_of_another_kind_is_refused_by_the_command(teacher, robot, tmp_path, capsys):
    detector, objects = tiny_open_world(tmp_path / "detector"), str(tmp_path / "red.nfp")
    pixels = str(tmp_path / "yellow.nfp")
    assert main(["export", str(detector), "red", objects, "--unsigned"]) == 0
    assert main(["export", str(teacher), "yellow", pixels, "--unsigned"]) == 0
    assert main(["import", str(robot), objects, "--unsigned"]) == 2
    assert "holds a class, no segmentation_class" in capsys.readouterr().err
    assert main(["import", str(detector), pixels, "--unsigned"]) == 2
    assert "holds a segmentation_class, no class" in capsys.readouterr().err
    with pytest.raises(PackageError, match="no class"):
        class_images(yellow())


def with_mask(mask):
    """The first image has another mask."""
    (image, _), *others = scenes()
    return yellow([(image, mask), *others])


def entries(change):
    """The list of images is another one."""
    made = yellow()
    change(made.details["images"])
    return made


def mask_bomb():
    content = bytearray(scenes()[0][1])
    content[16:24] = struct.pack(">II", 60_000, 60_000)
    return bytes(content)


def jpeg():
    return cv2.imencode(".jpg", np.ones((48, 64), np.uint8))[1].tobytes()


FLAT = np.ones((48, 64), np.uint8)
HOSTILE = {
    "a mask of another size": (lambda: with_mask(png(FLAT[:9, :9])), "9 x 9 pixels, its image"),
    "a mask that lies on its side": (lambda: with_mask(png(FLAT.T.copy())), "48 x 64 pixels"),
    "a mask of other values": (lambda: with_mask(png(FLAT * 7)), "labelled 7"),
    "a mask of values 0 and 254": (lambda: with_mask(png(FLAT * 254)), "labelled 254"),
    "a mask in colour": (lambda: with_mask(png(np.stack([FLAT] * 3, 2))), "no 8-bit grey PNG"),
    "a mask of 16 bits": (lambda: with_mask(png(FLAT.astype(np.uint16))), "no 8-bit grey PNG"),
    "a mask that is a JPEG": (lambda: with_mask(jpeg()), "no PNG that can be read"),
    "a mask that is cut off": (lambda: with_mask(scenes()[0][1][:60]), "no PNG that can be read"),
    "a mask that is a text": (lambda: with_mask(b"mask"), "no PNG that can be read"),
    "a mask of 3,600 megapixels": (lambda: with_mask(mask_bomb()), "no PNG|60000 x 60000"),
    "no mask": (lambda: entries(lambda e: e[0].pop("mask")), "wrong form"),
    "a mask that is not there": (
        lambda: entries(lambda e: e[0].update(mask=f"images/{'0' * 64}.png")), "not in it"),
    "a mask that is a path": (
        lambda: entries(lambda e: e[0].update(mask="../../etc/passwd")), "not in it"),
    "a mask that is a list": (lambda: entries(lambda e: e[0].update(mask=[])), "not in it"),
    "an image that is a text": (
        lambda: yellow([(b"no image", png(FLAT)), *scenes()]), "is no image"),
    "files besides": (lambda: entries(lambda e: e.pop()), "neither images nor masks"),
    "weights besides": (
        lambda: yellow(files={**yellow().files, "head.safetensors": b"x"}), "neither images"),
    "no images": (lambda: yellow([]), "lists no images"),
    "201 images": (lambda: entries(lambda e: e.extend(e[:1] * 197)), "201 images, at most 200"),
    "one that shows the class": (
        lambda: yellow([scenes()[0], *((i, png(FLAT * 0)) for i, _ in scenes()[1:])]),
        "1 of 4 masks show the class"),
    "nothing but the class": (
        lambda: yellow([(i, png(FLAT)) for i, _ in scenes()]), "something else"),
    "a label that is a path": (lambda: yellow(name="../yellow"), "looks like a path"),
    "a class of objects": (lambda: yellow(kind="class"), "no segmentation_class"),
    "details of a class of objects": (
        lambda: entries(lambda e: e[0].update(held_out=False)), "wrong form"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_class_is_refused_with_the_reason(name):
    make, reason = HOSTILE[name]
    package = unpack(pack(make()))
    with pytest.raises(PackageError, match=reason):
        segment_pairs(package)
