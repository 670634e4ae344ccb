# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import time

import cv2
import numpy as np
import pytest

from newfound_sim.__main__ import main
from newfound_sim.annotations import from_run_lengths
from newfound_sim.errors import DatasetError
from newfound_sim.generate import CropRequest, DetectionRequest, crop, find_classes, record_request

ONE = {"domains": ("cloudy_webcam_white",), "classes": ("mug",), "images": 1}


def test_groups_of_classes_have_names():
    assert len(find_classes(["tools"])) == 9
    assert set(find_classes(["tools"])) < set(find_classes(["all"]))
    assert find_classes(["mug", "key"]) == ["mug", "key"]


def test_a_folder_can_grow_but_not_change_its_kind(tmp_path):
    record_request(tmp_path, CropRequest(**ONE))
    record_request(tmp_path, CropRequest(**{**ONE, "images": 9, "classes": ("mug", "key")}))
    with pytest.raises(DatasetError, match="size is 128, asked for 64"):
        record_request(tmp_path, CropRequest(**ONE, size=64))
    with pytest.raises(DatasetError, match="DetectionRequest"):
        record_request(tmp_path, DetectionRequest(**ONE))


TINY = ["--size", "24", "--samples", "1", "--workers", "1"]
TWO = ["--domains", "artificial_kinect_white", "directed_webcam_brown", "--classes", "mug", "key"]


def test_crops_are_a_tree_of_domains_and_classes(tmp_path, capsys):
    out = tmp_path / "crops"
    assert main(["generate", "workbench", "--out", str(out), "--images", "2", *TWO, *TINY]) == 0
    found = sorted(p.relative_to(out).as_posix() for p in out.glob("*/*/*.jpg"))
    assert len(found) == 8
    assert found[0] == "artificial_kinect_white/key/00000.jpg"
    assert cv2.imread(str(out / found[0])).shape == (24, 24, 3)
    assert (out / "contact_sheet.jpg").exists()
    assert "8 images" in capsys.readouterr().out


def test_a_second_run_adds_only_what_is_missing(tmp_path, capsys):
    out = tmp_path / "crops"
    command = ["generate", "workbench", "--out", str(out), *TWO, *TINY]
    main([*command, "--images", "1"])
    lost = out / "directed_webcam_brown" / "mug" / "00000.jpg"
    before = lost.read_bytes()
    lost.unlink()
    (lost.parent / ".00000.jpg.part123").write_bytes(b"half")
    main([*command, "--images", "1"])
    assert "1 images" in capsys.readouterr().out.splitlines()[-1]
    assert lost.read_bytes() == before  # same seed, same file
    assert not list(out.rglob(".*"))


def test_a_folder_made_for_another_request_is_refused(tmp_path, capsys):
    command = ["generate", "workbench", "--out", str(tmp_path / "a"), "--images", "1", *TWO]
    assert main([*command, *TINY]) == 0
    assert main([*command, *TINY, "--seed", "5"]) == 2
    assert "seed is 0, asked for 5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--classes", "spanner"], "unknown class 'spanner'"),
        (["--domains", "moonlight"], "unknown domain 'moonlight'"),
        (["--images", "0"], "images must be at least 1"),
        (["--size", "4"], "size must be at least 16"),
    ],
)
def test_an_impossible_request_is_refused_in_a_sentence(tmp_path, capsys, flags, told):
    assert main(["generate", "workbench", "--out", str(tmp_path), *TINY, *flags]) == 2
    assert told in capsys.readouterr().err


def test_the_same_number_is_the_same_instance_in_every_domain():
    sizes = {"size": 16, "samples": 1, "seed": 2}
    a = crop("cloudy_kinect_white", "book", 0, **sizes)
    b = crop("cloudy_kinect_brown", "book", 0, **sizes)
    assert a.labels == b.labels == {1: "book"}
    assert (a.rgb != b.rgb).any()


def test_a_detection_set_is_coco_with_true_boxes_and_depth(tmp_path):
    flags = ["--images", "2", "--width", "64", "--height", "48", "--samples", "1"]
    flags += ["--fewest-objects", "2", "--most-objects", "3"]
    domain = "cloudy_webcam_white"
    command = ["generate", "detection", "--out", str(tmp_path), "--domains", domain, *flags]
    assert main([*command, "--workers", "1"]) == 0
    document = json.loads((tmp_path / domain / "annotations.json").read_text())
    assert len(document["images"]) == 2
    assert document["annotations"]
    for entry in document["annotations"]:
        mask = from_run_lengths(entry["segmentation"])
        rows, columns = np.nonzero(mask)
        x, y, width, height = entry["bbox"]
        assert (x, y) == (columns.min(), rows.min())
        assert (width, height) == (np.ptp(columns) + 1, np.ptp(rows) + 1)
        assert entry["area"] == mask.sum()
    for image in document["images"]:
        path = tmp_path / domain / image["file_name"]
        assert cv2.imread(str(path)).shape == (48, 64, 3)
        depth = cv2.imread(str(tmp_path / domain / "depth" / f"{path.stem}.png"), -1)
        assert (depth.dtype, depth.shape) == (np.uint16, (48, 64))
        assert 400 < np.median(depth) < 1000, "millimetres to a table within reach"
        objects = [e for e in document["annotations"] if e["image_id"] == image["id"]]
        assert 2 <= len(objects) <= 3


@pytest.mark.slow
def test_a_killed_run_leaves_only_whole_files_no_workers_and_is_completed(tmp_path):
    out = tmp_path / "crops"
    flags = ["--images", "4", "--size", "48", "--samples", "2", *TWO]
    command = ["generate", "workbench", "--out", str(out), *flags]
    run = subprocess.Popen(
        [sys.executable, "-m", "newfound_sim", *command, "--workers", "2"], start_new_session=True
    )
    wait_until(lambda: len(list(out.glob("*/*/*.jpg"))) >= 2)
    run.kill()
    run.wait()
    wait_until(lambda: not group_lives(run.pid))
    survivors = list(out.glob("*/*/*.jpg"))
    assert all(cv2.imread(str(path)) is not None for path in survivors)
    assert main([*command, "--workers", "1"]) == 0
    assert len(list(out.glob("*/*/*.jpg"))) == 16
    assert not list(out.rglob(".*"))


def wait_until(condition, seconds=200):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def group_lives(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
