# SPDX-License-Identifier: Apache-2.0
"""Random variants of pictures with boxes: cut, scaled, mirrored, pasted into, in other colours.

Pasting objects with known outlines into other pictures is G. Ghiasi et al.: Simple Copy-Paste
is a Strong Data Augmentation Method for Instance Segmentation, CVPR 2021, arXiv:2012.07177.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from newfound_core.augmentation import Augmentation
from newfound_core.detection.boxes import areas, clipped
from newfound_core.errors import ConfigError
from newfound_training.detector.coco import Picture, read_rgb

_LEAST_VISIBLE = 0.4  # share of an object's box that must stay in the picture, or after pasting
_LEAST_SIDE = 6.0  # pixels of the result; smaller objects are not asked for


@dataclass(frozen=True)
class Variation:
    """How much pictures are varied in training."""

    size: int  # of the square result
    crop_area: float = 0.3  # smallest share of the picture
    crop_probability: float = 0.8
    stretch: float = 1.3  # of a crop's width against its height
    zoom_out: float = 0.2  # probability to see the picture smaller, on a plain ground
    paste_probability: float = 0.5
    max_pasted: int = 4
    jitter: float = 0.4  # random brightness, contrast and saturation

    def __post_init__(self) -> None:
        if not 0 < self.crop_area <= 1 or self.stretch < 1 or self.max_pasted < 0:
            raise ConfigError(f"crop_area in (0, 1], stretch at least 1, got {self}")


Scene = tuple[np.ndarray, np.ndarray]  # pixels uint8 [H, W, 3], boxes float32 [N, 4]


class SceneSampler:
    """Random scenes from pictures; objects with outlines are pasted into any of them."""

    def __init__(self, pictures: Sequence[Picture], variation: Variation) -> None:
        self._pictures, self._variation = pictures, variation
        jitter = variation.jitter
        self._colours = Augmentation(brightness=jitter, contrast=jitter, saturation=jitter)
        self._with_outlines = [
            (number, index)
            for number, picture in enumerate(pictures)
            for index, outline in enumerate(picture.outlines)
            if outline is not None
        ]

    def __call__(self, number: int, generator: np.random.Generator) -> Scene:
        """A random variant of a picture at the network's size."""
        variation, picture = self._variation, self._pictures[number]
        scene = read_rgb(picture), picture.boxes.copy()
        if generator.random() < variation.crop_probability:
            scene = cropped(scene, variation, generator)
        elif generator.random() < variation.zoom_out:
            scene = zoomed_out(scene, generator)
        scene = resized(scene, variation.size)
        if generator.random() < variation.paste_probability:
            scene = self._pasted(scene, generator)
        pixels, boxes = scene
        if generator.random() < 0.5:
            pixels = np.ascontiguousarray(pixels[:, ::-1])
            boxes[:, [0, 2]] = variation.size - boxes[:, [2, 0]]
        pixels = self._colours.jitter(pixels, generator)
        return pixels, boxes[(boxes[:, 2:] - boxes[:, :2]).min(1) >= _LEAST_SIDE]

    def _pasted(self, scene: Scene, generator: np.random.Generator) -> Scene:
        """The scene with some objects of other pictures in it."""
        if not self._with_outlines or not self._variation.max_pasted:
            return scene
        for _ in range(int(generator.integers(1, self._variation.max_pasted + 1))):
            number, index = self._with_outlines[int(generator.integers(len(self._with_outlines)))]
            cut = cut_out(self._pictures[number], index)
            if cut is not None:
                scene = paste(scene, *_turned(cut, self._variation.size, generator), generator)
        return scene


def cropped(scene: Scene, variation: Variation, generator: np.random.Generator) -> Scene:
    """A random part of the picture; objects of which too little is left are dropped."""
    pixels, boxes = scene
    height, width = pixels.shape[:2]
    area = generator.uniform(variation.crop_area, 1.0)
    stretch = variation.stretch ** generator.uniform(-0.5, 0.5)
    w = min(width, max(1, round(width * math.sqrt(area) * stretch)))
    h = min(height, max(1, round(height * math.sqrt(area) / stretch)))
    left, top = int(generator.integers(width - w + 1)), int(generator.integers(height - h + 1))
    inside = clipped(boxes - np.array([left, top] * 2, np.float32), w, h)
    kept = areas(inside) > _LEAST_VISIBLE * areas(boxes)
    return pixels[top : top + h, left : left + w], inside[kept]


def zoomed_out(scene: Scene, generator: np.random.Generator) -> Scene:
    """The picture on a larger plain ground."""
    pixels, boxes = scene
    height, width = pixels.shape[:2]
    factor = generator.uniform(1.1, 1.8)
    canvas = np.empty((round(factor * height), round(factor * width), 3), np.uint8)
    canvas[:] = pixels.mean((0, 1))
    left = int(generator.integers(canvas.shape[1] - width + 1))
    top = int(generator.integers(canvas.shape[0] - height + 1))
    canvas[top : top + height, left : left + width] = pixels
    return canvas, boxes + np.array([left, top] * 2, np.float32)


def resized(scene: Scene, size: int) -> Scene:
    """The scene squeezed into a square."""
    pixels, boxes = scene
    height, width = pixels.shape[:2]
    shrinks = size < min(height, width)
    way = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    scale = np.array([size / width, size / height] * 2, np.float32)
    return cv2.resize(pixels, (size, size), interpolation=way), boxes * scale


def cut_out(picture: Picture, index: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The pixels of an object's box and its mask in it; None if it has no visible pixel."""
    pixels = read_rgb(picture)
    mask = picture.mask(index, pixels.shape[:2])
    if mask is None or mask.shape != pixels.shape[:2] or not mask.any():
        return None
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    part = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return pixels[part], mask[part]


def paste(
    scene: Scene, pixels: np.ndarray, mask: np.ndarray, generator: np.random.Generator
) -> Scene:
    """The scene with an object at a random place; boxes that it hides too much are dropped."""
    ground, boxes = scene[0].copy(), scene[1]
    height, width = mask.shape
    left = int(generator.integers(max(1, ground.shape[1] - width + 1)))
    top = int(generator.integers(max(1, ground.shape[0] - height + 1)))
    soft = cv2.GaussianBlur(mask.astype(np.float32), (3, 3), 0)[..., None]
    place = ground[top : top + height, left : left + width]
    place[:] = soft * pixels + (1 - soft) * place
    new = np.array([[left, top, left + width, top + height]], np.float32)
    shared = np.minimum(boxes[:, 2:], new[:, 2:]) - np.maximum(boxes[:, :2], new[:, :2])
    hidden = np.clip(shared, 0, None).prod(1)
    kept = hidden <= (1 - _LEAST_VISIBLE) * areas(boxes)
    return ground, np.concatenate([boxes[kept], new])


def _turned(
    cut: tuple[np.ndarray, np.ndarray], size: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The object at a random size, mirrored and in steps of a right angle."""
    pixels, mask = cut
    longest = size * np.exp(generator.uniform(np.log(0.1), np.log(0.6)))
    scale = min(longest / max(mask.shape), 3.0)
    height, width = (max(4, min(size, round(scale * side))) for side in mask.shape)
    pixels = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
    solid = cv2.resize(mask.astype(np.uint8), (width, height), interpolation=cv2.INTER_AREA) > 0
    turns = int(generator.choice([0, 0, 0, 1, 2, 3]))
    pixels, solid = np.rot90(pixels, turns), np.rot90(solid, turns)
    if generator.random() < 0.5:
        pixels, solid = pixels[:, ::-1], solid[:, ::-1]
    return np.ascontiguousarray(pixels), np.ascontiguousarray(solid)
