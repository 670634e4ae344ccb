# SPDX-License-Identifier: Apache-2.0
"""A depth image as surfaces: inverse depth, normals, and how noisy both are.

A plane is linear in inverse depth w = 1/z, and the noise of triangulation, which grows with the
square of the distance in z, is the same everywhere in w:

    a x + b y + c = w,    n = -(a, b, c) / |(a, b, c)|,    sigma_w = sigma_z / z^2

where (x, y) are the coordinates of a pixel at unit distance. So normals are gradients of w, and
one number describes the noise of an image.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from newfound_core.detection.proposals import CameraView

WIDTH = 320  # pixels that depth is reduced to, at least
_FLATTEST = 1e-3  # of w, relative: below any sensor
_OUTLIER = 0.03  # of w, relative: pixels of one block that belong to different surfaces
_NOISE_ROWS = 8  # every eighth row tells the noise
_REACH = 2  # pixels over which slopes are measured


@dataclass(frozen=True)
class Surfaces:
    """What a depth camera measured, at reduced size [H, W]."""

    inverse: np.ndarray  # w in 1/m, smoothed within surfaces; 0 where nothing was measured
    points: np.ndarray  # m, float32 [3, H, W]
    normals: np.ndarray  # float32 [3, H, W], towards the camera
    x: np.ndarray  # float32 [W]: coordinates of the columns at unit distance
    y: np.ndarray  # float32 [H]
    noise: float  # standard deviation of `inverse`, as far as neighbours differ

    @property
    def measured(self) -> np.ndarray:
        """Where something was."""
        return self.inverse > 0

    @property
    def depth(self) -> np.ndarray:
        """In metres; 0 where nothing was measured."""
        return self.points[2]

    @property
    def pixel(self) -> float:
        """Size of a pixel at unit distance."""
        return float(self.x[1] - self.x[0])

    def crop(self, rows: slice, columns: slice) -> "Surfaces":
        """A part of the image, copied: what runs over it again and again is faster dense."""
        return Surfaces(
            self.inverse[rows, columns].copy(),
            self.points[:, rows, columns].copy(),
            self.normals[:, rows, columns].copy(),
            self.x[columns],
            self.y[rows],
            self.noise,
        )


def measure_surfaces(depth: np.ndarray, camera: CameraView) -> Surfaces:
    """Reduce, fill small holes, smooth as much as the noise asks for, and take normals."""
    height, width = depth.shape
    stride = max(1, width // WIDTH)
    inverse = inverse_depth(depth)
    noise = _noise(inverse[::_NOISE_ROWS])
    reduced = _fill(_reduce(inverse, stride, noise), noise)
    w, noise = _smooth(reduced, noise / min(stride, 2))
    columns = (np.arange(w.shape[1], dtype=np.float32) + 0.5) * stride / width
    rows = (np.arange(w.shape[0], dtype=np.float32) + 0.5) * stride / height
    x = ((columns - camera.centre_x) / camera.focal_x).astype(np.float32)
    y = ((rows - camera.centre_y) * (height / width / camera.focal_y)).astype(np.float32)
    points = np.empty((3, *w.shape), np.float32)
    z = masked(1 / np.maximum(w, np.float32(1e-6)), w > 0)
    np.multiply(z, x, out=points[0])
    np.multiply(z, y[:, None], out=points[1])
    points[2] = z
    return Surfaces(w, points, _normals(w, x, y), x, y, noise)


def inverse_depth(depth: np.ndarray) -> np.ndarray:
    """1/z, and 0 where nothing was measured."""
    inverse = np.empty(depth.shape, np.float32)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        np.divide(1, depth, out=inverse, casting="same_kind")
    return masked(inverse, depth > 0)


def masked(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The image [H, W] where the mask is, 0 elsewhere; several times as fast as `np.where`."""
    return cv2.copyTo(image, mask.view(np.uint8))


def paste(image: np.ndarray, mask: np.ndarray, onto: np.ndarray) -> None:
    """Overwrite another image of the same type where the mask is: `np.copyto`, but faster."""
    cv2.copyTo(image, mask.view(np.uint8), onto)


def dot(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Product over the first axis.

    A product of matrices would be shared out among threads, which wait for each other on a
    processor that is busy, as that of a robot is: 30 ms of a frame instead of 6.
    """
    return np.einsum("i...,i...->...", one, other)


def pixel_noise(depth: np.ndarray) -> float:
    """Standard deviation of the inverse depth (1/m) of single pixels."""
    return _noise(inverse_depth(depth[::_NOISE_ROWS]))


def _noise(rows: np.ndarray) -> float:
    """Standard deviation of single pixels, from second differences along some rows.

    On a plane these are noise alone. Quantised depth makes most of them 0: the 80th percentile
    sees the steps, and leaves out the borders of objects.
    """
    left, here, right = rows[:, :-2], rows[:, 1:-1], rows[:, 2:]
    second = np.abs(left - 2 * here + right)[np.minimum(np.minimum(left, here), right) > 0]
    if not second.size:
        return 0.0
    place = int(0.8 * second.size)
    second.partition(place)
    return float(second[place]) / (1.28 * 6**0.5)


def _reduce(inverse: np.ndarray, stride: int, noise: float) -> np.ndarray:
    """Mean of four pixels of each block; the chosen one instead of those of another surface.

    The second nearest of the four decides which surface it is: a single flying pixel does not,
    and of something thin two are enough.
    """
    if stride == 1:
        return inverse
    height, width = (side // stride * stride for side in inverse.shape)
    second = stride // 2
    a, b, c, d = (
        inverse[down:height:stride, right:width:stride].copy()
        for down in (0, second)
        for right in (0, second)
    )
    low, high = np.minimum(a, b), np.maximum(a, b)
    other_low, other_high = np.minimum(c, d), np.maximum(c, d)
    chosen = np.maximum(high, other_high)
    middle = np.maximum(np.minimum(high, other_high), np.maximum(low, other_low))
    paste(middle, middle > 0, chosen)
    tolerance = _OUTLIER * chosen
    tolerance += 3 * np.float32(noise)
    total = np.zeros_like(chosen)
    for pixel in (a, b, c, d):
        paste(chosen, cv2.absdiff(pixel, chosen) >= tolerance, pixel)
        total += pixel
    total *= np.float32(0.25)
    return total


def _fill(inverse: np.ndarray, noise: float) -> np.ndarray:
    """Fill holes that are small or surrounded; beside an edge with what is behind."""
    kernel = np.ones((5, 5), np.uint8)
    for _ in range(2):
        valid = inverse > 0
        around = cv2.boxFilter(
            valid.view(np.uint8), -1, (5, 5), normalize=False, borderType=cv2.BORDER_CONSTANT
        )
        holes = np.flatnonzero(~valid & (around >= 0.3 * kernel.size))
        if not len(holes):
            break
        total = cv2.boxFilter(inverse, -1, (5, 5), normalize=False, borderType=cv2.BORDER_CONSTANT)
        behind = np.full_like(inverse, 1e6)
        paste(inverse, valid, behind)
        mean = total.take(holes) / around.take(holes)
        nearest = cv2.dilate(inverse, kernel).take(holes)
        farthest = cv2.erode(behind, kernel).take(holes)
        edge = nearest - farthest > _OUTLIER * nearest + 6 * np.float32(noise)
        inverse = inverse.copy()
        inverse.ravel()[holes] = np.where(edge, farthest, mean)
    return inverse


def _smooth(inverse: np.ndarray, noise: float) -> tuple[np.ndarray, float]:
    """Smoothed within surfaces, and the noise that is left."""
    valid = inverse > 0
    if not valid.any():
        return inverse, noise
    typical = float(np.median(inverse[valid]))
    size = 7 if noise > 3e-3 * typical else 5
    tolerance = 3 * noise + _FLATTEST * typical
    smooth = cv2.bilateralFilter(inverse, size, tolerance, size / 2.5)
    return masked(smooth, valid), noise / (0.3 * size)


def _normals(inverse: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Unit normals towards the camera, [3, H, W]."""
    smooth = cv2.blur(inverse, (3, 3), borderType=cv2.BORDER_REPLICATE)
    normals = np.zeros((3, *inverse.shape), np.float32)
    across, down, along = normals
    k, step_x, step_y = _REACH, float(x[1] - x[0]), float(y[1] - y[0])
    np.subtract(smooth[:, : -2 * k], smooth[:, 2 * k :], out=across[:, k:-k])
    np.subtract(smooth[: -2 * k], smooth[2 * k :], out=down[k:-k])
    across /= 2 * k * step_x
    down /= 2 * k * step_y
    np.multiply(across, x, out=along)
    along += down * y[:, None]
    along += inverse
    np.negative(along, out=along)
    normals /= np.maximum(cv2.sqrt(dot(normals, normals)), np.float32(1e-9))
    return normals


def opening(
    surfaces: Surfaces, pixel: np.ndarray, to: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sine by which normals open from pixels to others, and the way between them [3, N].

    Pixels are numbered row by row.
    """
    points, normals = surfaces.points.reshape(3, -1), surfaces.normals.reshape(3, -1)
    way = points.take(to, 1) - points.take(pixel, 1)
    turn = dot(normals.take(to, 1) - normals.take(pixel, 1), way)
    return turn / np.sqrt(dot(way, way) + 1e-12), way
