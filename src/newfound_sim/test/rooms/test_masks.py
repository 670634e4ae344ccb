# SPDX-License-Identifier: Apache-2.0

import json

import cv2
import numpy as np
import pytest

from newfound_sim.__main__ import main
from newfound_sim.rooms.images import room_image
from newfound_sim.rooms.masks import CLASSES, RoomMasks, room_mask
from newfound_sim.rooms.names import CATEGORIES
from newfound_sim.rooms.room import build_room
from newfound_sim.rooms.viewpoints import floor_map, random_view


def shares(mask):
    return {CLASSES[number]: float((mask == number).mean()) for number in np.unique(mask)}


def test_a_mask_shows_the_surfaces_and_the_furniture_of_the_picture():
    mask = room_mask("loft", "office", 2, (64, 48))
    found = shares(mask)
    assert mask.shape == (48, 64)
    assert mask.dtype == np.uint8
    assert {"wall", "floor", "table", "chair", "shelf"} <= set(found)
    assert (mask[-1] == CLASSES.index("floor")).mean() > 0.5
    assert found.get("background", 0) < 0.1


def test_mask_and_picture_have_the_same_edges():
    frame = room_image("institute", "cloudy", "corridor", 1, (96, 72), samples=1)
    mask = room_mask("institute", "corridor", 1, (96, 72))
    floor = mask == CLASSES.index("floor")
    # The floor's depth falls from row to row; a shifted mask would mix in the wall.
    rows, columns = np.nonzero(floor[1:] & floor[:-1])
    steps = frame.depth[rows, columns] - frame.depth[rows + 1, columns]
    assert len(steps) > 500
    assert (steps > -0.02).mean() > 0.99


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_kind_of_room_has_masks_with_or_without_windows(category):
    for seed in range(2):
        room = build_room("institute", category, seed)
        view = random_view(room, floor_map(room), np.random.default_rng(0), (16, 16))
        assert CLASSES.index("floor") in RoomMasks(room).mask(view)


def test_labelled_pictures_are_written_and_go_on_where_they_stopped(tmp_path):
    command = ["generate", "segments", "--out", str(tmp_path / "d"), "--domains", "loft_night"]
    command += ["--classes", "corridor", "--images", "2", "--views", "2", "--size", "32"]
    command += ["--samples", "1", "--workers", "1"]
    assert main(command) == 0
    classes = json.loads((tmp_path / "d" / "classes.json").read_text())["classes"]
    assert tuple(classes) == CLASSES
    names = sorted(p.stem for p in (tmp_path / "d" / "images").iterdir())
    assert names == ["loft_night_corridor_00000", "loft_night_corridor_00001"]
    for name in names:
        labels = cv2.imread(str(tmp_path / "d" / "labels" / f"{name}.png"), cv2.IMREAD_UNCHANGED)
        assert labels.shape == (32, 32)
        assert labels.max() < len(CLASSES)
    first = tmp_path / "d" / "images" / f"{names[0]}.jpg"
    kept, first_bytes = (tmp_path / "d" / "images" / f"{names[1]}.jpg"), first.read_bytes()
    first.unlink()
    time = kept.stat().st_mtime_ns
    assert main(command) == 0
    assert first.read_bytes() == first_bytes
    assert kept.stat().st_mtime_ns == time


def test_an_unknown_domain_is_refused(tmp_path, capsys):
    command = ["generate", "segments", "--out", str(tmp_path / "d"), "--domains", "castle"]
    assert main(command) == 2
    assert "unknown domain 'castle'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["wall", "floor", "door", "sofa", "bed", "plant"])
def test_classes_have_names_that_people_use(name):
    assert name in CLASSES
