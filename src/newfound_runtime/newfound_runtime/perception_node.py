# SPDX-License-Identifier: Apache-2.0
"""Base class of nodes that process camera images: back-pressure and a worker thread."""

import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from sensor_msgs.msg import CompressedImage, Image

from newfound_runtime.image_input import ImageInput, StampedMessage
from newfound_runtime.images import Frame, ImageError, jpeg_message, rgb_message
from newfound_runtime.managed_node import ManagedNode, Output, Status
from newfound_runtime.parameters import Parameter
from newfound_runtime.stream import StreamHealth

WARN_EVERY = 5.0  # s between two warnings of the same kind, at first
WARN_AT_LEAST_EVERY = 600.0  # s; a warning that persists backs off to this
WORKER_TIMEOUT = 60.0  # s that a clean-up waits for the frame in work
MAX_AGE = 3600.0  # s; an older or younger stamp is of another clock
# The image with what a node made of it; compressed as by image_transport, for slow networks.
DEBUG_IMAGE, DEBUG_COMPRESSED = "debug_image", "debug_image/compressed"
DEBUG_OUTPUTS: Mapping[str, Output] = {
    DEBUG_IMAGE: (Image, f"~/{DEBUG_IMAGE}", 2),
    DEBUG_COMPRESSED: (CompressedImage, f"~/{DEBUG_COMPRESSED}", 2),
}


class PerceptionNode(ManagedNode):
    """A lifecycle node that runs a model on the newest image of a camera.

    A subclass writes `load` and `process`. When `process` raises, or the image is broken,
    the frame counts as failed, the reason is logged at a throttled rate, and the node goes
    on with the next one.
    """

    COMMON_PARAMETERS: ClassVar[Sequence[Parameter]] = (
        *ManagedNode.COMMON_PARAMETERS,
        Parameter("image_topic", "image", "Topic of the camera image; can also be remapped."),
        Parameter(
            "image_transport",
            "raw",
            "raw: sensor_msgs/Image; compressed: CompressedImage on the sibling topic.",
            choices=("raw", "compressed"),
        ),
        Parameter(
            "image_reliability",
            "auto",
            "Reliability requested from the camera; auto: what its publisher offers.",
            choices=("auto", "reliable", "best_effort"),
        ),
        Parameter(
            "max_rate",
            0.0,
            "Maximum rate of images processed (Hz); 0: all. Others are dropped undecoded.",
            minimum=0.0,
            maximum=1000.0,
            live=True,
        ),
    )

    # Hooks of a subclass, besides those of ManagedNode -------------------------------------

    def process(self, frame: Frame) -> None:
        """Worker thread: one frame in, messages out by `publish`. May be slow, may raise."""
        raise NotImplementedError

    def needs_every_frame(self) -> bool:
        """Whether frames are needed even without a subscriber (adaptation)."""
        return False

    def frames_wanted(self) -> bool:
        """Whether an output that is made of frames has a subscriber; by default, any."""
        return any(self.wanted(output) for output in self._outputs)

    def debug_wanted(self) -> bool:
        """Whether anyone looks at the debug image."""
        return any(self.wanted(output) for output in DEBUG_OUTPUTS)

    def publish_picture(self, header: Any, rgb: np.ndarray) -> None:
        """Publish the debug image in the forms that someone looks at."""
        if self.wanted(DEBUG_IMAGE):
            self.publish(DEBUG_IMAGE, rgb_message(header, rgb))
        if self.wanted(DEBUG_COMPRESSED):
            self.publish(DEBUG_COMPRESSED, jpeg_message(header, rgb))

    def settled(self) -> bool:
        """Whether no work of earlier frames is under way; a replay waits for it."""
        return True

    status_timer: Any = None  # what calls `publish_status` otherwise

    def publish_status(self) -> None:
        """Publish what is otherwise published by time; a replay has a time of its own."""

    # From here on, what the base does ------------------------------------------------------

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self._input: ImageInput | None = None
        self._worker: threading.Thread | None = None
        self._health = StreamHealth()
        self.between_frames = threading.Lock()  # to change what `process` uses
        self._warned: dict[str, tuple[float, float]] = {}  # when last, and the wait after it
        super().__init__(name, **node_arguments)

    def activated(self) -> None:
        """Let frames in; the first activation starts the worker."""
        if self._worker is None:
            self._input = ImageInput(
                self,
                self.param("image_topic"),
                self.param("image_transport"),
                self.param("image_reliability"),
                lambda: self.param("max_rate"),
            )
            # Lives until clean-up, not until deactivation: that must not wait for a frame.
            self._worker = threading.Thread(
                target=self._work, args=(self._input,), name=f"{self.get_name()}-worker"
            )
            self._worker.daemon = True
            self._worker.start()
        assert self._input is not None, "made with the worker"
        self._input.open()
        self.subscribers_changed()

    def deactivated(self) -> None:
        """Let no further frames in."""
        if self._input is not None:
            self._input.close()

    @property
    def frames_done(self) -> int:
        """How many frames were processed, dropped or failed since the first activation."""
        if self._input is None:
            return 0
        counters = self._input.counters
        return counters.processed + counters.dropped + counters.failed

    @property
    def frames_failed(self) -> int:
        """How many of them could not be decoded or processed."""
        return 0 if self._input is None else self._input.counters.failed

    def stop_threads(self) -> bool:
        """End the worker, which may have to finish its frame first."""
        if self._worker is None:
            return True
        assert self._input is not None, "made with the worker"
        self._input.close()
        self._input.mailbox.close()
        self._worker.join(WORKER_TIMEOUT)
        if self._worker.is_alive():
            self.get_logger().error(f"still at work on a frame after {WORKER_TIMEOUT:.0f} s")
            return False
        self._worker = self._input = None
        return True

    def subscribers_changed(self) -> None:
        """Ask for frames if, and as, they are needed now."""
        source = self._input
        if source is not None:  # None while the node is going down
            source.refresh(self.frames_wanted() or self.needs_every_frame())

    def health(self) -> Status:
        """The state of the stream of frames."""
        source = self._input
        if source is None:
            return DiagnosticStatus.OK, "going down", {}
        level, text, numbers = self._health.assess(source.counters, source.subscribed)
        values = {"topic": source.topic, "reliability": source.reliability(), **numbers}
        return with_problems((level, text, values), source.problems())

    def _work(self, source: ImageInput) -> None:
        while (stamped := source.mailbox.take()) is not None:
            try:
                frame = stamped.decode()
                with self.between_frames:
                    self.process(frame)
            except ImageError as error:
                source.counters.fail()
                if self.due("decode"):
                    self.get_logger().warning(f"frame skipped: {error}")
            except Exception:
                if not self.context.ok():
                    return  # the process is going down: publishing is over
                source.counters.fail()
                if self.due("process"):
                    self.log_traceback("process failed; frame skipped")
            else:
                latency = time.monotonic() - stamped.received
                source.counters.finish(latency, self._age(stamped))

    def _age(self, stamped: StampedMessage) -> float | None:
        stamp = stamped.message.header.stamp
        age = self.get_clock().now().nanoseconds * 1e-9 - (stamp.sec + stamp.nanosec * 1e-9)
        return age if abs(age) < MAX_AGE else None

    def due(self, kind: str) -> bool:
        """Whether to warn of this kind of problem again; one that persists backs off."""
        now = time.monotonic()
        last, wait = self._warned.get(kind, (-math.inf, WARN_EVERY))
        if now - last < wait:
            return False
        persists = now - last < 2 * wait
        wait = min(2 * wait, WARN_AT_LEAST_EVERY) if persists else WARN_EVERY
        self._warned[kind] = (now, wait)
        return True


def with_problems(status: Status, problems: Sequence[str]) -> Status:
    """A diagnostic status with further problems: at least a warning if there are any."""
    level, text, values = status
    if not problems:
        return status
    said = [] if level == DiagnosticStatus.OK else [text]
    return max(level, DiagnosticStatus.WARN), "; ".join([*said, *problems]), values
