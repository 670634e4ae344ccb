# SPDX-License-Identifier: Apache-2.0
import io

import pytest
from mcap.reader import make_reader
from std_msgs.msg import String

from newfound_msgs.msg import OpenWorldDetections
from newfound_runtime.bag_writer import BagWriter, definition, type_name

GEOMETRY = ("Point", "Pose", "Quaternion", "Transform", "Vector3")


def test_a_definition_brings_every_type_that_it_uses():
    text = definition("newfound_msgs/msg/OpenWorldDetections")
    main, *others = text.split("=" * 80 + "\nMSG: ")
    assert "OpenWorldDetection[] detections" in main
    assert {part.partition("\n")[0] for part in others} == {
        "newfound_msgs/OpenWorldDetection",
        "std_msgs/Header",
        "sensor_msgs/RegionOfInterest",
        "builtin_interfaces/Time",
        *(f"geometry_msgs/{name}" for name in GEOMETRY),
    }


def test_what_is_written_can_be_read_by_the_formats_own_reader():
    file = io.BytesIO()
    writer = BagWriter(file)
    writer.write("/a", "std_msgs/msg/String", String(data="x"), 5)
    writer.write("/b", type_name(OpenWorldDetections), OpenWorldDetections(), 6)
    writer.write("/a", "std_msgs/msg/String", String(data="y"), 7)
    writer.close()
    reader = make_reader(io.BytesIO(file.getvalue()))
    assert reader.get_header().profile == "ros2"
    found = [(s.name, s.encoding, c.topic, m.log_time) for s, c, m in reader.iter_messages()]
    assert found == [
        ("std_msgs/msg/String", "ros2msg", "/a", 5),
        ("newfound_msgs/msg/OpenWorldDetections", "ros2msg", "/b", 6),
        ("std_msgs/msg/String", "ros2msg", "/a", 7),
    ]
    assert writer.counts == {"/a": 2, "/b": 1}


def test_a_type_that_is_not_installed_is_an_error():
    with pytest.raises(LookupError):
        definition("no_such_msgs/msg/Thing")
