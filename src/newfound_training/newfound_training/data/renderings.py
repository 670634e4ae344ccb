# SPDX-License-Identifier: Apache-2.0
"""The photographs of one data set in several renderings, which serve as domains.

No rendering needs a model: edges, colours and tones by OpenCV. Every photograph is in one
rendering only, so that no image of an unseen domain was trained on in another one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from newfound_core.errors import ConfigError, DataError
from newfound_training.data.images import ImageSet, ImageSource

SIDE = 128  # least side when rendered: lines one pixel wide need room in thumbnails
LEVELS = 4  # of brightness and colour in a cartoon


def photograph(rgb: np.ndarray) -> np.ndarray:
    """The image as it is."""
    return rgb


def sketch(rgb: np.ndarray) -> np.ndarray:
    """Grey lines on white: brightness divided by its surroundings, as a pencil drawing."""
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    around = cv2.GaussianBlur(grey, (0, 0), 0.025 * max(grey.shape))
    return _three(cv2.divide(grey, np.maximum(around, 1), scale=250))


def cartoon(rgb: np.ndarray) -> np.ndarray:
    """Flat colours in few levels, with black contours."""
    flat = rgb
    for _ in range(3):
        flat = cv2.bilateralFilter(flat, 9, 40, 7)
    step = 256 // LEVELS
    flat = (flat // step * step + step // 2).astype(np.uint8)
    grey = cv2.medianBlur(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), 5)
    contours = cv2.adaptiveThreshold(
        grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, 9, 4
    )
    return cv2.bitwise_and(flat, _three(contours))


def negative(rgb: np.ndarray) -> np.ndarray:
    """Grey, with dark and bright exchanged."""
    return _three(255 - cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY))


def painting(rgb: np.ndarray) -> np.ndarray:
    """Blotches of saturated colour: OpenCV's edge-aware stylisation (Gastal and Oliveira 2011)."""
    smooth = cv2.stylization(rgb, sigma_s=30, sigma_r=0.45)
    hsv = cv2.cvtColor(smooth, cv2.COLOR_RGB2HSV)
    hsv[..., 1] = cv2.multiply(hsv[..., 1], np.ones_like(hsv[..., 1]), scale=1.6)
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)


RENDERINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    function.__name__: function for function in (photograph, sketch, cartoon, negative, painting)
}


@dataclass(frozen=True)
class Rendered:
    """An image source that renders another one."""

    source: ImageSource
    rendering: str

    @property
    def name(self) -> str:
        """Rendering and name of the photograph."""
        return f"{self.rendering}/{self.source.name}"

    def read(self) -> np.ndarray:
        """Its pixels; thumbnails are enlarged first."""
        rgb = self.source.read()
        scale = SIDE / min(rgb.shape[:2])
        if scale > 1:
            rgb = cv2.resize(rgb, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
        return RENDERINGS[self.rendering](np.ascontiguousarray(rgb))

    def fingerprint(self) -> str:
        """Changes with the photograph and the rendering."""
        return f"{self.rendering} {self.source.fingerprint()}"


def render(images: ImageSet, renderings: Sequence[str]) -> ImageSet:
    """The photographs of every class dealt out to the renderings, which become the domains."""
    unknown = sorted(set(renderings) - set(RENDERINGS))
    if unknown or len(set(renderings)) != len(renderings) or not renderings:
        raise ConfigError(f"renderings must be different ones of {', '.join(RENDERINGS)}, got "
                          f"{', '.join(renderings) or 'none'}")  # fmt: skip
    names = tuple(sorted(renderings))
    domains = np.zeros(len(images), np.int64)
    for label, class_name in enumerate(images.class_names):
        members = np.flatnonzero(images.labels == label)
        if len(members) < len(names):
            raise DataError(f"{class_name} in {images.root} has {len(members)} images, fewer than "
                            f"the {len(names)} renderings")  # fmt: skip
        domains[members] = np.arange(len(members)) % len(names)
    sources = tuple(
        Rendered(source, names[domain])
        for source, domain in zip(images.sources, domains, strict=True)
    )
    order = np.argsort(domains, kind="stable")
    return replace(images, sources=sources, domains=domains, domain_names=names).select(order)


def _three(grey: np.ndarray) -> np.ndarray:
    return cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB)
