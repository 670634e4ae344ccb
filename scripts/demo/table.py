# SPDX-License-Identifier: Apache-2.0
"""A real recording: what the detector finds on tables that nobody simulated."""

import time
from dataclasses import dataclass, field
from typing import Any

from newfound_msgs import msg
from scripts.demo.stamps import SAME, Stamp, overlap, stamp

DETECTOR = "/table_detector"


@dataclass(frozen=True)
class RealFrame:
    """A real image, the labelled objects in it, and what was said of them."""

    jpeg: bytes
    truth: msg.GroundTruth
    detections: msg.OpenWorldDetections

    def matches(self) -> list[msg.OpenWorldDetection | None]:
        """For each labelled object the detection that covers it, if there is one."""
        return [_best(thing.region, self.detections.detections) for thing in self.truth.objects]


@dataclass
class RealTable:
    """What was shown, and what was heard; the last answer to a frame counts."""

    jpegs: dict[Stamp, bytes] = field(default_factory=dict)
    truths: dict[Stamp, msg.GroundTruth] = field(default_factory=dict)
    detections: dict[Stamp, msg.OpenWorldDetections] = field(default_factory=dict)
    frames_played: int = 0
    ended_at: float | None = None  # s, time.monotonic()

    def see(self, message: Any) -> None:
        """Keep an image."""
        self.jpegs[stamp(message)] = bytes(message.data)

    def learn_truth(self, message: msg.GroundTruth) -> None:
        """Keep what is true."""
        self.truths[stamp(message)] = message
        self.ended_at = time.monotonic() if message.last else None
        self.frames_played = max(self.frames_played, message.frame + 1)

    def hear(self, message: msg.OpenWorldDetections) -> None:
        """Keep what the detector said."""
        self.detections[stamp(message)] = message

    def frames(self) -> list[RealFrame]:
        """Each frame of the recording that was answered, once, in order."""
        known = self.jpegs.keys() & self.truths.keys() & self.detections.keys()
        numbered = {self.truths[s].frame: s for s in sorted(known)}
        return [
            RealFrame(self.jpegs[s], self.truths[s], self.detections[s])
            for _, s in sorted(numbered.items())
        ]

    def answered(self) -> bool:
        """Whether the recording was played to its end, and every frame answered."""
        return self.ended_at is not None and len(self.frames()) >= self.frames_played

    def silent_for(self) -> float:
        """Seconds since the last frame; 0 while it plays."""
        return 0.0 if self.ended_at is None else time.monotonic() - self.ended_at

    def summary(self) -> dict[str, int]:
        """Counts over all frames."""
        frames = self.frames()
        found = [match for frame in frames for match in frame.matches()]
        covering = [match for match in found if match is not None]
        unknown = msg.OpenWorldDetection.KIND_UNKNOWN
        return {
            "frames": len(frames),
            "objects_labelled": len(found),
            "objects_found": len(covering),
            "called_unknown": sum(match.kind == unknown for match in covering),
            "regions": sum(len(frame.detections.detections) for frame in frames),
        }


def _best(region: Any, detections: Any) -> msg.OpenWorldDetection | None:
    best = max(detections, key=lambda d: overlap(d.region, region), default=None)
    return best if best is not None and overlap(best.region, region) >= SAME else None
