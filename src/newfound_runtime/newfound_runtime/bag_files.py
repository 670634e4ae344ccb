# SPDX-License-Identifier: Apache-2.0
"""Messages of a rosbag2 recording, deserialised by rclpy.

Any type that is installed can be read, and type definitions in the bag are not needed; the files
are read by `newfound_core.bag_files`.
"""

from __future__ import annotations

import importlib
from typing import Any

from rclpy.serialization import deserialize_message

from newfound_core import bag_files
from newfound_core.bag_files import Entry, Topic, bag_paths, is_bag, stamp_of
from newfound_core.errors import FrameError

__all__ = ["Bag", "Entry", "Topic", "bag_paths", "is_bag", "message_class", "stamp_of"]


class Bag(bag_files.Bag):
    """All messages of some types in a bag, by topic."""

    def message(self, topic: Topic, entry: Entry) -> Any:
        """Read and deserialise a message; a FrameError if it is damaged."""
        try:
            return deserialize_message(self.read(entry), message_class(topic.type))
        except Exception as error:  # whatever damaged bytes lead to
            reason = " ".join(f"{type(error).__name__} {error}".split())
            where = f"{self.path}: a message of {topic.name}"
            raise FrameError(f"{where} is damaged: {reason}") from error


def message_class(name: str) -> type:
    """The installed class of a type such as sensor_msgs/msg/Image."""
    package, _, rest = name.partition("/")
    return getattr(importlib.import_module(f"{package}.msg"), rest.rpartition("/")[2])
