# SPDX-License-Identifier: Apache-2.0
"""A camera that is none: plays rendered scenarios, clips, images and videos, with their truth."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import State
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_msgs.msg import Header
from std_srvs.srv import SetBool, Trigger

from newfound_msgs.msg import GroundTruth
from newfound_runtime.container import run
from newfound_runtime.managed_node import LoadError, ManagedNode, Output, Status
from newfound_runtime.parameters import Parameter
from newfound_sim import camera_messages as messages
from newfound_sim.errors import SimulationError
from newfound_sim.film_ahead import default_cache, film_ahead
from newfound_sim.metronome import Metronome
from newfound_sim.player import Player, Shot
from newfound_sim.shipped import find_source
from newfound_sim.sources import FrameError, Source, open_source

SCENARIOS = (".yaml", ".yml")
PATIENCE = 10.0  # s that a frame under way may take when the node stops
REPORT_EVERY = 5.0  # s between two reports of damaged frames


class SimCamera(ManagedNode):
    """Publishes images, depth, camera_info and ground truth of a source at an even rate.

    Topics are named as those of camera drivers and lie in the node's namespace. A frame's
    messages share one stamp. Nothing is decoded or sent that nobody listens to.
    """

    NAME = "sim_camera"
    PARAMETERS = (
        Parameter(
            "source",
            "workbench_demo",
            "Clip folder, scenario file (.yaml), image folder or video; "
            "a bare name is a clip that comes with newfound_sim.",
        ),
        Parameter(
            "rate",
            0.0,
            "Frames per second; 0: as recorded (image folders: 10).",
            minimum=0.0,
            maximum=240.0,
            live=True,
        ),
        Parameter("loop", True, "Begin anew at the end instead of stopping.", live=True),
        Parameter("start_paused", False, "Wait for ~/pause or ~/restart to begin."),
        Parameter("frame_id", "camera_optical_frame", "Of all headers.", live=True),
        Parameter("publish_compressed", True, "Offer image_raw/compressed."),
        Parameter("publish_depth", True, "Offer depth, if the source has it."),
        Parameter(
            "reliability",
            "reliable",
            "Of images and camera_info; a reliable camera serves every subscriber.",
            choices=("reliable", "best_effort"),
        ),
        Parameter(
            "fov_degrees",
            60.0,
            "Horizontal field of view told for images and videos; clips know theirs.",
            minimum=1.0,
            maximum=170.0,
        ),
        Parameter(
            "memory_mb", 256, "For decoded pictures; what does not fit is decoded anew.", minimum=0
        ),
        Parameter("cache_dir", "", "Where filmed scenarios are kept; empty: the user's cache."),
        Parameter("render_workers", 2, "Processes that film a scenario.", minimum=1, maximum=256),
    )

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self._player: Player | None = None
        self._metronome: Metronome | None = None
        self._paused = False
        self._published = self._damaged = self._damaged_before = 0
        super().__init__(name, **node_arguments)
        self.create_service(Trigger, "~/restart", self._restart)
        self.create_service(SetBool, "~/pause", self._pause)

    def outputs(self) -> Mapping[str, Output]:
        """The topics of a camera driver, as far as they are asked for."""
        reliable = self.param("reliability") == "reliable"
        profile = QoSProfile(
            depth=5,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        )
        found: dict[str, Output] = {
            "image_raw": (Image, "image_raw", profile),
            "camera_info": (CameraInfo, "camera_info", profile),
            "ground_truth": (GroundTruth, "ground_truth", 10),
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
        """Open the source, film it first if it is a scenario, and look at its first frame."""
        try:
            source = self._open(self.param("source"))
            player = Player(source, self.param("memory_mb") * 1_000_000)
            player.picture(0)
        except SimulationError as error:
            raise LoadError(str(error)) from error
        self._player, self._paused = player, self.param("start_paused")
        self._published = self._damaged = self._damaged_before = 0

    def activated(self) -> None:
        """Begin, or go on where deactivation stopped."""
        if self._metronome is not None and not self._metronome.stopped(PATIENCE):
            raise RuntimeError("the last frame before the deactivation is still under way")
        self._metronome = Metronome(self._beat, self._rate(), name=f"{self.get_name()}-frames")
        self._metronome.start()

    def deactivated(self) -> None:
        """Stop after the frame under way."""
        if self._metronome is not None:
            self._metronome.stop()

    def stop_threads(self) -> bool:
        """Wait for the frame under way."""
        return self._metronome is None or self._metronome.stopped(PATIENCE)

    def unload(self) -> None:
        """Forget the source and its pictures."""
        self._player = self._metronome = None

    def parameters_changed(self, names: set[str]) -> None:
        """A new rate counts from the next frame on."""
        if self._metronome is not None:
            self._metronome.rate = self._rate()

    def health(self) -> Status:
        """Where the film is, and whether its frames are whole."""
        player, metronome = self._player, self._metronome
        assert player is not None, "an active node has a source"
        assert metronome is not None, "an active node has a beat"
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
            "late": metronome.late,
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

    def _beat(self) -> None:
        """Metronome thread: one frame out."""
        player = self._player
        if player is None or self._paused or self.state() != State.PRIMARY_STATE_ACTIVE:
            return
        shot = player.advance(self.param("loop"))
        if shot is None:
            return
        try:
            self._show(player, shot)
            if self._listened_to("image_raw"):
                player.prepare(depth=self._listened_to("depth"))
        except FrameError as error:
            self._damaged += 1
            self.get_logger().warning(
                f"frame {shot.number} skipped: {error}", throttle_duration_sec=REPORT_EVERY
            )
        except Exception:
            if self.context.ok():  # else the process is going down: publishing is over
                self.log_traceback(f"frame {shot.number} could not be published")

    def _show(self, player: Player, shot: Shot) -> None:
        """Publish what is listened to, all with one stamp."""
        number = shot.number
        header = Header(stamp=self.get_clock().now().to_msg(), frame_id=self.param("frame_id"))
        # Everything that can fail comes first: a frame is published whole or not at all.
        outgoing: list[tuple[str, Any]] = []
        if self._listened_to("image_raw"):
            outgoing.append(("image_raw", messages.image(header, player.picture(number), "rgb8")))
        if self._listened_to("compressed"):
            outgoing.append(("compressed", messages.compressed(header, player.jpeg(number))))
        if self._listened_to("depth") and (depth := player.depth(number)) is not None:
            outgoing.append(("depth", messages.image(header, depth, "16UC1")))
        if self._listened_to("camera_info"):
            outgoing.append(("camera_info", self._camera_info(header, player, number)))
        if self._listened_to("ground_truth"):
            outgoing.append(("ground_truth", self._ground_truth(header, player.source, shot)))
        for output, message in outgoing:
            self.publish(output, message)
        self._published += bool(outgoing)

    def _camera_info(self, header: Header, player: Player, number: int) -> CameraInfo:
        picture = player.picture(number)
        width, height = picture.width, picture.height
        k = player.source.intrinsics
        k = k or messages.pinhole(width, height, self.param("fov_degrees"))
        return messages.camera_info(header, width, height, k)

    def _ground_truth(self, header: Header, source: Source, shot: Shot) -> GroundTruth:
        message = messages.ground_truth(header, source.truth(shot.number))
        message.scenario_time = source.time(shot.number)
        message.frame, message.loop, message.last = shot.number, shot.loop, shot.last
        return message

    def _listened_to(self, output: str) -> bool:
        return output in self._outputs and self.wanted(output)

    def _rate(self) -> float:
        assert self._player is not None, "a rate is asked for while there is a source"
        return self.param("rate") or self._player.source.rate

    def _open(self, name: str) -> Source:
        path = find_source(name)
        if path.suffix.lower() not in SCENARIOS:
            return open_source(path)
        cache = Path(self.param("cache_dir")).expanduser() if self.param("cache_dir") else None
        report = self.get_logger().info
        clip = film_ahead(
            path, cache or default_cache(), self.param("render_workers"), report, self.context.ok
        )
        return open_source(clip)


def main() -> int:
    """Run the node."""
    return run(SimCamera)


if __name__ == "__main__":
    sys.exit(main())
