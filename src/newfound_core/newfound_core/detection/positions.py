# SPDX-License-Identifier: Apache-2.0
"""Where objects are, and how large: an upright box on the support surface around each.

1. The support surfaces of the frame are fitted again with the rays of the calibrated camera:
   w = a x + b y + c by least squares over their pixels (`support_surfaces`).
2. Points of an object are those of its segment, or without one those of its box, that are higher
   above the surface than its noise. Flying pixels, which agree with neighbours of one direction
   only, and points that are alone when seen from above are left out; of a box, also what is
   behind a gap in depth.
3. Of something round the camera, at an elevation e above it, sees depth D = r + r sin e instead
   of 2 r: where the farthest points are below the top, points are mirrored about their middle,
   D / (1 + sin e) behind the nearest. A flat top shows the whole footprint.
4. Height above the surface is a quantile; the footprint is the rectangle of least area around the
   points seen from above, its sides quantiles, too. What the image cuts off may go on
   as far again, which its error says.
"""

from dataclasses import dataclass, replace

import numpy as np

from newfound_core.detection.boxes import iou
from newfound_core.detection.camera_rays import Calibration
from newfound_core.detection.depth_geometry import measure_surfaces, pixel_noise
from newfound_core.detection.proposals import CameraView, SegmentedDepth
from newfound_core.detection.support_surfaces import Plane, find_support

_MIN_HEIGHT = 0.003  # m above the support, at least
_POINTS = 400  # per object; more would not make it more exact
_GROUND_STEP = 8  # pixels of the reduced image between those that a plane is fitted to
_FEWEST = 12
_AGREE = 0.012  # difference of neighbours on one surface, relative to their depth
_GAP = 0.03  # m between an object and what is behind it
_SAME_BOX = 0.6  # IoU of a detection with the segment that it was made of
_MEASURED = 0.5  # of a box: less does not tell what is in it
_TAIL = 0.5  # percent of the points that are taken for outliers at each end
_HANGS, _HANGING_SHARE = 0.02, 0.3  # m, and of its top: an object that begins higher stands on one
_ROUND = 0.97  # of the height: farthest points lower than that are of something round
_CELL, _DENSE = 4, 10  # side of a cell in pixels, and points in 3 x 3 of them that are a surface
_ANGLES = np.radians(np.arange(0, 90, 3))
_ORIENTING = 200  # points are enough for the orientation


@dataclass(frozen=True)
class ObjectPosition:
    """An upright box around an object in the camera's optical frame."""

    centre: np.ndarray  # m, float64 [3]
    axes: np.ndarray  # float64 [3, 3]: columns are along, across, and up from the support
    size: np.ndarray  # m along the axes, float64 [3]
    error: float  # m: expected distance of `centre` from the truth
    points: int  # depth pixels used
    on_support: bool  # if not, axes are those of the camera and the box is what is visible


@dataclass(frozen=True)
class _Ground:
    """A support surface in the rays of the camera: height above it is normal . p + distance."""

    normal: np.ndarray  # float64 [3]
    distance: float
    hull: np.ndarray  # bool, reduced image: where things can stand on it


@dataclass(frozen=True)
class _Frame:
    """What is known of one depth image."""

    depth: np.ndarray
    noise: float  # of the inverse depth of single pixels
    scene: SegmentedDepth
    grounds: list[_Ground]


class ObjectLocator:
    """Measures boxes of a frame in three dimensions; keeps the rays of the camera."""

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self._rays = np.zeros((2, 0, 0), np.float32)

    def locate(
        self,
        depth: np.ndarray,
        boxes: np.ndarray,
        shape: tuple[int, ...],
        scene: SegmentedDepth | None = None,
    ) -> list[ObjectPosition | None]:
        """Positions of boxes in an image of `shape`; None where too little was measured.

        `depth` is in metres, of the same view. `scene` is what a depth proposer found in it;
        without one support surfaces are searched for here.
        """
        if not len(boxes):
            return []
        if self._rays.shape[1:] != depth.shape:
            self._rays = self.calibration.rays(*depth.shape)
        scene = scene or self._segmented(depth)
        grounds = [self._ground(plane, scene) for plane in scene.planes]
        scale = np.array([depth.shape[1] / shape[1], depth.shape[0] / shape[0]] * 2)
        frame = _Frame(depth, pixel_noise(depth[::2]), scene, grounds)
        segments = _matching_segments(np.asarray(boxes), scene)
        return [
            self._locate(frame, box * scale, segment)
            for box, segment in zip(np.asarray(boxes, np.float64), segments, strict=True)
        ]

    def _segmented(self, depth: np.ndarray) -> SegmentedDepth:
        calibration, aspect = self.calibration, depth.shape[0] / depth.shape[1]
        camera = CameraView(
            calibration.focal_x,
            calibration.focal_y * aspect,
            calibration.centre_x,
            calibration.centre_y,
        )
        surfaces = measure_surfaces(depth, camera)
        support = find_support(surfaces, _MIN_HEIGHT, None)
        return SegmentedDepth(support.planes if support else [], surfaces.inverse, None)

    def _ground(self, plane: Plane, scene: SegmentedDepth) -> _Ground:
        """The plane with the camera's own rays: distortion bends what the proposer saw."""
        rows, columns = np.nonzero(plane.inliers[::_GROUND_STEP, ::_GROUND_STEP])
        rows, columns = _GROUND_STEP * rows, _GROUND_STEP * columns
        stride = self._rays.shape[2] // plane.inliers.shape[1]
        # A pixel of the reduced image is the mean of the first and the middle one of its block.
        first = self._rays[:, stride * rows, stride * columns].astype(np.float64)
        middle = self._rays[:, stride * rows + stride // 2, stride * columns + stride // 2]
        x, y = (first + middle) / 2
        w = scene.inverse[rows, columns].astype(np.float64)
        use = np.isfinite(x) & (w > 0)
        if use.sum() < 3:
            return _Ground(plane.normal.astype(np.float64), plane.distance, plane.hull)
        a = np.stack([x[use], y[use], np.ones(use.sum())], 1)
        fitted = np.linalg.lstsq(a.T @ a, a.T @ w[use], rcond=None)[0]
        length = float(np.linalg.norm(fitted))
        return _Ground(-fitted / length, 1 / length, plane.hull)

    def _locate(self, frame: _Frame, box: np.ndarray, segment: int) -> ObjectPosition | None:
        depth, scene = frame.depth, frame.scene
        rows, columns, stride = _grid(box, depth.shape)
        if not rows.size or not columns.size:
            return None
        z, noise = _surface(depth, rows, columns, frame.noise)
        x, y = self._rays[:, rows[:, None], columns]
        use = (z > 0) & np.isfinite(x)
        reduced = depth.shape[1] // scene.inverse.shape[1]
        if segment:
            use &= scene.label_at(rows // reduced, columns // reduced) == segment
        points = np.stack([x[use] * z[use], y[use] * z[use], z[use]], 1).astype(np.float64)
        if len(points) < _FEWEST:
            return None
        foot = rows[-1] // reduced, columns[len(columns) // 2] // reduced
        ground = _below(frame.grounds, points, foot)
        inner = _inner(use)[use] if not segment else None
        pitch = stride * self._pitch(depth.shape)
        found = _measure(points, noise[use], ground, pitch, inner)
        if found is None and ground is not None and use.mean() > _MEASURED:
            # Flat, or held before the camera so that it is the largest surface itself.
            found = _measure(points, noise[use], None, pitch, inner)
        if found is not None and _cut_off(box, depth.shape):
            found = replace(found, error=float(np.hypot(found.error, found.size.max() / 2)))
        return found

    def _pitch(self, shape: tuple[int, ...]) -> float:
        """Width of a pixel at unit distance."""
        return 1 / (self.calibration.focal_x * shape[1])


def _matching_segments(boxes: np.ndarray, scene: SegmentedDepth) -> np.ndarray:
    """Numbers of the segments that boxes were made of; 0 where there is none."""
    if scene.segments is None or not len(scene.segments.boxes):
        return np.zeros(len(boxes), int)
    same = iou(boxes, scene.segments.boxes)
    best = same.argmax(1)
    return np.where(same.max(1) >= _SAME_BOX, scene.segments.numbers[best], 0)


def _grid(box: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows and columns inside a box, so many that they are enough; and their spacing."""
    left, top = np.maximum(np.floor(box[:2]), 0).astype(int)
    right, bottom = np.minimum(np.ceil(box[2:]), shape[::-1]).astype(int)
    stride = max(1, int(np.sqrt(max(0, right - left) * max(0, bottom - top) / _POINTS)))
    return np.arange(top, bottom, stride), np.arange(left, right, stride), stride


def _cut_off(box: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether a box ends where the image does: the object may go on outside."""
    return bool((box[:2] < 1).any() or (box[2:] > np.array(shape[::-1]) - 1).any())


def _surface(
    depth: np.ndarray, rows: np.ndarray, columns: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """Depth at pixels, averaged with neighbours of the same surface, and its noise (m).

    0 where nothing was measured, and for flying pixels: those agree with the pixels along the
    edge that they are at, but with neither of those across it.
    """
    last_row, last_column = depth.shape[0] - 1, depth.shape[1] - 1
    grid = rows[:, None]
    z = np.nan_to_num(depth[grid, columns], nan=0.0, posinf=0.0, neginf=0.0)
    sigma = np.float32(noise) * z * z
    tolerance = _AGREE * z + 4 * sigma
    total, count = z.copy(), np.ones_like(z)
    agrees = np.zeros((2, *z.shape), bool)
    for axis, step in ((0, -1), (0, 1), (1, -1), (1, 1)):
        down, right = (step, 0) if axis == 0 else (0, step)
        other = depth[np.clip(grid + down, 0, last_row), np.clip(columns + right, 0, last_column)]
        near = (np.abs(other - z) < tolerance) & (other > 0)
        total += np.where(near, other, 0)
        count += near
        agrees[axis] |= near
    return np.where(agrees.all(0) & (z > 0), total / count, 0), sigma / np.sqrt(count)


def _below(grounds: list[_Ground], points: np.ndarray, foot: tuple[int, int]) -> _Ground | None:
    """The highest surface that points are over; the first if they are over none."""
    over = [
        ground
        for ground in grounds
        if ground.hull[min(foot[0], len(ground.hull) - 1), min(foot[1], ground.hull.shape[1] - 1)]
        and np.median(points @ ground.normal) + ground.distance > -_GAP
    ]
    return min(over, key=lambda ground: ground.distance, default=grounds[0] if grounds else None)


def _inner(use: np.ndarray) -> np.ndarray:
    """The middle half of a box."""
    middle = np.zeros(use.shape, bool)
    height, width = use.shape
    middle[height // 4 : height - height // 4, width // 4 : width - width // 4] = True
    return middle


def _measure(
    points: np.ndarray,
    noise: np.ndarray,
    ground: _Ground | None,
    pitch: float,
    inner: np.ndarray | None,
) -> ObjectPosition | None:
    """The box around an object's points; `inner` is given where these may be of others, too."""
    up = np.array([0.0, -1.0, 0.0]) if ground is None else ground.normal
    right, ahead = _level_axes(up)
    flat = np.stack([points @ right, points @ ahead], 1)
    height = points @ up + (0 if ground is None else ground.distance)
    keep = np.ones(len(points), bool)
    if ground is not None:
        # Noise of depth z moves a point along its ray: (distance / z) sigma of height.
        keep = height > np.maximum(_MIN_HEIGHT, 3 * noise * ground.distance / points[:, 2])
    if inner is not None and (keep & inner).any():
        start = float(np.median(flat[keep & inner, 1]))
        keep &= _connected(flat[:, 1], keep, start, _GAP + 4 * float(np.median(noise)))
    spacing = pitch * float(np.median(points[:, 2]))
    keep[keep] = _dense(flat[keep], _CELL * spacing)
    if keep.sum() < _FEWEST:
        return None
    flat, height, sigma = flat[keep], height[keep], float(np.median(noise[keep]))
    low, high = _range(height)
    if ground is not None:
        flat = _completed(flat, height, high - 2 * sigma, ground)
        if low < max(_HANGS + 4 * sigma, _HANGING_SHARE * high):
            low = 0.0
    turn, least, most = _footprint(flat)
    # Pixels are seen up to their middle; without a surface they lie side by side and above each
    # other, on it side by side and behind each other.
    sides = most - least + spacing * (1 if ground is not None else np.abs(turn[0]))
    if ground is None:
        low, high = low - spacing / 2, high + spacing / 2
    middle = turn @ ((least + most) / 2)
    centre = right * middle[0] + ahead * middle[1]
    centre = centre + up * ((low + high) / 2 - (0 if ground is None else ground.distance))
    axes = np.stack([right, ahead], 1) @ turn
    if sides[1] > sides[0]:
        sides, axes = sides[::-1], np.stack([axes[:, 1], -axes[:, 0]], 1)
    size = np.array([*sides, high - low])
    error = _expected_error(size, sigma, spacing / 2, float(centre[2]), ground)
    return ObjectPosition(
        centre, np.column_stack([axes, up]), size, error, int(keep.sum()), ground is not None
    )


def _range(values: np.ndarray) -> tuple[float, float]:
    """From the first to the last, without outliers."""
    ordered, cut = np.sort(values), int(len(values) * _TAIL / 100)
    return float(ordered[cut]), float(ordered[-1 - cut])


def _dense(flat: np.ndarray, cell: float) -> np.ndarray:
    """Points that have others around them, seen from above."""
    if not len(flat):
        return np.zeros(0, bool)
    column, row = ((flat - flat.min(0)) / cell).astype(int).T + 1
    shape = row.max() + 2, column.max() + 2
    count = np.bincount(row * shape[1] + column, minlength=shape[0] * shape[1]).reshape(shape)
    wide = count[:, :-2] + count[:, 1:-1] + count[:, 2:]
    around = wide[:-2] + wide[1:-1] + wide[2:]
    return around[row - 1, column - 1] >= min(_DENSE, len(flat) // 4)


def _completed(flat: np.ndarray, height: np.ndarray, top: float, ground: _Ground) -> np.ndarray:
    """Points with those of the hidden side, if the object is round."""
    # Coordinates along the line of sight on the ground; the camera is at the origin of both.
    middle = np.median(flat, 0)
    away = float(np.linalg.norm(middle))
    if away < 1e-3:  # seen from straight above
        return flat
    sight = middle / away
    along = flat @ sight
    near, far = _range(along)
    at_the_back = height[along > far - 0.1 * (far - near)]
    if not len(at_the_back) or np.median(at_the_back) > _ROUND * top:
        return flat
    rise = ground.distance - top / 2
    axis = near + (far - near) / (1 + rise / np.hypot(rise, away))
    return np.concatenate([flat, flat + 2 * np.outer(axis - along, sight)])


def _level_axes(up: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two directions along the support: right and ahead as the camera sees it."""
    ahead = np.array([0.0, 0.0, 1.0]) - up * up[2]
    if np.linalg.norm(ahead) < 1e-3:  # seen from straight above
        ahead = np.array([0.0, -1.0, 0.0]) + up * up[1]
    ahead /= np.linalg.norm(ahead)
    return np.cross(ahead, up), ahead


def _connected(values: np.ndarray, keep: np.ndarray, start: float, gap: float) -> np.ndarray:
    """Those that are reached from a value without a gap."""
    ordered = np.sort(values[keep])
    breaks = ordered[:-1][np.diff(ordered) > gap]
    ends = ordered[1:][np.diff(ordered) > gap]
    least = ends[ends <= start].max(initial=-np.inf)
    most = breaks[breaks >= start].min(initial=np.inf)
    return (values >= least) & (values <= most)


def _footprint(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Axes [2, 2] (columns) of the rectangle of least area, and its range along them."""
    some = flat[:: max(1, len(flat) // _ORIENTING)]
    c, s = np.cos(_ANGLES), np.sin(_ANGLES)
    along = some @ np.stack([np.concatenate([c, -s]), np.concatenate([s, c])])
    spread = along.max(0) - along.min(0)
    best = int((spread[: len(c)] * spread[len(c) :]).argmin())
    turn = np.array([[c[best], -s[best]], [s[best], c[best]]])
    ranges = np.array([_range(values) for values in (flat @ turn).T])
    return turn, ranges[:, 0], ranges[:, 1]


def _expected_error(
    size: np.ndarray, noise: float, half_pixel: float, z: float, ground: _Ground | None
) -> float:
    """Of the centre (m): pixels, noise, calibration, and sides that the camera does not see."""
    hidden = (0.06 if ground is not None else 0.25) * float(np.linalg.norm(size))
    return float(np.linalg.norm([half_pixel, noise, 0.003 * z, hidden]))
