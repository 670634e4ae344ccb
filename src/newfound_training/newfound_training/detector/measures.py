# SPDX-License-Identifier: Apache-2.0
"""How good detections are in an open world: found, named, called unknown, or taken for another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from newfound_core.detection.boxes import iou

MIN_IOU = 0.5
OUTCOMES = ("right", "unknown", "wrong", "missed")


@dataclass(frozen=True)
class Scene:
    """The objects of a picture, and the detections in it."""

    truth_boxes: np.ndarray  # [T, 4]
    truth_labels: tuple[str, ...]
    boxes: np.ndarray  # [D, 4]
    labels: tuple[str, ...]  # empty text: unknown
    scores: tuple[float, ...]

    def matches(self) -> np.ndarray:
        """The detection of each object [T], -1 where none covers it; best overlap first."""
        found = np.full(len(self.truth_labels), -1)
        for detection, truth in enumerate(match_boxes(self.boxes, self.truth_boxes)):
            if truth >= 0:
                found[truth] = detection
        return found


def match_boxes(
    boxes: np.ndarray, truth: np.ndarray, scores: Sequence[float] | None = None
) -> np.ndarray:
    """Match boxes [D, 4] to objects [T, 4] greedily, one to one, at an IoU of at least 0.5.

    Returns the object of each box [D], -1 where it has none. With `scores` the most certain box
    chooses first, as average precision wants it; without, the pair with the best overlap.
    """
    overlap = iou(boxes.astype(np.float64), truth.astype(np.float64))
    found = np.full(len(boxes), -1)
    by_score = None if scores is None else iter(np.argsort(-np.asarray(scores), kind="stable"))
    while overlap.size and overlap.max() >= MIN_IOU:
        if by_score is None:
            box, best = np.unravel_index(overlap.argmax(), overlap.shape)
        else:
            box = next(by_score)
            best = overlap[box].argmax()
        if overlap[box, best] >= MIN_IOU:
            found[box] = best
            overlap[:, best] = -1
        overlap[box] = -1
    return found


def covered(truth: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Whether each object [T] is covered by any of the boxes, which may cover several."""
    return iou(truth, boxes).max(1, initial=0) >= MIN_IOU


def measure(scenes: Sequence[Scene], known: Sequence[str]) -> dict[str, Any]:
    """All numbers of a set of pictures; `known` are the classes that the model was taught."""
    classes = class_outcomes(scenes)
    of_known = _total(classes, [c for c in classes if c in known])
    of_unknown = _total(classes, [c for c in classes if c not in known])
    precision = {c: average_precision(scenes, c) for c in known if c in classes}
    return {
        "objects": {"known": sum(of_known.values()), "unknown": sum(of_unknown.values())},
        "recall": _found(of_known, of_unknown),
        "known_recall": _found(of_known),
        "unknown_class_recall": _found(of_unknown),
        "known_map": float(np.mean(list(precision.values()))) if precision else None,
        "known_named_right": _of_all(of_known, "right"),
        "known_called_unknown": _of_all(of_known, "unknown"),
        "unknown_recall": _of_all(of_unknown, "unknown"),
        "unknown_called_known": _of_all(of_unknown, "wrong"),
        "wilderness_impact": wilderness_impact(scenes, known),
        "average_precision": precision,
        "classes": classes,
    }


def class_outcomes(scenes: Sequence[Scene]) -> dict[str, dict[str, int]]:
    """Count, for each true class, objects named right, unknown, something else, or missed."""
    counts: dict[str, dict[str, int]] = {}
    for scene in scenes:
        for label, match in zip(scene.truth_labels, scene.matches(), strict=True):
            of_class = counts.setdefault(label, dict.fromkeys(OUTCOMES, 0))
            of_class[_outcome(label, None if match < 0 else scene.labels[match])] += 1
    return dict(sorted(counts.items()))


def _outcome(truth: str, said: str | None) -> str:
    if said is None:
        return "missed"
    if not said:
        return "unknown"
    return "right" if said == truth else "wrong"


def average_precision(scenes: Sequence[Scene], label: str) -> float:
    """Area below precision over recall of one class at IoU 0.5, over all points.

    torchmetrics would need pycocotools, a C extension, and interpolates at 101 points of recall.
    """
    hits: list[tuple[float, bool]] = []
    objects = 0
    for scene in scenes:
        true = np.array([name == label for name in scene.truth_labels], bool)
        said = np.array([name == label for name in scene.labels], bool)
        objects += int(true.sum())
        scores = [s for s, mine in zip(scene.scores, said, strict=True) if mine]
        matched = match_boxes(scene.boxes[said], scene.truth_boxes[true], scores)
        hits += [(score, object_ >= 0) for score, object_ in zip(scores, matched, strict=True)]
    if not objects:
        return 0.0
    right = np.cumsum([hit for _, hit in sorted(hits, key=lambda h: -h[0])])
    precision = right / np.arange(1, len(right) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]  # at this recall or a higher one
    return float((best * np.diff(right, prepend=0)).sum() / objects)


def wilderness_impact(scenes: Sequence[Scene], known: Sequence[str]) -> float | None:
    """Share by which unknown objects lower the precision of known classes.

    Precision among known objects over precision in the open world, minus one: detections of a
    known class that lie on unknown objects, over all others.
    """
    on_unknown = elsewhere = 0
    for scene in scenes:
        strange = [m for t, m in zip(scene.truth_labels, scene.matches(), strict=True)
                   if t not in known and m >= 0]  # fmt: skip
        named = {i for i, label in enumerate(scene.labels) if label}
        on_unknown += len(named & set(strange))
        elsewhere += len(named - set(strange))
    return on_unknown / elsewhere if elsewhere else None


def _total(classes: dict[str, dict[str, int]], labels: Sequence[str]) -> dict[str, int]:
    return {outcome: sum(classes[label][outcome] for label in labels) for outcome in OUTCOMES}


def _of_all(counts: dict[str, int], outcome: str) -> float | None:
    total = sum(counts.values())
    return counts[outcome] / total if total else None


def _found(*groups: dict[str, int]) -> float | None:
    total = sum(sum(group.values()) for group in groups)
    missed = sum(group["missed"] for group in groups)
    return (total - missed) / total if total else None
