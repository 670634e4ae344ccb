# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from newfound_sim.errors import ScenarioError
from newfound_sim.scenario import RoomsScenario, WorkbenchScenario
from newfound_sim.scenario_file import MAX_BYTES, load_scenario, read


@pytest.fixture
def document(tmp_path):
    def write(text: str | bytes):
        path = tmp_path / "file.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read(path)

    return write


def test_values_come_out_with_their_types(document):
    fields = document("a: 3\nb: 2.5\nc: [1, 2.5]\nd: red").fields(["a", "b", "c", "d"])
    assert fields["a"].whole(0, 5) == 3
    assert fields["b"].number() == 2.5
    assert fields["c"].numbers(2, 0, 3) == (1.0, 2.5)
    assert fields["d"].choice(["red", "blue"]) == "red"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\n\nb: two", 3, "b must be a number, found 'two'"),
        ("a: 1\nb: yes", 2, "b must be a number, found 'yes'"),
        ("a: 1\nb: .inf", 2, "b must be a finite number"),
        ("a: 1\nb: !!int abc", 2, "b must be a finite number"),
        ("a: 1\nb: " + "9" * 400, 2, "b must be a finite number"),
        ("a: 1\nb:", 2, "b must be a number, found nothing"),
        ("a: 1\nb: [1]", 2, "b must be a number, found a list"),
        ("b: 1\nc: 2\na: 0", 2, "unknown key 'c'; the keys here are: a, b"),
        ("a: 1\nb: 2\na: 3", 3, "'a' is given twice"),
        ("a: 1", 1, "lacks the key 'b'"),
        ("- 1\n- 2", 1, "must be a mapping"),
        ("a: 1\nb: 'x", 2, "not YAML"),
        ("a: 1\n\tb: 2", 2, "not YAML"),
        (b"a: 1\nb: \xff", 2, "not UTF-8"),
        ("", 1, "empty"),
    ],
)
def test_a_wrong_value_is_refused_with_its_line(document, text, line, reason):
    with pytest.raises(ScenarioError, match=rf"file\.yaml:{line}: .*{re.escape(reason)}"):
        document(text).fields(["a", "b"])["b"].number()


def test_a_python_object_in_the_file_is_not_made(document, tmp_path):
    evidence = tmp_path / "evidence"
    text = f"a: 1\nb: !!python/object/apply:os.mkdir ['{evidence}']"
    with pytest.raises(ScenarioError, match="b must be a number"):
        document(text).fields(["a", "b"])["b"].number()
    assert not evidence.exists()


def test_a_file_that_is_missing_or_far_too_large_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        read(tmp_path / "none.yaml")
    large = tmp_path / "large.yaml"
    large.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(ScenarioError, match="at most"):
        read(large)


BENCH = """\
kind: workbench
duration: 10
rate: 10
size: [64, 48]
seed: 7
camera: webcam
background: brown
light: artificial
view: {target: [0, 0, 0], eye: [0, -0.4, 0.4]}
objects:
  - {class: mug, instance: 3, at: [-0.2, 0.1], yaw: 30}
  - {class: banana, at: [0.2, 0.0], from: 2, until: 6}
  - {class: apple, at: [0.2, 0.0], from: 6}
light_changes:
  - {from: 3, until: 5, to: directed}
  - {from: 8, to: cloudy}
camera_moves:
  - {from: 7, until: 8, eye: [0.2, -0.4, 0.4], target: [0, 0, 0]}
"""
ROOMS = """\
kind: rooms
rate: 4
building: cottage
lighting: night
visits:
  - {category: kitchen, seconds: 2}
  - {category: corridor, room: 5, seconds: 1}
"""


@pytest.fixture
def load(tmp_path):
    def write_and_load(text: str):
        path = tmp_path / "scenario.yaml"
        path.write_text(text)
        return load_scenario(path)

    return write_and_load


def test_a_workbench_is_read_as_it_is_written(load):
    scenario = load(BENCH)
    assert isinstance(scenario, WorkbenchScenario)
    assert scenario.frames == 100
    assert (scenario.settings.width, scenario.settings.height) == (64, 48)
    assert scenario.pose.eye == (0, -0.4, 0.4)
    mug, banana, apple = scenario.stays
    assert (mug.thing.label, mug.thing.seed, mug.thing.yaw_degrees) == ("mug", 3, 30)
    assert (mug.begin, mug.end) == (0, 10)
    assert (banana.begin, banana.end, apple.begin) == (2, 6, 6)
    assert [(c.begin, c.end, c.to) for c in scenario.changes] == [
        (3, 5, "directed"),
        (8, 8, "cloudy"),
    ]


def test_rooms_are_read_as_they_are_written(load):
    scenario = load(ROOMS)
    assert isinstance(scenario, RoomsScenario)
    assert [(v.category, v.room, v.frames) for v in scenario.visits] == [
        ("kitchen", 0, 8),
        ("corridor", 5, 4),
    ]
    assert scenario.frames == 12


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("kind: workbench", "kind: garden", 1, "kind must be one of workbench, rooms"),
        ("kind: workbench\n", "", 1, "lacks the key 'kind'"),
        ("duration: 10", "duration: long", 2, "duration must be a number, found 'long'"),
        ("duration: 10", "duration: 0", 2, "duration must be in 0.1 to 3600"),
        ("rate: 10", "rate: 1000", 3, "rate must be in 0.1 to 120"),
        ("rate: 10", "speed: 10", 3, "unknown key 'speed'"),
        ("[64, 48]", "[64]", 4, "size must have 2 entries, found 1"),
        ("[64, 48]", "[64, 4]", 4, "entry 2 of size must be in 16 to 4096"),
        ("[64, 48]", "64x48", 4, "size must be a list"),
        ("seed: 7", "seed: 1.5", 5, "seed must be a whole number"),
        ("camera: webcam", "camera: polaroid", 6, "camera must be one of kinect, webcam"),
        ("background: brown", "background: sea", 7, "background must be one of white, brown"),
        ("light: artificial", "light: disco", 8, "light must be one of artificial"),
        ("light: artificial", "building: loft", 8, "unknown key 'building'"),
        ("eye: [0, -0.4, 0.4]}", "eye: [0, -0.4, -1]}", 9, "the eye must be above the table"),
        ("eye: [0, -0.4, 0.4]}", "eye: [0, 0, 1]}", 9, "straight down"),
        ("class: banana", "class: unicorn", 12, "class must be one of"),
        ("at: [0.2, 0.0], from: 2", "at: [0.2], from: 2", 12, "at must have 2 entries"),
        ("from: 2, until: 6", "from: 6, until: 2", 12, "not after it comes"),
        ("from: 2, until: 6", "from: 2, until: 16", 12, "until must be in 0 to 10"),
        ("from: 2, until: 6", "from: 2, until: 7", 13, "apple overlaps the banana of line 12 "
         "from 6 to 7 s"),
        ("at: [-0.2, 0.1]", "at: [0.89, 0.1]", 11, "does not lie on the table"),
        ("to: directed", "to: dark", 15, "to must be one of artificial"),
        ("{from: 8, to: cloudy}", "{from: 4, to: cloudy}", 16, "before the last one ends, 5 s"),
        ("{from: 8, to: cloudy}", "{to: cloudy}", 16, "lacks the key 'from'"),
        ("from: 7, until: 8", "from: 7, until: 6", 18, "before it begins"),
    ],
)  # fmt: skip
def test_a_bad_workbench_is_refused_with_line_and_reason(load, old, new, line, reason):
    assert BENCH.count(old) == 1
    with pytest.raises(ScenarioError, match=rf"scenario\.yaml:{line}: .*{re.escape(reason)}"):
        load(BENCH.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("building: cottage", "building: castle", 3, "building must be one of"),
        ("lighting: night", "lighting: dusk", 4, "lighting must be one of"),
        ("category: kitchen", "category: cellar", 6, "category must be one of"),
        ("seconds: 2", "seconds: 0.25", 6, "a visit of 2 frames"),
        ("room: 5", "room: -5", 7, "room must be in 0 to"),
        ("rate: 4", "objects: []", 2, "unknown key 'objects'"),
    ],
)
def test_a_bad_walk_is_refused_with_line_and_reason(load, old, new, line, reason):
    with pytest.raises(ScenarioError, match=rf"scenario\.yaml:{line}: .*{re.escape(reason)}"):
        load(ROOMS.replace(old, new))


def test_more_frames_than_anybody_wants_are_refused(load):
    with pytest.raises(ScenarioError, match="432000 frames are more than"):
        load(
            "kind: workbench\nduration: 3600\nrate: 120\ncamera: webcam\nbackground: white\n"
            "light: cloudy\n"
        )
