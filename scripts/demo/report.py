# SPDX-License-Identifier: Apache-2.0
"""The demo's report as one figure: simulated and real frames, the loop in time, and the light."""

import io
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from newfound_msgs.msg import OpenWorldDetection, OpenWorldDetections
from scripts.demo.light import ADAPTING, FROZEN
from scripts.demo.story import Shown, Story
from scripts.demo.table import RealTable

COLOURS = {"right": "tab:green", "unknown": "tab:orange", "wrong": "tab:red", "missed": "silver"}
REAL_FRAMES = 3  # shown of the real recording
WINDOW = 25  # frames of one point
HEIGHTS = {"right": 3, "unknown": 2, "wrong": 1, "missed": 0}


def draw(story: Story, file: Path) -> None:
    """Write the figure."""
    figure = plt.figure(figsize=(11, 11.4), layout="constrained")
    top, real, middle, bottom = figure.subfigures(4, 1, height_ratios=[1.6, 1.15, 1, 0.9])
    left, right = top.subplots(1, 2)
    _frame(left, story.before, f"before: the {story.new} is unknown")
    _frame(right, story.after, f"after: it is a {story.new}")
    _real(real, story.table)
    line, listed = middle.subplots(1, 2, gridspec_kw={"width_ratios": [5, 1]})
    _timeline(line, story)
    _events(listed, story)
    _light(bottom.subplots(), story)
    figure.savefig(file, dpi=90)
    plt.close(figure)


def _frame(axes: Any, shown: Shown | None, title: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.axis("off")
    if shown is None:
        axes.text(0.5, 0.5, "no such frame", ha="center")
        return
    _picture(axes, shown.jpeg, shown.detections)


def _real(figure: Any, table: RealTable) -> None:
    """Some frames of the real recording, and how much of it was found."""
    counts, frames = table.summary(), table.frames()
    figure.suptitle(
        f"a real recording: {counts['objects_found']} of {counts['objects_labelled']} labelled "
        f"objects found in {counts['frames']} scenes, {counts['called_unknown']} of them unknown",
        fontsize=10,
    )
    chosen = np.linspace(0, len(frames) - 1, min(len(frames), REAL_FRAMES)).round().astype(int)
    for axes in (row := figure.subplots(1, REAL_FRAMES)):
        axes.axis("off")
    for axes, number in zip(row, chosen, strict=False):
        _picture(axes, frames[number].jpeg, frames[number].detections)


def _picture(axes: Any, jpeg: bytes, detections: OpenWorldDetections) -> None:
    """An image with the detections in it."""
    axes.imshow(Image.open(io.BytesIO(jpeg)))
    for found in detections.detections:
        known = found.kind == OpenWorldDetection.KIND_KNOWN
        colour, box = ("lime" if known else "orange"), found.region
        corner, size = (box.x_offset, box.y_offset), (box.width, box.height)
        axes.add_patch(plt.Rectangle(corner, *size, fill=False, color=colour, lw=1.5))
        nearest = f" ({found.nearest_label}?)" if found.nearest_label else ""
        text = found.label if known else f"unknown{nearest}"
        where = {"facecolor": "black", "alpha": 0.6, "pad": 1, "lw": 0}
        axes.text(corner[0], corner[1] - 6, text, color=colour, fontsize=7, bbox=where)


def _timeline(axes: Any, story: Story) -> None:
    """What was said of the new object in every frame, and what happened meanwhile."""
    for verdict, colour in COLOURS.items():
        times = [s.at for s in story.seen if s.label == story.new and s.verdict == verdict]
        axes.scatter(times, [HEIGHTS[verdict]] * len(times), s=14, color=colour, marker="|")
    for at in story.events.values():
        axes.axvline(at, color="grey", lw=0.7, ls=":")
    axes.set(
        ylim=(-0.5, 3.5),
        yticks=list(HEIGHTS.values()),
        yticklabels=list(HEIGHTS),
        xlabel="seconds since the start",
        title=f"what the detector says of the {story.new}, frame by frame",
    )


def _events(axes: Any, story: Story) -> None:
    """The loop as a list, for those who cannot tell the lines apart."""
    axes.axis("off")
    lines = [f"{at:6.1f} s  {name}" for name, at in story.events.items()]
    axes.text(0, 1, "\n".join(lines), va="top", family="monospace", fontsize=8.5)


def _light(axes: Any, story: Story) -> None:
    """How often both classifiers are right, through the change of light."""
    names = {ADAPTING: ("adapting (ONDA)", "tab:blue"), FROZEN: ("frozen", "tab:red")}
    for name, (label, colour) in names.items():
        right = story.lit.right(name).astype(float)
        if len(right) >= WINDOW:
            share = np.convolve(right, np.ones(WINDOW) / WINDOW, "valid")
            axes.plot(np.arange(WINDOW - 1, len(right)), share, color=colour, label=label)
    axes.axvline(story.lit.change(), color="orange", lw=2, label="the light changes")
    axes.set(
        ylim=(0, 1),
        xlabel="frame",
        ylabel=f"right, last {WINDOW} frames",
        title="classifying single things while the light changes",
    )
    axes.legend(fontsize=8, loc="lower left")
