# SPDX-License-Identifier: Apache-2.0
"""The camera image with what was found in it, for people."""

from collections.abc import Sequence

import cv2
import numpy as np

from newfound_core.detection.detector import Detection

KNOWN, UNKNOWN, TEXT = (40, 180, 60), (240, 120, 20), (255, 255, 255)  # red, green, blue


def draw(rgb: np.ndarray, found: Sequence[Detection], tracks: Sequence[int]) -> np.ndarray:
    """A copy of the image with boxes and names; orange is what is unknown."""
    canvas = np.ascontiguousarray(rgb).copy()
    for detection, track in zip(found, tracks, strict=True):
        left, top, right, bottom = (round(float(value)) for value in detection.box)
        colour = KNOWN if detection.known else UNKNOWN
        cv2.rectangle(canvas, (left, top), (right - 1, bottom - 1), colour, 2)
        name = detection.label or f"unknown ({detection.nearest_label}?)"
        _write(
            canvas,
            f"{track} {name} {detection.distance:.2f}/{detection.rejection_threshold:.2f}",
            left,
            top,
        )
    return canvas


def _write(canvas: np.ndarray, text: str, left: int, top: int) -> None:
    text = text.encode("ascii", "replace").decode()  # all that the font has
    (width, height), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 0.45, 1)
    bottom = max(top, height + 4)
    cv2.rectangle(canvas, (left, bottom - height - 4), (left + width, bottom), (0, 0, 0), -1)
    cv2.putText(canvas, text, (left, bottom - 3), cv2.FONT_HERSHEY_SIMPLEX, 0.45, TEXT, 1)
