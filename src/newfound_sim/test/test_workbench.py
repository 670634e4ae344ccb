# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_sim.errors import ScenarioError
from newfound_sim.lights import mix, named
from newfound_sim.workbench import (
    DOMAINS,
    Bench,
    CameraPose,
    PlacedObject,
    find_domains,
    render_bench,
    table,
)


def test_the_table_top_is_the_plane_of_the_objects():
    for background in ("white", "brown"):
        top = table(background)[0]
        assert top.mesh.bounds[1, 2] == pytest.approx(0)
        assert top.instance == 0


def test_white_is_bright_and_neutral_and_brown_is_darker_and_reddish():
    pictures = (table(name)[0].material.texture.image for name in ("white", "brown"))
    white, brown = (picture.mean(axis=(0, 1)) for picture in pictures)
    assert white.min() > 200
    assert white.max() - white.min() < 15
    assert brown[0] > brown[1] > brown[2]
    assert brown.max() < 170


def test_tables_differ_by_seed():
    first, second = (table("brown", seed)[0].material.texture.image for seed in (1, 2))
    assert (first != second).any()


def test_another_background_is_refused():
    with pytest.raises(ScenarioError, match="white, brown"):
        table("black")


SMALL = {"width": 64, "height": 48, "samples": 1}


def test_there_are_twelve_domains_that_differ_in_up_to_three_conditions():
    assert len(DOMAINS) == 12
    first = DOMAINS["artificial_kinect_white"]
    counts = [first.changes(other) for other in DOMAINS.values()]
    assert {n: counts.count(n) for n in range(4)} == {0: 1, 1: 4, 2: 5, 3: 2}


def test_an_explicit_scene_is_rendered_with_its_truth():
    objects = (PlacedObject("mug", 1, -0.12, 0.0, 30), PlacedObject("banana", 2, 0.12, 0.0, 90))
    frame = render_bench(Bench(objects), **SMALL)
    assert frame.rgb.shape == (48, 64, 3)
    assert frame.rgb.dtype == np.uint8
    assert frame.labels == {1: "mug", 2: "banana"}
    boxes = frame.boxes()
    assert boxes[1][2] < boxes[2][0]  # the mug is left of the banana
    assert set(np.unique(frame.instances)) == {0, 1, 2}


def test_the_table_lies_where_geometry_says():
    pose = CameraPose(eye=(0.0, 0.0, 0.8), target=(0.0, 0.001, 0.0))
    frame = render_bench(Bench((PlacedObject("book", 0, 0.0, 0.0),)), pose=pose, **SMALL)
    corner = frame.depth[2, 2]
    assert corner == pytest.approx(0.8, abs=0.01)
    assert frame.depth[24, 32] < 0.79  # the book's cover is nearer


def test_light_between_two_illuminations_looks_between_them():
    thing = (PlacedObject("apple", 0),)
    a, b = named("artificial"), named("cloudy")

    def warmth(lighting):
        red, _, blue = render_bench(Bench(thing, lighting), **SMALL).rgb.mean(axis=(0, 1))
        return red - blue

    assert warmth(a) > warmth(mix(a, b, 0.5)) > warmth(b)


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ScenarioError, match="artificial_kinect_white"):
        find_domains(["artificial"])
    with pytest.raises(ScenarioError, match="kinect, webcam"):
        render_bench(Bench(()), "phone", **SMALL)
    with pytest.raises(ScenarioError, match="white, brown"):
        render_bench(Bench((), background="green"), **SMALL)
