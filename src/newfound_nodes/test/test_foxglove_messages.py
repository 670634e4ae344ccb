# SPDX-License-Identifier: Apache-2.0
"""With the real foxglove_msgs where it is installed, else with a stand-in of the same fields."""

from types import SimpleNamespace

import pytest
from builtin_interfaces.msg import Time
from sensor_msgs.msg import RegionOfInterest
from std_msgs.msg import Header

from newfound_msgs.msg import OpenWorldDetection, OpenWorldDetections
from newfound_nodes import foxglove_messages


def stand_in(**defaults):
    """A message type: only its own fields can be set."""

    def make(**values):
        assert set(values) <= set(defaults)
        return SimpleNamespace(**{name: kind() for name, kind in defaults.items()} | values)

    return make


@pytest.fixture
def foxglove(monkeypatch):
    if not foxglove_messages.AVAILABLE:
        kinds = {
            "Color": stand_in(r=float, g=float, b=float, a=float),
            "Point2": stand_in(x=float, y=float),
            "ImageAnnotations": stand_in(circles=list, points=list, texts=list),
            "PointsAnnotation": stand_in(
                timestamp=Time, type=int, points=list, outline_color=object, outline_colors=list,
                fill_color=object, thickness=float,
            ),
            "TextAnnotation": stand_in(
                timestamp=Time, position=object, text=str, font_size=float, text_color=object,
                background_color=object,
            ),
        }  # fmt: skip
        for name, kind in kinds.items():
            monkeypatch.setattr(foxglove_messages, name, kind)
    return foxglove_messages


def test_detections_are_boxes_with_names_on_the_image(foxglove):
    region = RegionOfInterest(x_offset=10, y_offset=20, width=30, height=41)
    message = OpenWorldDetections(
        header=Header(stamp=Time(sec=5)),
        detections=[
            OpenWorldDetection(label="mug", region=region),
            OpenWorldDetection(unknown_id="u1", region=region),
        ],
    )
    made = foxglove.annotations(message)
    first, second = made.points
    assert [(point.x, point.y) for point in first.points] == [
        (10, 20),
        (40, 20),
        (40, 61),
        (10, 61),
    ]
    assert (first.type, first.timestamp.sec) == (2, 5)
    assert first.outline_color.g > first.outline_color.r
    assert second.outline_color.r > second.outline_color.g
    assert [text.text for text in made.texts] == ["mug", "u1"]
    assert (made.texts[0].position.x, made.texts[0].position.y) == (10, 20)
