# SPDX-License-Identifier: Apache-2.0
"""How good detections are in an open world: found, named, called unknown, or taken for another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from newfound_core.detection.boxes import iou

MIN_IOU = 0.5
OUTCOMES = ("right", "unknown", "wrong", "missed")
PROPOSAL_METRICS = ("ar_10", "recall_10", "ar_20", "recall_20", "correlation")


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
    boxes: np.ndarray,
    truth: np.ndarray,
    scores: Sequence[float] | np.ndarray | None = None,
    min_iou: float = MIN_IOU,
) -> np.ndarray:
    """Match boxes [D, 4] to objects [T, 4] greedily, one to one, at an IoU of `min_iou`.

    Returns the object of each box [D], -1 where it has none. With `scores` the most certain box
    chooses first, as average precision wants it; without, the pair with the best overlap.
    """
    overlap = iou(boxes.astype(np.float64), truth.astype(np.float64))
    found = np.full(len(boxes), -1)
    by_score = None if scores is None else iter(np.argsort(-np.asarray(scores), kind="stable"))
    while overlap.size and overlap.max() >= min_iou:
        if by_score is None:
            box, best = np.unravel_index(overlap.argmax(), overlap.shape)
        else:
            box = next(by_score)
            best = overlap[box].argmax()
        if overlap[box, best] >= min_iou:
            found[box] = best
            overlap[:, best] = -1
        overlap[box] = -1
    return found


@dataclass(frozen=True)
class Proposed:
    """The objects of a picture, and the proposals for it, best first."""

    truth: np.ndarray  # [T, 4]
    boxes: np.ndarray  # [P, 4]
    objectness: np.ndarray  # [P]


def measure_proposals(pictures: Sequence[Proposed]) -> dict[str, float]:
    """How many objects the best proposals cover, and whether objectness predicts overlap.

    `ar_N` is COCO's average recall, over IoU 0.5, 0.55, … 0.95; `recall_N` that at 0.5.
    `correlation` is Spearman's, of objectness and IoU over the best 20 proposals of each picture.
    """
    found: dict[str, float] = {}
    for count in (10, 20):
        recalls = [recall_at(pictures, count, least) for least in np.linspace(0.5, 0.95, 10)]
        found |= {f"ar_{count}": float(np.mean(recalls)), f"recall_{count}": recalls[0]}
    return found | {"correlation": objectness_correlation(pictures)}


def recall_at(pictures: Sequence[Proposed], count: int, min_iou: float = MIN_IOU) -> float:
    """Share of the objects matched by one of the best `count` proposals, one to one."""
    objects = sum(len(picture.truth) for picture in pictures)
    matched = sum(
        (match_boxes(p.boxes[:count], p.truth, p.objectness[:count], min_iou) >= 0).sum()
        for p in pictures
    )
    return float(matched / max(objects, 1))


def objectness_and_overlap(pictures: Sequence[Proposed], count: int = 20) -> np.ndarray:
    """Objectness and best IoU [N, 2] of the best `count` proposals of each picture."""
    rows = [
        np.stack([p.objectness[:count], iou(p.boxes[:count], p.truth).max(1, initial=0)], 1)
        for p in pictures
    ]
    return np.concatenate(rows) if rows else np.zeros((0, 2))


def objectness_correlation(pictures: Sequence[Proposed]) -> float:
    """Spearman's rank correlation of objectness and IoU; 0 where there is none."""
    pairs = objectness_and_overlap(pictures)
    ranks = pairs.argsort(0, kind="stable").argsort(0, kind="stable")
    spread = ranks.std(0).prod() if len(pairs) > 1 else 0.0
    return float(np.cov(ranks.T, bias=True)[0, 1] / spread) if spread else 0.0


def fit_calibration(pairs: np.ndarray, steps: int = 20) -> tuple[float, float]:
    """Slope and offset of the logit of objectness that predict IoU best; pairs are [N, 2].

    Platt scaling: logistic regression with IoU as target, by Newton's method, held towards
    slope 1 and offset 0 as by one further pair.
    """
    sure = np.clip(pairs[:, 0].astype(np.float64), 1e-6, 1 - 1e-6)
    inputs = np.stack([np.log(sure / (1 - sure)), np.ones(len(sure))], 1)
    plain = np.array([1.0, 0.0])
    found = plain.copy()
    for _ in range(steps):
        guess = 1 / (1 + np.exp(-inputs @ found))
        gradient = inputs.T @ (guess - pairs[:, 1]) + found - plain
        curvature = (inputs * (guess * (1 - guess))[:, None]).T @ inputs + np.eye(2)
        found -= np.linalg.solve(curvature, gradient)
    return max(float(found[0]), 0.1), float(found[1])


def best_threshold(groups: Sequence[Sequence[Proposed]], count: int = 10) -> float:
    """The objectness above which proposals have the best F2 at IoU 0.5, as mean over groups.

    F2 weighs recall more than precision: a wrong region can still be rejected later, a missed
    object is lost.
    """
    thresholds = np.arange(5, 96) / 100
    scores = [[f_score(group, least, count) for least in thresholds] for group in groups if group]
    return float(thresholds[np.mean(scores, 0).argmax()]) if scores else 0.0


def f_score(pictures: Sequence[Proposed], threshold: float, count: int, beta: float = 2) -> float:
    """F-score at IoU 0.5 of the best `count` proposals whose objectness is high enough."""
    right = kept = objects = 0
    for p in pictures:
        likely = p.objectness[:count] >= threshold
        right += int((match_boxes(p.boxes[:count][likely], p.truth) >= 0).sum())
        kept, objects = kept + int(likely.sum()), objects + len(p.truth)
    total = kept + beta**2 * objects
    return (1 + beta**2) * right / total if total else 0.0


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
