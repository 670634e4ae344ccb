# SPDX-License-Identifier: Apache-2.0
"""Run the nodes over a recording offline, and write what they found.

    python -m newfound_runtime.bags RECORDING --out FOLDER [--params robot.yaml]

RECORDING is a rosbag2 folder, an .mcap or .db3 file, an RGB-D folder, a folder of images or a
video. Every frame is processed, in lock step and so as fast as the machine allows, in this process
and in a ROS domain of its own. FOLDER gets:

    report.json             frames, speed, unknown objects, drift of the light over time
    unknowns/               the best view of each unknown object
    detections.coco.json    all detections; unknown objects are the category `unknown`
    output.mcap             all that the nodes published, at the times of the recording
    timeline.png            the same as a figure, where matplotlib is installed
    images/                 the frames as JPEG, with --images

Ctrl-C ends the replay and writes what there is. The nodes start with their checkpoints and leave
the knowledge and adapted state of a robot alone.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import rclpy
from rclpy.signals import SignalHandlerOptions
from rclpy.time import Time
from sensor_msgs.msg import CameraInfo, CompressedImage
from std_msgs.msg import Header

from newfound_core.allocation import keep_freed_memory
from newfound_core.errors import ConfigError, NewfoundError
from newfound_core.storage import atomic_directory
from newfound_runtime.bag_writer import BagWriter, type_name
from newfound_runtime.recordings import (
    FrameError,
    MonotonicStamps,
    Recording,
    RecordingOptions,
    open_recording,
)
from newfound_runtime.replay import Replay, listed_nodes, perception_nodes
from newfound_runtime.replay_report import PlayedImage, ReplayReport

STATUS_PERIOD = 1.0  # s of the recording between two status messages
PROGRESS_PERIOD = 2.0  # s between two lines of progress
DOMAINS = 101  # that are safe with the default ports
FRAME_ID = "camera_optical_frame"  # where the recording has none
IMAGES = "/recording/image_raw/compressed"
CAMERA_INFO = "/recording/camera_info"


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay a recording; 0 if all of it was, 130 after Ctrl-C, 1 with a sentence otherwise."""
    options = _parser().parse_args(arguments)
    stop = _Stop()
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        complete = replay(options, stop)
    except (NewfoundError, OSError) as error:
        print(f"newfound_runtime.bags: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before the first frame: there is nothing to write
        return 130
    return 0 if complete else 130


class _Stop:
    """Ends the replay after the frame at work; asked a second time, at once."""

    asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def replay(options: argparse.Namespace, stop: _Stop) -> bool:
    """Replay as the options say; whether the whole recording was."""
    if options.out.exists() and not options.force and any(options.out.iterdir()):
        raise ConfigError(f"{options.out} exists: name another folder, or replace it by --force")
    topics = RecordingOptions(options.image_topic, options.depth_topic, options.depth_tolerance)
    recording = open_recording(options.recording, topics)
    for warning in recording.warnings:
        say(f"warning: {warning}")
    if not recording.has_depth:
        say("the recording has no depth: a detector needs a proposer that does without")
    entries = perception_nodes(options.nodes or listed_nodes(options.params))
    replaced = options.force and options.out.exists()
    with (
        tempfile.TemporaryDirectory(prefix="newfound-replay-") as home,
        atomic_directory(options.out, replace=replaced) as folder,
    ):
        _init(home, options.params)
        try:
            running = Replay(
                entries, has_depth=recording.has_depth, debug_images=options.debug_images
            )
            try:
                say(f"{len(recording)} frames; starting {', '.join(entries)}")
                running.start()
                if stop.asked:
                    raise KeyboardInterrupt
                return _run(recording, running, folder, options, stop)
            finally:
                running.close()
        finally:
            rclpy.try_shutdown()
            recording.close()


def _run(
    recording: Recording,
    running: Replay,
    folder: Path,
    options: argparse.Namespace,
    stop: _Stop,
) -> bool:
    report, began = ReplayReport(), time.monotonic()
    with (folder / "output.mcap").open("wb") as file:
        writer = BagWriter(file)
        player = _Player(recording, running, report, writer, folder if options.images else None)
        complete = player.play(options.limit, stop)
        writer.close()
    facts = {
        "recording": str(options.recording),
        "nodes": list(running.nodes),
        "complete": complete,
        "frames_of_recording": len(recording),
        "warnings": list(recording.warnings),
        **report.summary(time.monotonic() - began, recording.rate),
        "frames_failed": {name: node.frames_failed for name, node in running.nodes.items()},
        "messages": writer.counts,
        "messages_lost": dict(running.lost),
    }
    report.write(folder, facts)
    say(
        f"{facts['frames']} frames in {facts['replay_seconds']} s ({facts['speed']} times real "
        f"time), {facts['detections']} detections, {len(facts['unknowns'])} unknown objects"
    )
    return complete


class _Player:
    """Feeds frames and keeps what comes back."""

    def __init__(
        self,
        recording: Recording,
        running: Replay,
        report: ReplayReport,
        writer: BagWriter,
        folder: Path | None,
    ) -> None:
        self._recording, self._running = recording, running
        self._report, self._writer, self._folder = report, writer, folder
        self._stamps = MonotonicStamps(1 / recording.rate)
        self._next_status = 0

    def play(self, limit: int, stop: _Stop) -> bool:
        """Feed all frames, or the first `limit`; False if asked to stop."""
        count = min(limit, len(self._recording)) if limit else len(self._recording)
        began = told = time.monotonic()
        number = 0
        while number < min(count, len(self._recording)):  # a video may be shorter than it claims
            if stop.asked:
                say("interrupted; writing what there is")
                return False
            self._feed(number, last=number + 1 == count)
            number += 1
            if time.monotonic() - told > PROGRESS_PERIOD:
                told = time.monotonic()
                say(f"frame {number} of {count}, {number / (told - began):.1f} per second")
        return True

    def _feed(self, number: int, *, last: bool) -> None:
        recording, report = self._recording, self._report
        try:
            rgb = recording.rgb(number)
            depth = None if recording.depth_name(number) is None else recording.depth(number)
            info, frame_id = recording.camera_info(number), recording.frame_id(number)
            jpeg = recording.jpeg(number) if self._folder is not None else None
        except FrameError as error:
            report.failed.append(str(error))
            say(f"frame {number} left out: {error}")
            return
        stamp = self._stamps.next(recording.stamp(number))
        header = Header(stamp=Time(nanoseconds=stamp).to_msg(), frame_id=frame_id or FRAME_ID)
        status = last or stamp >= self._next_status
        if status:
            self._next_status = stamp + round(STATUS_PERIOD * 1e9)
        received = self._running.step(header, rgb, depth, status)
        name = f"{number:06d}.jpg"
        image = PlayedImage(len(report.images) + 1, name, stamp, rgb.shape[1], rgb.shape[0])
        report.add(image, received, status)
        if info is not None:
            info.header = header
            self._writer.write(CAMERA_INFO, type_name(CameraInfo), info, stamp)
        if jpeg is not None:
            self._store(jpeg, header, stamp, name)
        for entry in received:
            self._writer.write(entry.topic, entry.type, entry.data, stamp)

    def _store(self, jpeg: bytes, header: Header, stamp: int, name: str) -> None:
        """Keep the image, as a file and in the MCAP."""
        assert self._folder is not None, "images are wanted"
        (self._folder / "images").mkdir(exist_ok=True)
        (self._folder / "images" / name).write_bytes(jpeg)
        message = CompressedImage(header=header, format="jpeg", data=jpeg)
        self._writer.write(IMAGES, type_name(CompressedImage), message, stamp)


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def _init(home: str, parameters: Path | None) -> None:
    """ROS on this machine only, in a domain that other replays do not have."""
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ["ROS_HOME"] = home
    keep_freed_memory()
    arguments = ["--ros-args", "--params-file", str(parameters)] if parameters else []
    rclpy.init(
        args=arguments,
        domain_id=1 + os.getpid() % DOMAINS,
        signal_handler_options=SignalHandlerOptions.NO,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m newfound_runtime.bags",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("recording", type=Path, help="bag, folder or video")
    add("--out", type=Path, required=True, help="folder to write; must not exist yet")
    add("--params", type=Path, help="parameter file of the nodes; its container lists them")
    add("--nodes", nargs="+", help="nodes to run, as in the list of the container")
    add("--image-topic", default="", help="colour topic of a bag that has several")
    add("--depth-topic", default="", help="depth topic of a bag that has several")
    add("--depth-tolerance", type=float, default=0.02, help="s between colour and depth")
    add("--limit", type=int, default=0, help="stop after so many frames")
    add("--images", action="store_true", help="keep the frames, in images/ and in the MCAP")
    add("--debug-images", action="store_true", help="have annotated images in the MCAP, too")
    add("--force", action="store_true", help="replace an existing folder")
    return parser


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is closed; threads of the middleware sometimes abort an interpreter that ends.
    os._exit(code)
