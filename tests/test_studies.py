# SPDX-License-Identifier: Apache-2.0
"""How the studies measure; the measurements themselves are `python -m studies.<name>`."""

import numpy as np
import pytest

from newfound_msgs.msg import RememberedObject
from newfound_sim.workbench import DOMAINS, PlacedObject
from newfound_training.detector.measures import Scene
from newfound_web.providers.base import Candidate
from studies.bench_films import ARCS
from studies.jittered_stills import SHIFT, Still, jittered
from studies.learn_on_the_bench import MET, mistaken, names_given, unlearned_named
from studies.memory_walk import APART, THINGS, Walk, at, furnish, middle, path, score
from studies.name_providers import refusals
from studies.package_travel import OWN, VIEWS, Groceries
from studies.proxy_workbench import summarise, table

BOXES = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10], [60, 0, 70, 10]], float)


def test_a_new_name_given_to_other_things_is_counted():
    truth = ("mug", "ball", "carrot", "carrot")
    said = ("mug", "ball", "ball")  # the last carrot is not found
    scene = Scene(BOXES, truth, BOXES[:3], said, (1.0,) * 3)
    names = names_given([scene])
    assert names == {
        ("mug", "mug"): 1,
        ("ball", "ball"): 1,
        ("carrot", "ball"): 1,
        ("carrot", ""): 1,
    }
    assert mistaken(names, "ball") == pytest.approx(1 / 3)
    assert unlearned_named(names, ["carrot"]) == pytest.approx(1 / 2)
    assert unlearned_named(names, []) is None


def test_what_comes_soon_after_a_meeting_is_seen_from_another_side():
    eyes = np.array([pose.eye for pose in ARCS["meeting"].poses()])
    around = np.degrees(np.unwrap(np.arctan2(eyes[:, 1] - 0.02, eyes[:, 0])))
    assert len(eyes) > MET
    assert np.ptp(around[:MET]) > 120
    assert (np.diff(around) > 0).all()  # so no side comes twice


def test_pairs_of_domains_are_averaged_by_what_changed():
    # An accuracy that falls by 0.1 for each changed condition, and by 0.05 more for the camera.
    accuracy = {
        a: {
            b: 0.9 - 0.1 * x.changes(y) - 0.05 * (x.camera != y.camera) for b, y in DOMAINS.items()
        }
        for a, x in DOMAINS.items()
    }
    result = summarise(accuracy)
    rows = result["accuracy_by_changes"]
    assert [rows[n]["pairs"] for n in range(4)] == [12, 48, 60, 24]
    assert rows[0]["mean"] == pytest.approx(0.9)
    assert rows[1]["mean"] == pytest.approx(0.8 - 0.05 / 4)  # 12 of 48 pairs change the camera
    assert rows[3]["mean"] == pytest.approx(0.55)
    assert result["accuracy_by_condition"] == pytest.approx(
        {"illumination": 0.8, "camera": 0.75, "background": 0.8}
    )
    assert "| 3 | 55.0% ± 0.0% | 24 |" in table(result)


def test_a_jittered_still_is_shifted_together_with_its_depth_and_boxes():
    rgb = np.full((60, 80, 3), 40, np.uint8)
    rgb[20:40, 30:50] = 200
    depth = np.where(rgb[..., 0] > 100, 1.0, 2.0).astype(np.float32)
    still = Still(rgb, depth, np.array([[30, 20, 50, 40]], np.float32))
    generator, shifts = np.random.default_rng(0), []
    for _ in range(20):
        seen, measured, [box] = jittered(still, generator)
        shifts.append(box[:2] - [30, 20])
        rows, columns = np.nonzero(seen[..., 0] > 120)
        assert box[:2] == pytest.approx([columns.min(), rows.min()], abs=1)
        rows, columns = np.nonzero((measured > 0.9) & (measured < 1.1))
        assert box[2:] == pytest.approx([columns.max() + 1, rows.max() + 1], abs=1.5)
        assert 0 < (measured == 0).mean() < 0.05
    assert np.abs(shifts).max() <= SHIFT
    assert np.ptp(shifts, axis=0).min() > SHIFT


def remembered(place, label=""):
    made = RememberedObject(label=label)
    made.pose.position.x, made.pose.position.y, made.pose.position.z = map(float, place)
    return made


def test_memories_are_matched_with_things_once_and_the_others_are_duplicates_or_false():
    things = [
        PlacedObject("mug", 0, 0.0),
        PlacedObject("teapot", 0, 0.3),
        PlacedObject("key", 0, 1),
    ]
    mug, teapot, _ = map(middle, things)
    found = [
        remembered(mug + np.array([0.01, 0, 0]), "mug"),
        remembered(mug - np.array([0.02, 0, 0]), "can"),  # a duplicate, farther away
        remembered(teapot, ""),
        remembered(teapot + np.array([0.2, 0, 0])),  # nothing is there
    ]
    result = score(things, found, {"mug"})
    assert (result["things"], result["remembered"], result["found"]) == (3, 4, 2)
    assert result["duplicates"] == 1
    assert (result["known"], result["named"]) == (1, 1)
    assert (result["unknown"], result["unnamed"]) == (1, 1)
    assert result["missed"] == ["key"]
    assert [facts[:2] for facts in result["false"]] == [["can", "mug"], ["", "teapot"]]
    assert result["errors"] == pytest.approx([0.01, 0.0], abs=1e-3)
    assert at(things[0], found)
    assert not at(things[2], found)


def test_the_walk_sees_both_tables_and_every_thing_has_another_class():
    first, brought = furnish(np.random.default_rng(0))
    assert len({each.label for each in [*first, brought]}) == 2 * THINGS + 1
    assert brought.x > APART / 2
    eyes = np.array([pose.eye for pose in path(Walk())])
    assert (eyes[:, 0] < 1).any()
    assert (eyes[:, 0] > APART - 1).any()


def test_no_photograph_is_both_learned_from_and_shown(tmp_path):
    for split in ("train", "test"):
        for name in "abcdefgh":
            folder = tmp_path / split / name
            folder.mkdir(parents=True)
            for number in range(12):
                (folder / f"{number}.jpg").write_text(f"{split} {name} {number}")
    groceries = Groceries(tmp_path, "abcdefgh")
    label, own, others = groceries.classes(3)
    assert len({label, *own, *others}) == 8
    assert len(own) == OWN
    images = groceries.images("test", label, 3)
    assert images == groceries.images("test", label, 3)
    assert len(set(images)) == 12 > VIEWS


def test_no_idea_is_weighed_by_the_right_names_it_loses():
    sure = [("mug", 0.6), ("cup", 0.4), ("cup", 0.1), ("fork", 0.05)]
    answers = [{"names": [Candidate(name, p, "names", 0.8)]} for name, p in sure]
    found = refusals(answers, ["mug", "mug", "cup", "cup"], {"confidence": 0.2, "span_share": 0.5})
    assert found["no_idea"]["confidence"] == {"lost": 0.5, "refused": 0.5}
    assert found["no_idea"]["span_share"] == {"lost": 0, "refused": 0}
    assert found["calibration"]["above_20"] == {"answers": 2, "confidence": 0.5, "first": 0.5}
