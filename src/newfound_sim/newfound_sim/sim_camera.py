# SPDX-License-Identifier: Apache-2.0
"""Simulated camera: plays rendered scenarios, clips and real recordings as a driver would.

What is simulated is the camera, not always what it shows.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.msg import State
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.time import Time
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_msgs.msg import Header
from std_srvs.srv import SetBool, Trigger

from newfound_core.errors import NewfoundError
from newfound_msgs.msg import GroundTruth
from newfound_runtime.managed_node import LoadError, ManagedNode, Output, Status
from newfound_runtime.parameters import Parameter
from newfound_runtime.recordings import (
    FrameError,
    MonotonicStamps,
    Recording,
    RecordingOptions,
    camera_info,
)
from newfound_sim import camera_messages as messages
from newfound_sim.clip_cache import cached_clip, default_cache_folder
from newfound_sim.player import Pixels, PlayedFrame, Player, RateTimer
from newfound_sim.sources import ClipSource, find_source, open_source, truth_of

SCENARIOS = (".yaml", ".yml")
STOP_TIMEOUT = 10.0  # s for the running frame to end when the node stops
WARNING_INTERVAL = 5.0  # s between two warnings about damaged frames


class SimCamera(ManagedNode):
    """Publishes images, depth, camera_info and ground truth of a source at a fixed rate.

    Topics are named as those of camera drivers and lie in the node's namespace. A frame's
    messages share one stamp. An output without subscribers is neither decoded nor published.
    """

    NAME = "sim_camera"
    PARAMETERS = (
        Parameter(
            "source",
            "workbench_demo",
            "Clip folder, scenario file (.yaml), or recording: rosbag2 folder, .mcap, .db3, RGB-D "
            "folder, image folder, video; a bare name is a clip that comes with newfound_sim.",
        ),
        Parameter(
            "rate",
            0.0,
            "Frame rate (Hz); 0: as recorded, the median of a recording with stamps (image "
            "folders: 10 Hz).",
            minimum=0.0,
            maximum=240.0,
            live=True,
        ),
        Parameter("loop", True, "Start over at the end instead of stopping.", live=True),
        Parameter(
            "start_paused", False, "Wait for ~/pause (data: false) or ~/restart before playing."
        ),
        Parameter(
            "stamps",
            "now",
            "now: the node's clock; original: those of the recording, moved on in each loop so "
            "that they never go back.",
            choices=("now", "original"),
        ),
        Parameter(
            "bag_image_topic", "", "Colour topic of a bag; empty: the only one that it has."
        ),
        Parameter(
            "bag_depth_topic",
            "",
            "Depth topic of a bag; empty: the only one that it has, or none.",
        ),
        Parameter(
            "depth_tolerance",
            0.02,
            "Maximum difference of the stamps of colour and depth in a recording (s).",
            minimum=0.0,
            maximum=10.0,
        ),
        Parameter("frame_id", "camera_optical_frame", "frame_id of all headers.", live=True),
        Parameter("map_frame", "map", "frame_id of camera_pose.", live=True),
        Parameter("publish_compressed", True, "Publish image_raw/compressed."),
        Parameter("publish_depth", True, "Publish depth, if the source has it."),
        Parameter(
            "reliability",
            "reliable",
            "QoS of images and camera_info; a reliable camera serves every subscriber.",
            choices=("reliable", "best_effort"),
        ),
        Parameter(
            "fov_degrees",
            60.0,
            "Horizontal field of view (degrees) of a pinhole camera, for sources that do not "
            "know theirs.",
            minimum=1.0,
            maximum=170.0,
        ),
        Parameter(
            "memory_mb",
            256,
            "Memory for decoded images (MB); others are decoded each time.",
            minimum=0,
        ),
        Parameter(
            "cache_dir", "", "Folder of rendered scenarios; empty: the user's cache folder."
        ),
        Parameter(
            "render_workers",
            2,
            "Number of processes that render a scenario.",
            minimum=1,
            maximum=256,
        ),
    )

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self._player: Player | None = None
        self._stamps: MonotonicStamps | None = None
        self._timer: RateTimer | None = None
        self._paused = False
        self._published = self._damaged = self._damaged_before = 0
        super().__init__(name, **node_arguments)
        self.create_service(Trigger, "~/restart", self._restart)
        self.create_service(SetBool, "~/pause", self._pause)

    def outputs(self) -> Mapping[str, Output]:
        """The topics of a camera driver, without those that parameters switch off."""
        reliable = self.param("reliability") == "reliable"
        profile = QoSProfile(
            depth=5,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        )
        found: dict[str, Output] = {
            "image_raw": (Image, "image_raw", profile),
            "camera_info": (CameraInfo, "camera_info", profile),
            "ground_truth": (GroundTruth, "ground_truth", 10),
            "mask": (Image, "ground_truth/mask", 10),
            "camera_pose": (PoseStamped, "camera_pose", 10),
        }
        if self.param("publish_compressed"):
            # As image_transport does it: remapping the image moves its sibling along.
            topic = f"{self.resolve_topic_name('image_raw')}/compressed"
            found["compressed"] = (CompressedImage, topic, profile)
        if self.param("publish_depth"):
            found["depth"] = (Image, "depth", profile)
        return found

    # Lifecycle ---------------------------------------------------------------------------

    def load(self) -> None:
        """Open the source, rendering it first if it is a scenario, and decode its first frame."""
        try:
            source = self._open(self.param("source"))
            player = Player(source, self.param("memory_mb") * 1_000_000)
            player.picture(0)
        except NewfoundError as error:
            raise LoadError(str(error)) from error
        original = self.param("stamps") == "original"
        if original and not source.stamped:
            raise LoadError(f"{self.param('source')} has no stamps of its own: set stamps to now")
        for warning in source.warnings:
            self.get_logger().warning(warning)
        self._stamps = MonotonicStamps(1 / source.rate) if original else None
        self._player, self._paused = player, self.param("start_paused")
        self._published = self._damaged = self._damaged_before = 0

    def activated(self) -> None:
        """Start, or continue where deactivation stopped."""
        if self._timer is not None and not self._timer.join(STOP_TIMEOUT):
            raise RuntimeError("the last frame before the deactivation is still being published")
        self._timer = RateTimer(self._publish_next, self._rate(), name=f"{self.get_name()}-frames")
        self._timer.start()

    def deactivated(self) -> None:
        """Stop after the running frame."""
        if self._timer is not None:
            self._timer.stop()

    def stop_threads(self) -> bool:
        """Wait for the running frame."""
        return self._timer is None or self._timer.join(STOP_TIMEOUT)

    def unload(self) -> None:
        """Release the source and its decoded images."""
        if self._player is not None:
            self._player.source.close()
        self._player = self._timer = self._stamps = None

    def parameters_changed(self, names: set[str]) -> None:
        """Apply a new rate from the next frame on."""
        if self._timer is not None:
            self._timer.rate = self._rate()

    def health(self) -> Status:
        """Report the playback position and damaged frames."""
        player, timer = self._player, self._timer
        assert player is not None, "an active node has a source"
        assert timer is not None, "an active node has a timer"
        damaged, self._damaged_before = self._damaged - self._damaged_before, self._damaged
        level, text = DiagnosticStatus.OK, "playing"
        if damaged:
            level, text = DiagnosticStatus.WARN, f"{damaged} damaged frames skipped"
        elif player.ended:
            text = "the source has ended; ~/restart plays it again"
        elif self._paused:
            text = "paused"
        return level, text, {
            "source": self.param("source"),
            "frame": player.position,
            "frames": len(player.source),
            "loop": player.loops,
            "rate_hz": self._rate(),
            "published": self._published,
            "damaged": self._damaged,
            "late": timer.late,
        }  # fmt: skip

    # Services ----------------------------------------------------------------------------

    def _restart(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = self._player is not None
        response.message = "plays from the beginning" if response.success else "not configured"
        if self._player is not None:
            self._player.rewind()
            self._paused = False
        return response

    def _pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._paused = request.data
        response.success, response.message = True, "paused" if request.data else "playing"
        return response

    # Frames ------------------------------------------------------------------------------

    def _publish_next(self) -> None:
        """Publish one frame, in the timer's thread."""
        player = self._player
        if player is None or self._paused or self.state() != State.PRIMARY_STATE_ACTIVE:
            return
        frame = player.advance(self.param("loop"))
        if frame is None:
            return
        try:
            self._publish_frame(player, frame)
            if self._subscribed("image_raw"):
                player.prepare(depth=self._subscribed("depth"))
        except FrameError as error:
            self._damaged += 1
            self.get_logger().warning(
                f"frame {frame.number} skipped: {error}", throttle_duration_sec=WARNING_INTERVAL
            )
        except Exception:
            if self.context.ok():  # else the process is shutting down and cannot publish
                self.log_traceback(f"frame {frame.number} could not be published")

    def _publish_frame(self, player: Player, frame: PlayedFrame) -> None:
        """Publish every output that has subscribers, all with one stamp."""
        number = frame.number
        header = Header(
            stamp=self._stamp(player.source, number).to_msg(), frame_id=self.param("frame_id")
        )
        # Everything that can fail comes first: all of a frame is published, or nothing.
        outgoing: list[tuple[str, Any]] = []
        # Before the image, whose processing needs it.
        if self._subscribed("camera_pose") and (pose := self._camera_pose(header, player, number)):
            outgoing.append(("camera_pose", pose))
        if self._subscribed("image_raw"):
            outgoing.append(("image_raw", messages.image(header, player.picture(number))))
        if self._subscribed("compressed"):
            outgoing.append(("compressed", messages.compressed(header, player.jpeg(number))))
        if self._subscribed("depth") and (depth := player.depth(number)) is not None:
            outgoing.append(("depth", messages.image(header, depth)))
        if self._subscribed("camera_info"):
            outgoing.append(("camera_info", self._camera_info(header, player, number)))
        if self._subscribed("ground_truth"):
            outgoing.append(("ground_truth", self._ground_truth(header, player.source, frame)))
        if self._subscribed("mask") and (mask := self._mask(player, number)) is not None:
            outgoing.append(("mask", messages.image(header, mask)))
        for output, message in outgoing:
            self.publish(output, message)
        self._published += bool(outgoing)

    def _mask(self, player: Player, number: int) -> Pixels | None:
        """The class of every pixel, of clips of rooms."""
        source = player.source
        if not isinstance(source, ClipSource) or (name := source.mask_name(number)) is None:
            return None
        return player.mask(name, lambda: source.mask(number))

    def _camera_pose(self, header: Header, player: Player, number: int) -> PoseStamped | None:
        """Where the camera is, of rendered workbenches."""
        source = player.source
        pose = source.pose(number) if isinstance(source, ClipSource) else None
        if pose is None:
            return None
        return messages.pose(Header(stamp=header.stamp, frame_id=self.param("map_frame")), pose)

    def _stamp(self, source: Recording, number: int) -> Time:
        if self._stamps is None:
            return self.get_clock().now()
        return Time(nanoseconds=self._stamps.next(source.stamp(number)))

    def _camera_info(self, header: Header, player: Player, number: int) -> CameraInfo:
        known = player.source.camera_info(number)
        if known is not None:
            known.header = header
            return known
        picture = player.picture(number)
        width, height = picture.width, picture.height
        k = messages.pinhole(width, height, self.param("fov_degrees"))
        return camera_info(header, width, height, k)

    def _ground_truth(self, header: Header, source: Recording, frame: PlayedFrame) -> GroundTruth:
        message = messages.ground_truth(header, truth_of(source, frame.number))
        message.scenario_time = source.time(frame.number)
        message.frame, message.loop, message.last = frame.number, frame.loop, frame.last
        return message

    def _subscribed(self, output: str) -> bool:
        return output in self._outputs and self.wanted(output)

    def _rate(self) -> float:
        assert self._player is not None, "the rate is read while there is a source"
        return self.param("rate") or self._player.source.rate

    def _open(self, name: str) -> Recording:
        path = find_source(name)
        if path.suffix.lower() in SCENARIOS:
            path = self._rendered(path)
        options = RecordingOptions(
            self.param("bag_image_topic"),
            self.param("bag_depth_topic"),
            self.param("depth_tolerance"),
        )
        return open_source(path, options)

    def _rendered(self, scenario: Path) -> Path:
        """The clip of a scenario, from the cache or made now."""
        cache = Path(self.param("cache_dir")).expanduser() if self.param("cache_dir") else None
        return cached_clip(
            scenario,
            cache or default_cache_folder(),
            self.param("render_workers"),
            self.get_logger().info,
            self.context.ok,
        )
