# SPDX-License-Identifier: Apache-2.0
"""Frames of a clip on one page, with their truth drawn in."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from newfound_sim.errors import SimulationError
from newfound_sim.sources import ClipSource
from newfound_sim.truth import Truth

GREEN, WHITE = (80, 255, 80), (255, 255, 255)
COLUMNS = 2


def clip_sheet(folder: Path, times: Sequence[float], width: int = 480) -> np.ndarray:
    """The frames at these times, in seconds, in rows of two."""
    source = ClipSource(folder)
    pictures = []
    for time in times:
        number = round(time * source.rate)
        if not 0 <= number < len(source):
            raise SimulationError(f"{folder} has no frame at {time:g} s")
        picture = annotated(source.rgb(number), source.truth(number), f"{time:g} s")
        height = round(width * picture.shape[0] / picture.shape[1])
        pictures.append(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA))
    pictures += [np.zeros_like(pictures[0])] * (-len(pictures) % COLUMNS)
    rows = [np.hstack(pictures[i : i + COLUMNS]) for i in range(0, len(pictures), COLUMNS)]
    return np.vstack(rows)


def annotated(picture: np.ndarray, truth: Truth, title: str) -> np.ndarray:
    """A copy of a picture with boxes, labels, place and light."""
    drawn = np.ascontiguousarray(picture).copy()
    size = drawn.shape[1] / 1150
    for seen in truth.objects:
        left, top, width, height = seen.box
        cv2.rectangle(drawn, (left, top), (left + width, top + height), GREEN, 2)
        _write(drawn, seen.label, (left, max(top - 6, 10)), size, GREEN)
    words = [title, truth.place, truth.domain]
    if truth.illumination_share:
        words.append(
            f"{truth.illumination} > {truth.next_illumination} {truth.illumination_share:.2f}"
        )
    _write(drawn, "  ".join(filter(None, words)), (8, drawn.shape[0] - 10), size, WHITE)
    return drawn


def _write(
    picture: np.ndarray, text: str, at: tuple[int, int], size: float, colour: tuple[int, int, int]
) -> None:
    cv2.putText(picture, text, at, cv2.FONT_HERSHEY_SIMPLEX, size, colour, 1, cv2.LINE_AA)
