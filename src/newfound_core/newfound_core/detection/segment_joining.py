# SPDX-License-Identifier: Apache-2.0
"""Which parts of a depth image belong to one object.

Cutting at every concave edge and depth step (S. C. Stein, M. Schoeler, J. Papon, F. Wörgötter,
"Object Partitioning using Local Convexity", CVPR 2014) takes single things apart: a hammer at the
head, a mug at its rim. So every two parts that touch are joined again if a logistic regression
over what is known of their border says that they are one thing.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from newfound_core.detection.depth_geometry import Surfaces, opening

FEATURES = {  # of two parts that touch
    "convexity": "mean sine of the angle that normals open across the border; negative: concave",
    "gap": "log of the mean difference in depth across the border, m",
    "slope": "the same relative to the distance in the image",
    "contact": "length of the border, relative to the square root of the smaller area",
    "small_area": "log of the smaller area, m^2",
    "large_area": "log of the larger one",
    "saddle": "height of the border relative to the lower of the two tops",
    "top": "log of that top, m above the support",
    "colour": "distance of the mean colours, Lab / 30",
    "solidity": "of both together: area relative to the convex hull",
    "solidity_each": "mean solidity of the two by themselves, weighted by area",
    "tops": "absolute log of the ratio of the tops",
    "base": "height of the border relative to that of the middle of the smaller part",
    "convexity_far": "mean convexity within the farther part: negative in a bowl",
}
_REACH = 2  # pixels on either side of a border


@dataclass(frozen=True)
class Parts:
    """Labels [H, W] (0: no part), what is known of each, and of every two that touch."""

    labels: np.ndarray
    area: np.ndarray  # pixels
    pairs: np.ndarray  # int [P, 2]
    features: np.ndarray  # float64 [P, len(FEATURES)]
    inverse: np.ndarray  # inverse depth [H, W]
    middle: np.ndarray  # row and column of the mean pixel, [N, 2]
    centre: np.ndarray  # m, [N, 3]
    normal: np.ndarray  # mean, of length 1, [N, 3]
    colour: np.ndarray  # mean Lab, lightness halved, [N, 3]
    top: np.ndarray  # m above the support


class Regions:
    """The pixels of each region of a label image, region by region, and row by row in each."""

    def __init__(self, labels: np.ndarray) -> None:
        pixels = np.flatnonzero(labels > 0)
        numbers = labels.take(pixels)
        count = np.bincount(numbers)
        self.numbers = np.flatnonzero(count)
        self.area = count[self.numbers]
        self.starts = np.cumsum(self.area) - self.area
        self.pixels = pixels[np.argsort(numbers, kind="stable")]  # numbered row by row
        self.rows, self.columns = np.divmod(self.pixels, labels.shape[1])

    def means(self, values: np.ndarray) -> np.ndarray:
        """Means for each region, [regions, K], of values at `pixels`, [K, pixels]."""
        sums = np.add.reduceat(values, self.starts, axis=1, dtype=np.float64)
        return (sums / self.area).T

    def hulls(self) -> list[np.ndarray]:
        """Corners of the convex hull of each region, as column and row."""
        # Only pixels that are first or last in their row can be corners.
        first = np.ones(len(self.rows) + 1, bool)
        first[1:-1] = self.rows[1:] != self.rows[:-1]
        first[self.starts] = True
        ends = np.flatnonzero(first[:-1] | first[1:])
        points = np.stack([self.columns[ends], self.rows[ends]], 1).astype(np.int32)
        starts = np.searchsorted(ends, self.starts)
        return [cv2.convexHull(each) for each in np.split(points, starts)[1:]]


def describe_parts(
    labels: np.ndarray, surfaces: Surfaces, height: np.ndarray, rgb: np.ndarray
) -> Parts:
    """Measure parts, at least one, and their borders; `height` is above the support."""
    regions = Regions(labels)
    count = int(labels.max()) + 1

    def of_each(values: np.ndarray) -> np.ndarray:
        spread = np.zeros((count, *values.shape[1:]))
        spread[regions.numbers] = values
        return spread

    area = of_each(regions.area)
    high = height.take(regions.pixels)
    values = (
        surfaces.points.reshape(3, -1).take(regions.pixels, 1),
        surfaces.normals.reshape(3, -1).take(regions.pixels, 1),
        (high, high * high),
        cv2.cvtColor(rgb.reshape(-1, 1, 3).take(regions.pixels, 0), cv2.COLOR_RGB2LAB)[:, 0].T,
        (regions.rows, regions.columns),
    )
    means = of_each(regions.means(np.concatenate(values)))
    centre, normal, heights, colour, middle = np.split(means, (3, 6, 8, 11), axis=1)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9)
    colour *= [0.5, 1, 1]
    depth, mean_height = centre[:, 2], heights[:, 0]
    deviation = np.sqrt(np.maximum(heights[:, 1] - mean_height**2, 0))
    top = np.maximum(mean_height + 1.3 * deviation, 1e-3)  # about the 90th percentile
    metres = area * (surfaces.pixel * depth) ** 2
    bend = _bends(labels, surfaces, count)
    hulls = dict(zip(regions.numbers.tolist(), regions.hulls(), strict=True))
    pairs, border = _borders(labels, surfaces, height, count)
    one, other = pairs.T
    small = np.where(area[one] < area[other], one, other)
    large = one + other - small
    far = np.where(depth[one] > depth[other], one, other)
    lower = np.minimum(top[one], top[other])
    unions = np.array([hull_area(np.concatenate([hulls[i], hulls[j]])) for i, j in pairs.tolist()])
    own = of_each(np.array([hull_area(hull) for hull in hulls.values()]))
    features = np.stack(
        [
            border["convexity"],
            np.log(border["gap"] + 0.003),
            border["slope"],
            border["length"] / np.sqrt(area[small]),
            np.log(metres[small] + 1e-6),
            np.log(metres[large] + 1e-6),
            border["height"] / lower,
            np.log(lower),
            np.linalg.norm(colour[one] - colour[other], axis=1) / 30,
            (area[one] + area[other]) / unions,
            (area[one] + area[other]) / (own[one] + own[other]),
            np.abs(np.log(top[one] / top[other])),
            border["height"] / np.maximum(mean_height[small], 1e-3),
            bend[far],
        ],
        1,
    )
    return Parts(
        labels, area, pairs, features, surfaces.inverse, middle, centre, normal, colour, top
    )


def _bends(labels: np.ndarray, surfaces: Surfaces, count: int) -> np.ndarray:
    """How convex each part is from left to right, on average; negative: hollow."""
    inside = np.zeros(labels.shape, bool)
    inside[:, :-8] = (labels[:, :-8] == labels[:, 8:]) & (labels[:, :-8] > 0)
    pixels = np.flatnonzero(inside)
    turn, _ = opening(surfaces, pixels, pixels + 8)
    numbers = labels.take(pixels)
    pairs = np.maximum(np.bincount(numbers, minlength=count), 1)
    return np.bincount(numbers, turn, count) / pairs


def hull_area(points: np.ndarray) -> float:
    """Area of the convex hull of pixels, or of the corners of hulls."""
    hull = cv2.convexHull(points)
    # Corners are centres of pixels: half a pixel is missing all around.
    return float(cv2.contourArea(hull) + cv2.arcLength(hull, True) / 2 + 1)


def _borders(
    labels: np.ndarray, surfaces: Surfaces, height: np.ndarray, count: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Pairs that touch, and means along their borders."""
    pixel, to = (
        np.concatenate(each)
        for each in zip(_crossings(labels, 0, 1), _crossings(labels, 1, 0), strict=True)
    )
    one, other = labels.take(pixel), labels.take(to)
    codes, index, length = np.unique(
        np.minimum(one, other) * count + np.maximum(one, other),
        return_inverse=True,
        return_counts=True,
    )

    def mean(values: np.ndarray) -> np.ndarray:
        return np.bincount(index, values, len(codes)) / length

    turn, way = opening(surfaces, pixel, to)
    jump = np.abs(way[2])
    nearer = np.minimum(surfaces.depth.take(pixel), surfaces.depth.take(to))
    down, right = np.divmod(to - pixel, labels.shape[1])
    apart = surfaces.pixel * np.maximum(down, right) * nearer
    pairs = np.stack(np.divmod(codes, count), 1)
    return pairs, {
        "length": length,
        "convexity": mean(turn),
        "gap": mean(np.minimum(jump, 0.3)),
        "slope": mean(np.minimum(jump / np.maximum(apart, 1e-6), 10)),
        "height": mean(np.minimum(height.take(pixel), height.take(to))),
    }


def _crossings(labels: np.ndarray, down: int, right: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels on both sides of every border, a little away from it where the part is that wide."""
    height, width = labels.shape
    one, other = labels[: height - down, : width - right], labels[down:, right:]
    border = (one != other) & (np.minimum(one, other) > 0)
    row, column = np.divmod(np.flatnonzero(border), width - right)
    to_row, to = row + down, column + right
    back_row, back = np.maximum(row - _REACH * down, 0), np.maximum(column - _REACH * right, 0)
    on_row = np.minimum(to_row + _REACH * down, height - 1)
    on = np.minimum(to + _REACH * right, width - 1)
    pixel, back, to, on = (
        r * width + c for r, c in ((row, column), (back_row, back), (to_row, to), (on_row, on))
    )
    flat = labels.ravel()
    return (
        np.where(flat[back] == flat[pixel], back, pixel),
        np.where(flat[on] == flat[to], on, to),
    )


# Fitted on scenes that are not reported, see docs/notes/depth_settings.md: features are
# standardised and cut off at three deviations; a term is the product of its features.
_MEAN = np.array(
    [
        -0.00806,
        -3.86,
        2.35,
        1.41,
        -7.25,
        -5.61,
        0.582,
        -3.23,
        0.896,
        0.792,
        0.848,
        0.421,
        0.801,
        0.182,
    ]
)
_DEVIATION = np.array(
    [
        0.442,
        0.958,
        2.31,
        0.98,
        1.51,
        1.29,
        0.259,
        0.983,
        0.736,
        0.129,
        0.0931,
        0.498,
        0.363,
        0.379,
    ]
)
_BIAS = 3.324
_TERMS: tuple[tuple[tuple[str, ...], float], ...] = (
    (("convexity",), 0.87),
    (("slope",), -1.18),
    (("contact",), 0.86),
    (("small_area",), -1.18),
    (("large_area",), -0.76),
    (("saddle",), 0.09),
    (("top",), -1.40),
    (("colour",), -0.41),
    (("tops",), -1.41),
    (("convexity_far",), -0.88),
    (("slope", "small_area"), 0.25),
    (("tops", "tops"), 0.31),
    (("solidity_each", "convexity_far"), 0.94),
    (("solidity", "convexity_far"), -0.82),
    (("solidity", "base"), -0.21),
    (("saddle", "tops"), 0.15),
    (("contact", "small_area"), 0.12),
    (("slope", "base"), -0.50),
    (("slope", "large_area"), 0.18),
    (("large_area", "large_area"), -0.63),
)
_WEIGHTS = np.array([weight for _, weight in _TERMS])
# Columns of the two factors of each term; behind the features comes a column of ones.
_FACTORS = np.array([[[*FEATURES, ""].index(n) for n in (*t, "")[:2]] for t, _ in _TERMS])
_SMALLEST_END = 30  # pixels of a part that may continue behind another
_REPRESENTED = 0.15  # of the areas of two groups: smaller parts do not speak for them


def join(parts: Parts) -> np.ndarray:
    """Labels in which parts of one object have one number."""
    group = _join_touching(parts, evidence(parts.features))
    return _join_hidden(parts, group)[parts.labels].astype(np.int32)


def evidence(features: np.ndarray) -> np.ndarray:
    """Log odds that two parts are one thing, [P], from their features [P, F]."""
    scaled = np.clip((features - _MEAN) / _DEVIATION, -3, 3)
    factors = np.column_stack([scaled, np.ones(len(features))])[:, _FACTORS]
    return _BIAS + factors.prod(2) @ _WEIGHTS


def _join_touching(parts: Parts, evidence: np.ndarray) -> np.ndarray:
    """The group of each part: the likeliest pair is joined first."""
    group, total = np.arange(len(parts.area)), parts.area.copy()
    sides = parts.pairs
    for first in np.argsort(-evidence, kind="stable"):
        if evidence[first] <= 0:
            break
        one, other = sorted(sides[first].tolist())
        if one == other:
            continue
        between = np.flatnonzero((sides.min(1) == one) & (sides.max(1) == other))
        share = (parts.area[parts.pairs[between]] / total[sides[between]]).prod(1)
        if share.sum() >= _REPRESENTED and (share * evidence[between]).sum() > 0:
            group[group == other] = one
            total[one] += total[other]
            sides = group[parts.pairs]
    return group


def _join_hidden(parts: Parts, group: np.ndarray) -> np.ndarray:
    """Groups in which two ends of a thing are one whose middle is hidden by something nearer."""
    total = np.bincount(group, parts.area, len(group))
    ends = np.flatnonzero((parts.area > 0.5 * total[group]) & (parts.area >= _SMALLEST_END))
    for index, one in enumerate(ends):
        for other in ends[:index]:
            if (
                group[one] != group[other]
                and _continue_each_other(parts, one, other)
                and _hidden_between(parts, group, one, other)
            ):
                group[group == group[one]] = group[other]
    return group


def _continue_each_other(parts: Parts, one: int, other: int) -> bool:
    """Whether two parts may be one surface: equally high, in one plane, alike in colour."""
    way = parts.centre[one] - parts.centre[other]
    apart = max(abs(parts.normal[one] @ way), abs(parts.normal[other] @ way))
    tops = np.sort(parts.top[[one, other]])
    return bool(
        parts.normal[one] @ parts.normal[other] > 0.85
        and apart < 0.02 + 0.15 * np.linalg.norm(way)
        and tops[1] - tops[0] < 0.005 + 0.1 * tops[1]
        and np.linalg.norm(parts.colour[one] - parts.colour[other]) < 40
    )


def _hidden_between(parts: Parts, group: np.ndarray, one: int, other: int) -> bool:
    """Whether nothing between two parts shows that there is no surface from one to the other."""
    share = np.linspace(0, 1, 40)[:, None]
    rows, columns = np.rint(
        (1 - share) * parts.middle[one] + share * parts.middle[other]
    ).astype(int).T  # fmt: skip
    labels, w = parts.labels[rows, columns], parts.inverse[rows, columns]
    expected = (1 - share[:, 0]) / parts.centre[one, 2] + share[:, 0] / parts.centre[other, 2]
    between = (group[labels] != group[one]) & (group[labels] != group[other])
    nearer = w > 1.01 * expected
    return bool(
        (nearer & (labels > 0) & between).sum() >= 3 and (nearer | (w == 0))[between].mean() > 0.85
    )
