# SPDX-License-Identifier: Apache-2.0
"""Write messages to an MCAP file that `ros2 bag` and Foxglove read, with type definitions.

Schemas have the encoding `ros2msg` (https://mcap.dev/spec/registry): the text of the type, then of
each type that it uses, after a line of equals signs and `MSG: package/Type`.
"""

import re
from pathlib import Path
from typing import BinaryIO

from ament_index_python.packages import get_package_share_directory
from mcap.writer import CompressionType, Writer
from rclpy.serialization import serialize_message

_SEPARATOR = "=" * 80
_PRIMITIVE = re.compile(r"^(bool|byte|char|w?string|u?int\d+|float\d+)\b")
_FIELD = re.compile(r"^([\w/]+)(<=\d+)?(\[.*?\])?\s+\w+")


class BagWriter:
    """An MCAP file; messages come serialised or as they are."""

    def __init__(
        self, file: BinaryIO, *, chunk_size: int = 1 << 20, compress: bool = True
    ) -> None:
        compression = CompressionType.ZSTD if compress else CompressionType.NONE
        self._writer = Writer(file, chunk_size=chunk_size, compression=compression)
        self._writer.start(profile="ros2", library="newfound")
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self.counts: dict[str, int] = {}

    def write(self, topic: str, kind: str, message: object, stamp: int) -> None:
        """Append a message of a type such as sensor_msgs/msg/Image at a time (ns)."""
        if topic not in self._channels:
            self._channels[topic] = self._writer.register_channel(
                topic=topic,
                message_encoding="cdr",
                schema_id=self._schema(kind),
                metadata={"offered_qos_profiles": ""},
            )
        data = message if isinstance(message, bytes) else serialize_message(message)
        self._writer.add_message(self._channels[topic], stamp, data, stamp)
        self.counts[topic] = self.counts.get(topic, 0) + 1

    def close(self) -> None:
        """Write the index; the file is complete."""
        self._writer.finish()

    def _schema(self, kind: str) -> int:
        if kind not in self._schemas:
            text = definition(kind).encode()
            self._schemas[kind] = self._writer.register_schema(kind, "ros2msg", text)
        return self._schemas[kind]


def definition(kind: str) -> str:
    """The text of an installed message type with those of all types that it uses."""
    texts: dict[str, str] = {}
    waiting = [_short(kind)]
    while waiting:
        name = waiting.pop()
        if name not in texts:
            texts[name] = _text(name)
            waiting += _used(name, texts[name])
    main, *others = texts.items()
    parts = [main[1], *(f"{_SEPARATOR}\nMSG: {name}\n{text}" for name, text in others)]
    return "\n".join(parts)


def type_name(message_class: type) -> str:
    """The name of a message class, as sensor_msgs/msg/Image."""
    return f"{message_class.__module__.partition('.')[0]}/msg/{message_class.__name__}"


def _text(name: str) -> str:
    package, _, kind = name.partition("/")
    return (Path(get_package_share_directory(package)) / "msg" / f"{kind}.msg").read_text()


def _used(name: str, text: str) -> list[str]:
    """The message types of the fields."""
    package = name.partition("/")[0]
    fields = [_FIELD.match(line.strip()) for line in text.splitlines()]
    kinds = [found.group(1) for found in fields if found]
    return [
        _short(kind) if "/" in kind else f"{package}/{kind}"
        for kind in kinds
        if not _PRIMITIVE.match(kind)
    ]


def _short(kind: str) -> str:
    package, _, rest = kind.partition("/")
    return f"{package}/{rest.rpartition('/')[2]}"
