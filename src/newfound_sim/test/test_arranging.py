# SPDX-License-Identifier: Apache-2.0
import itertools

import numpy as np
import shapely
from newfound_sim.arranging import arrange, close_up, overview
from newfound_sim.camera import CAMERAS
from newfound_sim.objects import CLASSES, build
from newfound_sim.workbench import PlacedObject


def footprint(thing):
    corners = build(thing.label, thing.seed).footprint()
    placed = np.column_stack([corners, np.zeros(len(corners)), np.ones(len(corners))])
    return shapely.Polygon((placed @ thing.pose().T)[:, :2])


def test_arranged_objects_never_overlap():
    rng = np.random.default_rng(0)
    for trial in range(6):
        labels = list(rng.choice(CLASSES, 6))
        things = arrange(rng, labels, [trial * 6 + i for i in range(6)])
        assert len(things) >= 4
        for a, b in itertools.combinations(things, 2):
            assert not footprint(a).intersects(footprint(b)), (a, b)


def test_a_close_up_keeps_nearly_all_of_the_object_in_the_picture():
    rng = np.random.default_rng(1)
    for label in CLASSES:
        thing = PlacedObject(label, 1, 0.1, -0.05, float(rng.uniform(0, 360)))
        view = close_up(rng, thing, CAMERAS["webcam"]).view(CAMERAS["webcam"], 100, 100)
        pieces = build(label, 1).pieces
        points = np.vstack([p.mesh.vertices for p in pieces]) @ thing.pose()[:3, :3].T
        pixels = view.project(points + thing.pose()[:3, 3])
        inside = ((pixels >= -0.5) & (pixels <= 99.5)).all(axis=1)
        assert inside.mean() > 0.85, label
        assert np.ptp(pixels, axis=0).max() > 40, label


def test_an_overview_sees_the_middle_of_the_table():
    view = overview(np.random.default_rng(2)).view(CAMERAS["kinect"], 320, 240)
    u, v = view.project(np.zeros((1, 3)))[0]
    assert 100 < u < 220
    assert 60 < v < 180
