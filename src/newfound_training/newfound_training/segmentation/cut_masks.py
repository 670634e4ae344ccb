# SPDX-License-Identifier: Apache-2.0
"""`cut_masks`: from RGB-D pictures with labelled boxes to masks of one class.

A box says which thing, depth says which pixels: what stands on a surface is cut out as the depth
proposer does. Boxes come from a person or from the detector, once a label is confirmed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from tqdm import tqdm

from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.proposals import CameraView
from newfound_core.errors import ConfigError, DataError
from newfound_core.segmentation.region_masks import region_mask
from newfound_core.storage import write_bytes
from newfound_training.detector.coco import Picture, PictureOptions, read_depth, read_rgb
from newfound_training.running.command import Command, Run
from newfound_training.running.options import option


@dataclass(frozen=True)
class CutMasksOptions(PictureOptions):
    """Options of `cut_masks`."""

    label: str = option("", "the class, as the boxes are labelled", required=True)
    focal: float = option(0.82, "focal length of the camera, in widths of the image")

    def __post_init__(self) -> None:
        if not self.focal > 0:
            raise ConfigError(f"focal must be positive, got {self.focal}")


def run_cut_masks(options: CutMasksOptions, run: Run) -> dict[str, Any]:
    """Write `images/` and `labels/`, as learn-segment takes them."""
    pictures = options.pictures()
    proposer = DepthSegments(camera=CameraView(options.focal, options.focal))
    shown = empty = 0
    for number, picture in enumerate(tqdm(pictures, "pictures", disable=None)):
        rgb = read_rgb(picture)
        mask = mask_of(picture, options.label, rgb, proposer)
        wanted = options.label in picture.labels
        if wanted and not (mask == 1).any():
            empty += 1  # there, but not cut out: nothing is to be learned from it
            continue
        shown += wanted
        _write(run.out, f"{number:05d}", rgb, mask)
    if not shown:
        raise DataError(
            f"no region of depth fits a box of {options.label!r} in {len(pictures)} pictures"
        )
    return {"images": len(pictures) - empty, "with_class": shown, "left_out": empty}


def mask_of(picture: Picture, label: str, rgb: np.ndarray, proposer: DepthSegments) -> np.ndarray:
    """The mask of a class in a picture; things with another label are not the class."""
    height, width = rgb.shape[:2]
    proposals = proposer.propose(rgb, read_depth(picture))
    named = np.array([other == label for other in picture.labels], bool)
    mask = region_mask(proposals, picture.boxes[named], (width, height))
    others = region_mask(proposals, picture.boxes[~named], (width, height))
    mask[(others == 1) & (mask != 1)] = 0
    return mask


def _write(out: Path, name: str, rgb: np.ndarray, mask: np.ndarray) -> None:
    jpeg = cv2.imencode(
        ".jpg", cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 95]
    )
    write_bytes(out / "labels" / f"{name}.png", cv2.imencode(".png", mask)[1].tobytes())
    write_bytes(out / "images" / f"{name}.jpg", jpeg[1].tobytes())


COMMAND = Command(
    "cut-masks",
    "Cuts masks of a class out of RGB-D pictures with labelled boxes, for learn-segment.",
    CutMasksOptions,
    run_cut_masks,
    {
        "images": "pictures written with their masks",
        "with_class": "of them, those that show the class",
        "left_out": "pictures that show it, but where no region of depth fits its box",
    },
)
