# SPDX-License-Identifier: Apache-2.0
"""Small real bags for tests: messages serialised by rclpy, files as rosbag2 lays them out."""

import sqlite3
import struct
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml
import zstandard
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_msgs.msg import Header, String

from newfound_runtime.bag_writer import BagWriter, type_name
from newfound_runtime.images import depth_message, rgb_message

Message = tuple[str, Any, int]  # topic, message, time (ns)
START = 1_700_000_000_000_000_000
PERIOD = 100_000_000


def header(stamp: int, frame_id: str = "optical") -> Header:
    """A header with a stamp in nanoseconds."""
    found = Header(frame_id=frame_id)
    found.stamp.sec, found.stamp.nanosec = divmod(stamp, 10**9)
    return found


def compressed(stamp: int, rgb: np.ndarray, kind: str = "rgb8; jpeg compressed bgr8") -> Any:
    """A JPEG, as compressed_image_transport publishes it."""
    content = cv2.imencode(".jpg", rgb[..., ::-1])[1].tobytes()
    return CompressedImage(header=header(stamp), format=kind, data=content)


def compressed_depth(stamp: int, depth: np.ndarray) -> CompressedImage:
    """As compressed_depth_image_transport writes it."""
    if depth.dtype == np.uint16:
        kind, a, b, values = "16UC1; compressedDepth png", 0.0, 0.0, depth
    else:
        a, b = 1000.0, 10.0  # value = a / depth + b
        kind = "32FC1; compressedDepth png"
        values = np.where(depth > 0, a / np.maximum(depth, 1e-6) + b, 0).astype(np.uint16)
    content = struct.pack("<iff", 0, a, b) + cv2.imencode(".png", values)[1].tobytes()
    return CompressedImage(header=header(stamp), format=kind, data=content)


def camera_messages(frames: int = 5, size: tuple[int, int] = (32, 24)) -> list[Message]:
    """Colour of brightness 20 n, depth 1000 + n (mm) 5 ms later, camera_info, and some text."""
    width, height = size
    found: list[Message] = []
    for n in range(frames):
        stamp = START + n * PERIOD
        rgb = np.full((height, width, 3), 20 * n, np.uint8)
        depth = np.full((height, width), 1000 + n, np.uint16)
        info = CameraInfo(header=header(stamp), width=width, height=height)
        info.k[0], info.distortion_model, info.d = 40.0 + n, "plumb_bob", [0.1] * 5
        received = stamp + 2_000_000
        found += [
            ("/front/camera_info", info, received),
            ("/front/image_raw", rgb_message(header(stamp), rgb), received),
            (
                "/front/depth",
                depth_message(header(stamp + 5_000_000), depth),
                received + 5_000_000,
            ),
            ("/chatter", String(data=f"frame {n}"), received),
        ]
    return found


def write_mcap(path: Path, messages: list[Message], compress: bool = True) -> Path:
    """A bare MCAP file, in chunks of 4 kB so that there are several."""
    with path.open("wb") as file:
        writer = BagWriter(file, chunk_size=4096, compress=compress)
        for topic, message, at in messages:
            writer.write(topic, type_name(type(message)), message, at)
        writer.close()
    return path


def write_db3(folder: Path, messages: list[Message], mode: str = "") -> Path:
    """A bag folder with SQLite storage; `mode`: compression of rosbag2, message or file."""
    folder.mkdir()
    name = f"{folder.name}_0.db3"
    database = sqlite3.connect(folder / name)
    database.executescript(
        "CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, "
        "serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL);"
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, "
        "timestamp INTEGER NOT NULL, data BLOB NOT NULL);"
    )
    numbers: dict[str, int] = {}
    for topic, message, at in messages:
        if topic not in numbers:
            numbers[topic] = len(numbers) + 1
            row = (numbers[topic], topic, type_name(type(message)), "cdr", "")
            database.execute("INSERT INTO topics VALUES (?, ?, ?, ?, ?)", row)
        data = serialize_message(message)
        data = zstandard.compress(data) if mode == "message" else data
        database.execute(
            "INSERT INTO messages (topic_id, timestamp, data) VALUES (?, ?, ?)",
            (numbers[topic], at, data),
        )
    database.commit()
    database.close()
    if mode == "file":
        packed = folder / f"{name}.zstd"
        packed.write_bytes(zstandard.compress((folder / name).read_bytes()))
        (folder / name).unlink()
        name = packed.name
    facts = {"version": 5, "storage_identifier": "sqlite3", "relative_file_paths": [name],
             "compression_format": "zstd" if mode else "",
             "compression_mode": mode.upper()}  # fmt: skip
    (folder / "metadata.yaml").write_text(yaml.safe_dump({"rosbag2_bagfile_information": facts}))
    return folder


def image(stamp: int, encoding: str, values: np.ndarray) -> Image:
    """A raw image of any encoding."""
    found = depth_message(header(stamp), values)
    found.encoding = encoding
    return found
