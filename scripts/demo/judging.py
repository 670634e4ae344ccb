# SPDX-License-Identifier: Apache-2.0
"""What was said of an object, held against the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from newfound_msgs import msg
from scripts.demo.stamps import SAME, Stamp, overlap, stamp
from scripts.demo.witness import Heard

Verdict = Literal["right", "unknown", "wrong", "missed"]
FULLY_SEEN = 0.5  # share of an object that must be visible for it to count


@dataclass(frozen=True)
class Sighting:
    """One object in one frame that the detector looked at."""

    at: float  # s since the demo began
    clip_time: float
    frame: int
    label: str  # what it is
    said: str  # what it was called; empty when it was called unknown or missed
    verdict: Verdict


def sightings(
    detections: Sequence[Heard], truths: Mapping[Stamp, msg.GroundTruth]
) -> list[Sighting]:
    """Every object that was to be seen in a frame with detections."""
    return [
        _judge(heard, truths[stamp(heard.message)], thing)
        for heard in detections
        if stamp(heard.message) in truths
        for thing in truths[stamp(heard.message)].objects
        if thing.visible >= FULLY_SEEN
    ]


def true_label(region: Any, truth: msg.GroundTruth) -> str:
    """What lies in a region; empty if nothing does."""
    best = max(truth.objects, key=lambda thing: overlap(thing.region, region), default=None)
    return best.label if best is not None and overlap(best.region, region) >= SAME else ""


def share(found: Sequence[Sighting], verdict: Verdict) -> float:
    """How many of them were judged so; 0 of none."""
    return sum(s.verdict == verdict for s in found) / len(found) if found else 0.0


def _judge(heard: Heard, truth: msg.GroundTruth, thing: msg.GroundTruthObject) -> Sighting:
    found = [d for d in heard.message.detections if overlap(d.region, thing.region) >= SAME]
    best = max(found, key=lambda d: overlap(d.region, thing.region), default=None)
    verdict: Verdict = "missed"
    if best is not None:
        known = best.kind == msg.OpenWorldDetection.KIND_KNOWN
        verdict = ("right" if best.label == thing.label else "wrong") if known else "unknown"
    said = best.label if best is not None else ""
    return Sighting(heard.at, truth.scenario_time, truth.frame, thing.label, said, verdict)
