# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_sim.scenario import (
    CameraMove,
    Light,
    LightChange,
    RenderSettings,
    RoomsScenario,
    Stay,
    Visit,
    WorkbenchScenario,
)
from newfound_sim.workbench import CameraPose, PlacedObject

HERE, THERE = CameraPose((0, -1, 1), (0, 0, 0)), CameraPose((1, -1, 1), (0, 2, 0))
BENCH = WorkbenchScenario(
    RenderSettings(rate=10),
    duration=10,
    camera="kinect",
    background="white",
    light="artificial",
    pose=HERE,
    stays=(Stay(PlacedObject("mug", 0), 0, 10), Stay(PlacedObject("can", 0, 0.3), 2, 4)),
    changes=(LightChange(4, 6, "directed"), LightChange(8, 8, "cloudy")),
    moves=(CameraMove(6, 8, THERE),),
)


def test_an_object_is_there_from_its_first_moment_until_just_before_its_last():
    assert BENCH.objects_at(1.9) == (1,)
    assert BENCH.objects_at(2.0) == (1, 2)
    assert BENCH.objects_at(3.9) == (1, 2)
    assert BENCH.objects_at(4.0) == (1,)


@pytest.mark.parametrize(
    ("time", "light"),
    [
        (4.0, Light("artificial", "artificial")),
        (4.5, Light("artificial", "directed", 0.25)),
        (6.0, Light("directed", "directed")),
        (7.9, Light("directed", "directed")),
        (8.0, Light("cloudy", "cloudy")),
    ],
)
def test_light_drifts_or_changes_at_once(time, light):
    assert BENCH.light_at(time) == light


def test_the_weights_of_the_keyframes_are_those_of_the_lights():
    keyframes = BENCH.keyframes_at(4.5)
    assert {e.light: w for e, w in keyframes.items()} == {"artificial": 0.75, "directed": 0.25}
    assert {e.light: w for e, w in BENCH.keyframes_at(7).items()} == {"directed": 1.0}


def test_the_camera_glides_and_is_half_way_at_half_time():
    assert BENCH.pose_at(6) == HERE
    assert BENCH.pose_at(7) == CameraPose((0.5, -1, 1), (0, 1, 0))
    assert BENCH.pose_at(8) == THERE
    early = BENCH.pose_at(6.2).eye[0]
    assert 0 < early < 0.1, "it starts slowly"


def test_the_truth_names_the_nearer_domain_and_the_way_of_the_light():
    assert BENCH.truth_at(4.5).domain == "artificial_kinect_white"
    after = BENCH.truth_at(5.5)
    assert after.domain == "directed_kinect_white"
    assert (after.illumination, after.next_illumination) == ("artificial", "directed")
    assert after.illumination_share == 0.75


def test_a_walk_visits_its_rooms_one_after_the_other():
    visits = (Visit("kitchen", 0, 8), Visit("office", 3, 4))
    walk = RoomsScenario(RenderSettings(rate=4), "loft", "sunny", visits)
    assert walk.frames == 12
    places = [walk.truth_at(n / 4).place for n in range(12)]
    assert places == ["kitchen"] * 8 + ["office"] * 4
    assert walk.truth_at(0).domain == "loft_sunny"
    assert len({exposure for n in range(12) for exposure in walk.keyframes_at(n / 4)}) == 12
