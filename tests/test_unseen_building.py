# SPDX-License-Identifier: Apache-2.0
"""The walk through an unseen building, with a clip of noise and random models in a minute."""

import json

import cv2
import numpy as np
import pytest
import yaml

from newfound_core.testing import tiny
from newfound_msgs.msg import GroundTruth
from newfound_sim.clip import Truth
from newfound_sim.rooms.names import CATEGORIES, LIGHTINGS
from newfound_sim.scenario_file import load_scenario
from studies import unseen_building
from studies.playing import Moment, make_clip
from studies.unseen_building import scenario

PLACES = ("corridor", "kitchen", "office")


@pytest.fixture
def walk(tmp_path):
    """Thirty pictures of three places in a building called loft or another."""

    def make(building):
        random, shown = np.random.default_rng(0), []
        for number in range(30):
            path = tmp_path / f"{number}.jpg"
            cv2.imwrite(str(path), random.integers(0, 255, (24, 32, 3), dtype=np.uint8))
            shown.append((path, Truth((), PLACES[number // 10], f"{building}_cloudy")))
        return make_clip(tmp_path / "clip", shown)

    return make


@pytest.fixture
def arguments(tmp_path):
    models = {m: tiny(tmp_path / m, m, labels=PLACES) for m in ("bn", "wbn")}
    return [f"--{m}={folder}" for m, folder in models.items()] + [f"--out={tmp_path / 'out'}"]


@pytest.mark.slow
def test_the_command_writes_accuracies_and_the_strip(walk, arguments, tmp_path, monkeypatch):
    command = ["unseen_building", f"--source={walk('cottage')}", "--rate=10", *arguments]
    monkeypatch.setattr("sys.argv", command)
    unseen_building.main()
    result = json.loads((tmp_path / "out/result.json").read_text())
    assert set(result["accuracy"]) == {"bn", "bn_filtered", "wbn", "wbn_filtered"}
    assert result["walks"][0]["frames"] > 20
    assert (tmp_path / "out/walk.png").stat().st_size > 1000


def test_accuracy_and_changes_are_counted():
    places = {"truth": ["a", "a", "b", "b"], "bn": ["a", "b", "b", "a"]}
    places |= {row: ["a", "a", "a", "b"] for row in ("bn_filtered", "wbn", "wbn_filtered")}
    result = unseen_building.measure(places)
    assert result["accuracy"]["bn"] == 0.5
    assert result["accuracy"]["bn_filtered"] == 0.75
    assert (result["changes"]["truth"], result["changes"]["bn"]) == (1, 2)


def test_walks_are_averaged_with_their_standard_error():
    accuracies = [dict(zip(unseen_building.ROWS, values, strict=True))
                  for values in ((0.5, 0.5, 0.6, 0.6), (0.7, 0.9, 1.0, 0.9))]  # fmt: skip
    result = unseen_building.summary([{"accuracy": a} for a in accuracies])
    assert result["accuracy"]["bn"] == pytest.approx([0.6, 0.1])
    assert result["gain"]["image"] == pytest.approx([0.2, 0.1])
    assert result["gain"]["filtered"] == pytest.approx([0.05, 0.05])


def test_a_walk_shows_every_kind_of_place_and_films_by_its_description(tmp_path):
    file = tmp_path / "walk.yaml"
    file.write_text(yaml.safe_dump(scenario("townhouse", 1)))
    walk = load_scenario(file)
    assert {visit.category for visit in walk.visits} == set(CATEGORIES)
    assert walk.lighting == LIGHTINGS[1]


def test_a_building_of_training_is_refused(tmp_path):
    moments = [Moment(GroundTruth(domain="loft_night"))]
    with pytest.raises(SystemExit, match="was trained on"):
        unseen_building.check_unseen(moments, tiny(tmp_path / "wbn", "wbn"))
