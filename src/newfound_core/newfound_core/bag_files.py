# SPDX-License-Identifier: Apache-2.0
"""Messages of a rosbag2 recording: MCAP and SQLite files, whole or cut off.

MCAP is read by the library of the format (https://mcap.dev/docs/python), SQLite by Python's own.
Messages come as they are stored; `newfound_runtime.bag_files` deserialises them by rclpy, and
`newfound_core.bag_images` reads images without ROS. An index of the wanted types is made when a
bag is opened, by reading it once: this also works for recordings that a crash or a power failure
has cut off, whose own index is missing.
"""

from __future__ import annotations

import sqlite3
import struct
import tempfile
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml
import zstandard
from mcap.exceptions import McapError
from mcap.records import Channel, Chunk, Message, Schema
from mcap.stream_reader import StreamReader, breakup_chunk

from newfound_core.errors import RecordingError

METADATA = "metadata.yaml"
SUFFIXES = (".mcap", ".db3")
PACKED = ".zstd"  # of files that rosbag2 has compressed as a whole
_STAMP = 12  # bytes of a serialised message that hold the stamp of its header
# What damaged files lead to, in the library and in its decompressors.
_DAMAGE = (McapError, EOFError, ValueError, struct.error, zstandard.ZstdError, RuntimeError,
           MemoryError, OverflowError, UnicodeDecodeError)  # fmt: skip
_SQL_DAMAGE = (sqlite3.Error, UnicodeDecodeError)  # the latter from an error's own text


# Topic, type, time, first bytes (none for types that are not wanted) and place of a message.
Scanned = tuple[str, str, int, bytes, tuple[int, int]]


@dataclass(frozen=True)
class Entry:
    """One message: its times, and where it is."""

    stamp: int  # ns, of its header; when it was received if the header has none
    logged: int  # ns, when it was received
    file: int  # number of the file in the bag
    where: tuple[int, int]  # in the file


@dataclass
class Topic:
    """One topic of a bag."""

    name: str
    type: str  # as sensor_msgs/msg/Image
    messages: int = 0
    entries: list[Entry] = field(default_factory=list)  # empty for types that are not wanted


class BagFile(Protocol):
    """One file of a bag."""

    damage: str  # what is missing; empty if the file is whole

    def scan(self, types: Collection[str], packed: bool) -> Iterator[Scanned]:
        """Every message, in any order; `packed` ones are given as a whole."""
        ...

    def read(self, where: tuple[int, int]) -> bytes:
        """The message at a place."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class McapFile:
    """An MCAP file, read record by record: a missing index does not matter."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, path.open("rb")
        self.damage = ""
        self._chunk: tuple[int, list[Message]] = (-1, [])  # the last one that was read

    def scan(self, types: Collection[str], packed: bool) -> Iterator[Scanned]:
        """Every message; stops at the first record that is cut off."""
        schemas: dict[int, str] = {}
        channels: dict[int, Channel] = {}
        for start, position, record in self._records():
            if isinstance(record, Schema):
                schemas[record.id] = record.name
            elif isinstance(record, Channel):
                channels[record.id] = record
            elif isinstance(record, Message) and record.channel_id in channels:
                channel = channels[record.channel_id]
                kind = schemas.get(channel.schema_id, "")
                readable = kind in types and channel.message_encoding == "cdr"
                head = record.data if readable else b""
                yield channel.topic, kind, record.log_time, head, (start, position)

    def read(self, where: tuple[int, int]) -> bytes:
        """The message at a position of the chunk that starts at an offset."""
        start, position = where
        if self._chunk[0] != start:
            self._file.seek(start)
            record = next(StreamReader(self._file, skip_magic=True, emit_chunks=True).records)
            records = breakup_chunk(record) if isinstance(record, Chunk) else [record]
            self._chunk = start, [r for r in records if isinstance(r, Message)]
        return self._chunk[1][position].data

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _records(self) -> Iterator[tuple[int, int, Any]]:
        """Where each record starts, the number of a message in its chunk, and the record."""
        self._file.seek(0)
        records = StreamReader(self._file, emit_chunks=True).records
        start, lost = 8, 0  # after the magic bytes
        try:
            for record in records:
                if isinstance(record, Chunk):
                    try:
                        inside = breakup_chunk(record, validate_crc=True)
                    except _DAMAGE:
                        lost, inside = lost + 1, []
                    position = 0
                    for part in inside:
                        yield start, position, part
                        position += isinstance(part, Message)
                else:
                    yield start, 0, record
                start = self._file.tell()
        except _DAMAGE as error:
            size = self._path.stat().st_size
            self.damage = f"{self._path.name} is cut off or damaged at byte {start} of {size}"
            if start <= 8:
                reason = f"{type(error).__name__} {error}".strip()
                raise RecordingError(f"{self._path} is not an MCAP file ({reason})") from error
        if lost:
            self.damage = f"{lost} damaged chunks of {self._path.name} are left out"


class SqliteFile:
    """A `.db3` file of rosbag2."""

    def __init__(self, path: Path) -> None:
        self._path, self.damage = path, ""
        self._database = self._open("mode=ro")
        try:
            self._database.execute("SELECT * FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # A journal is left, and this medium cannot be written: read what is in the file.
            self._database = self._open("mode=ro&immutable=1")
        except _SQL_DAMAGE:
            pass  # `scan` says what is wrong

    def _open(self, options: str) -> sqlite3.Connection:
        # Threads: opened by the one that configures a node, read by the one that plays.
        address = f"{self._path.resolve().as_uri()}?{options}"
        database = sqlite3.connect(address, uri=True, check_same_thread=False)
        database.text_factory = lambda text: text.decode(errors="replace")
        return database

    def scan(self, types: Collection[str], packed: bool) -> Iterator[Scanned]:
        """Every message in the order of writing; stops where the database is damaged."""
        try:
            rows = self._database.execute("SELECT id, name, type FROM topics").fetchall()
        except _SQL_DAMAGE as error:
            raise RecordingError(
                f"{self._path} is not a bag of rosbag2: {error}. `ros2 bag reindex` may help"
            ) from error
        topics = {number: (name, kind) for number, name, kind in rows}
        wanted = [number for number, (_, kind) in topics.items() if kind in types]
        marks = ", ".join("?" * len(wanted))
        head = "data" if packed else f"substr(data, 1, {_STAMP})"
        query = (  # by id: sorted by time, a damaged page would hide those before it
            f"SELECT id, topic_id, timestamp, CASE WHEN topic_id IN ({marks}) THEN {head} ELSE "
            "x'' END FROM messages ORDER BY id"
        )
        try:
            for number, topic, logged, data in self._database.execute(query, wanted):
                # SQLite gives what is there: a damaged row may have other types.
                whole = isinstance(logged, int) and isinstance(data, bytes)
                if topic in topics and whole:
                    yield *topics[topic], logged, data, (number, 0)
        except _SQL_DAMAGE as error:
            self.damage = f"{self._path.name} is damaged: {error}"

    def read(self, where: tuple[int, int]) -> bytes:
        """The message of an id."""
        found = self._database.execute("SELECT data FROM messages WHERE id = ?", where[:1])
        return found.fetchone()[0]

    def close(self) -> None:
        """Close the database."""
        self._database.close()


class Bag:
    """All messages of some types in a bag, by topic."""

    def __init__(self, path: Path, types: Collection[str]) -> None:
        self.path = path
        self.topics: dict[str, Topic] = {}
        self.warnings: list[str] = []
        self._files: list[BagFile] = []
        self._unpacked: tempfile.TemporaryDirectory | None = None
        self._packed = False  # each message is compressed
        paths = self._paths()
        try:
            for file in paths:
                self._index(file, types)
            for topic in self.topics.values():
                topic.entries.sort(key=lambda entry: entry.logged)
        except BaseException:
            self.close()
            raise

    def read(self, entry: Entry) -> bytes:
        """A message as it is stored."""
        data = self._files[entry.file].read(entry.where)
        return _unpack(data) if self._packed else data

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()
        if self._unpacked is not None:
            self._unpacked.cleanup()

    def _index(self, path: Path, types: Collection[str]) -> None:
        if path.suffix == PACKED:
            path = self._unpacked_file(path)
        try:
            file: BagFile = McapFile(path) if path.suffix == ".mcap" else SqliteFile(path)
        except (OSError, *_SQL_DAMAGE) as error:
            raise RecordingError(f"{path} cannot be read: {error}") from error
        self._files.append(file)
        for name, kind, logged, data, where in file.scan(types, self._packed):
            topic = self.topics.setdefault(name, Topic(name, kind))
            topic.messages += 1
            if data:
                stamp = stamp_of(_unpack(data) if self._packed else data) or logged
                topic.entries.append(Entry(stamp, logged, len(self._files) - 1, where))
        if file.damage:
            self.warnings.append(f"{file.damage}; what is readable is played")

    def _paths(self) -> list[Path]:
        """The files of the bag in their order, by its metadata where there are any."""
        if not self.path.is_dir():
            return [self.path]
        found = bag_paths(self.path)
        if not (self.path / METADATA).is_file():
            self.warnings.append(f"{METADATA} is missing: the recording was not ended in order")
            return found
        try:
            content = yaml.safe_load((self.path / METADATA).read_text())
            facts = content["rosbag2_bagfile_information"]
            listed = [self.path / Path(name).name for name in facts["relative_file_paths"]]
            self._packed = str(facts.get("compression_mode") or "").lower() == "message"
        except (OSError, yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError) as error:
            self.warnings.append(f"{METADATA} is damaged ({error!r}): all files are played")
            return found
        missing = [file.name for file in listed if not file.is_file()]
        if missing:
            self.warnings.append(f"files of the bag are missing: {', '.join(missing)}")
        present = [file for file in listed if file.is_file()] or found
        if not present:
            raise RecordingError(f"{self.path} has none of the files that {METADATA} lists")
        return present

    def _unpacked_file(self, path: Path) -> Path:
        """Decompress a file for as long as the bag is open."""
        self._unpacked = self._unpacked or tempfile.TemporaryDirectory(prefix="newfound-bag-")
        target = Path(self._unpacked.name) / path.stem
        try:
            with path.open("rb") as source, target.open("wb") as plain:
                zstandard.ZstdDecompressor().copy_stream(source, plain)
        except (OSError, zstandard.ZstdError) as error:
            raise RecordingError(f"{path} cannot be decompressed: {error}") from error
        return target


def bag_paths(folder: Path) -> list[Path]:
    """The files of a folder that may be a bag's, in the order of their numbers."""
    names = [suffix + packed for suffix in SUFFIXES for packed in ("", PACKED)]
    found = [p for p in folder.iterdir() if p.name.endswith(tuple(names))]
    return sorted(found, key=lambda p: (len(p.name), p.name))


def is_bag(path: Path) -> bool:
    """Whether a path looks like a rosbag2 recording."""
    if path.is_dir():
        return (path / METADATA).is_file() or bool(bag_paths(path))
    if path.suffix == ".bag":
        raise RecordingError(f"{path} is a bag of ROS 1: convert it, as with `rosbags-convert`")
    return path.suffix in SUFFIXES or path.name.endswith(tuple(s + PACKED for s in SUFFIXES))


def stamp_of(message: bytes) -> int:
    """The stamp (ns) of a serialised message that begins with a header; 0 if it has none."""
    if len(message) < _STAMP:
        return 0
    little = message[1] & 1  # CDR's encapsulation
    seconds, rest = struct.unpack_from("<iI" if little else ">iI", message, 4)
    return seconds * 10**9 + rest if seconds >= 0 and rest < 10**9 else 0


def _unpack(data: bytes) -> bytes:
    with (
        suppress(zstandard.ZstdError),
        closing(zstandard.ZstdDecompressor().stream_reader(data)) as stream,
    ):
        return stream.read()
    return data  # rosbag2 leaves some messages as they are
