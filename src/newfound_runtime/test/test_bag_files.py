# SPDX-License-Identifier: Apache-2.0
import struct

import pytest
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image
from std_msgs.msg import String

from newfound_runtime.bag_files import Bag, bag_paths, is_bag, message_class, stamp_of
from newfound_runtime.bag_testing import START, header, write_db3, write_mcap


def test_the_stamp_is_read_without_deserialising():
    assert stamp_of(serialize_message(Image(header=header(START + 7)))) == START + 7
    big_endian = b"\x00\x00\x00\x00" + struct.pack(">iI", 12, 34)
    assert stamp_of(big_endian) == 12_000_000_034


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\x01\x00\x00", b"\x00\x01\x00\x00" + struct.pack("<iI", -5, 0),
     b"\x00\x01\x00\x00" + struct.pack("<iI", 5, 2**31)],
)  # fmt: skip
def test_what_is_no_stamp_counts_as_none(content):
    assert stamp_of(content) == 0


def test_a_bag_is_told_by_its_files(tmp_path):
    assert not is_bag(tmp_path)
    assert is_bag(tmp_path / "a.mcap")
    assert is_bag(tmp_path / "a.db3.zstd")
    assert not is_bag(tmp_path / "a.mp4")
    for name in ("b_10.mcap", "b_2.mcap", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in bag_paths(tmp_path)] == ["b_2.mcap", "b_10.mcap"]
    assert is_bag(tmp_path)


def test_types_are_found_by_their_full_names():
    assert message_class("sensor_msgs/msg/Image") is Image


@pytest.mark.parametrize("storage", ["mcap", "db3"])
def test_messages_of_wanted_types_are_indexed_and_all_are_counted(tmp_path, storage):
    messages = [("/text", String(data=f"{n}"), START + n) for n in range(3)]
    messages.append(("/image", Image(header=header(START)), START))
    if storage == "mcap":
        path = write_mcap(tmp_path / "a.mcap", messages)
    else:
        path = write_db3(tmp_path / "bag", messages)
    bag = Bag(path, ["sensor_msgs/msg/Image"])
    found = {t.name: (t.type, t.messages, len(t.entries)) for t in bag.topics.values()}
    assert found == {"/text": ("std_msgs/msg/String", 3, 0),
                     "/image": ("sensor_msgs/msg/Image", 1, 1)}  # fmt: skip
    bag.close()
