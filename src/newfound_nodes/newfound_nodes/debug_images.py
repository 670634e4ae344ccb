# SPDX-License-Identifier: Apache-2.0
"""A camera image with what a node made of it: a caption and a small bar chart."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

WIDTH = 640  # pixels; the image is brought to this width, so that text has a known size
LINE, MARGIN = 24, 8
FONT, SCALE = cv2.FONT_HERSHEY_SIMPLEX, 0.5
WHITE, GREY, BAR = (255, 255, 255), (70, 70, 70), (255, 160, 40)
MOST_NAMED = 8  # more bars than these are drawn narrow, without names


@dataclass(frozen=True)
class Chart:
    """Bars under the image."""

    title: str
    values: Sequence[float]
    names: Sequence[str] = ()
    full: float = 1.0  # the value of a bar that fills its room


def annotate(rgb: np.ndarray, caption: str, chart: Chart) -> np.ndarray:
    """The image at a readable size, with a caption above and the chart below."""
    height = max(1, round(rgb.shape[0] * WIDTH / rgb.shape[1]))
    scene = cv2.resize(rgb, (WIDTH, height), interpolation=cv2.INTER_AREA)
    head = np.zeros((LINE + MARGIN, WIDTH, 3), np.uint8)
    write(head, caption, (MARGIN, LINE - 4))
    return np.concatenate([head, scene, draw(chart)])


def draw(chart: Chart) -> np.ndarray:
    """The chart alone: named bars under each other, or many narrow ones beside each other."""
    shares = [float(np.clip(v / chart.full, 0, 1)) if chart.full > 0 else 0 for v in chart.values]
    named = bool(chart.names) and len(shares) <= MOST_NAMED
    picture = np.zeros((LINE * (1 + (len(shares) if named else 2)) + MARGIN, WIDTH, 3), np.uint8)
    write(picture, chart.title, (MARGIN, LINE - 6))
    if named:
        _draw_named(picture, chart, shares)
    elif shares:
        _draw_narrow(picture, shares)
    return picture


def _draw_named(picture: np.ndarray, chart: Chart, shares: list[float]) -> None:
    left, right = WIDTH // 2, WIDTH - 60
    rows = zip(chart.names, chart.values, shares, strict=True)
    for row, (name, value, share) in enumerate(rows, start=1):
        top, bottom = row * LINE + 4, (row + 1) * LINE - 4
        write(picture, name, (MARGIN, bottom - 2))
        cv2.rectangle(picture, (left, top), (right, bottom), GREY, -1)
        if share > 0:
            cv2.rectangle(picture, (left, top), (left + int(share * (right - left)), bottom),
                          BAR, -1)  # fmt: skip
        write(picture, f"{value:.2f}", (right + MARGIN, bottom - 2))


def _draw_narrow(picture: np.ndarray, shares: list[float]) -> None:
    floor, room = picture.shape[0] - MARGIN, 2 * LINE - MARGIN
    step = (WIDTH - 2 * MARGIN) / len(shares)
    for number, share in enumerate(shares):
        left = MARGIN + round(number * step)
        right = max(left, MARGIN + round((number + 1) * step) - 2)
        top = floor - round(share * room)
        cv2.rectangle(picture, (left, top), (right, floor), BAR, -1)


def write(picture: np.ndarray, text: str, place: tuple[int, int]) -> None:
    """Text, of which OpenCV's fonts know only ASCII."""
    plain = text.encode("ascii", "replace").decode()
    cv2.putText(picture, plain, place, FONT, SCALE, WHITE, 1, cv2.LINE_AA)
