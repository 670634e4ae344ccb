# SPDX-License-Identifier: Apache-2.0
"""Scenarios: time lines of objects, light and camera on a workbench, or of rooms."""

from __future__ import annotations

from dataclasses import dataclass, replace

from newfound_sim.camera import CameraModel
from newfound_sim.clip import SeenObject, Truth
from newfound_sim.errors import ScenarioError
from newfound_sim.lights import Point
from newfound_sim.rooms.images import ROBOT_CAMERA
from newfound_sim.rooms.names import domain_name
from newfound_sim.rooms.walk import FOV
from newfound_sim.workbench import CameraPose, Domain, PlacedObject, camera_model


@dataclass(frozen=True)
class RenderSettings:
    """How a scenario is rendered, whatever it shows."""

    rate: float = 10.0  # frames per second
    width: int = 640
    height: int = 480
    seed: int = 0  # of all that is random
    samples: int = 24  # per pixel


@dataclass(frozen=True)
class Stay:
    """An object on the table from one time to another, in seconds."""

    thing: PlacedObject
    begin: float
    end: float

    def overlaps(self, other: Stay) -> bool:
        """Whether there is a moment at which both are on the table."""
        return self.begin < other.end and other.begin < self.end


@dataclass(frozen=True)
class LightChange:
    """The light drifts to another illumination; at once if it ends when it begins."""

    begin: float
    end: float
    to: str


@dataclass(frozen=True)
class CameraMove:
    """The camera glides to another pose."""

    begin: float
    end: float
    pose: CameraPose


@dataclass(frozen=True)
class Light:
    """The light at one moment: a share of the way from one illumination to the next."""

    name: str
    next: str
    share: float = 0.0

    @property
    def nearer(self) -> str:
        """The illumination that it resembles more."""
        return self.next if self.share >= 0.5 else self.name

    def mixture(self) -> dict[str, float]:
        """Weights of the illuminations; light adds up, so renderings do too."""
        if self.share == 0 or self.name == self.next:
            return {self.name: 1.0}
        return {self.name: 1 - self.share, self.next: self.share}


@dataclass(frozen=True)
class BenchKeyframe:
    """A state of the bench to render: objects, camera pose and one of the illuminations.

    Objects are numbers in the scenario, from 1. Equal keyframes are equal images.
    """

    objects: tuple[int, ...]
    light: str
    pose: CameraPose


@dataclass(frozen=True)
class WorkbenchScenario:
    """A workbench over time."""

    settings: RenderSettings
    duration: float
    camera: str
    background: str
    light: str
    pose: CameraPose
    stays: tuple[Stay, ...]
    changes: tuple[LightChange, ...] = ()
    moves: tuple[CameraMove, ...] = ()

    @property
    def frames(self) -> int:
        """How many frames there are."""
        return max(1, round(self.duration * self.settings.rate))

    @property
    def camera_model(self) -> CameraModel:
        """The camera model of all images."""
        return camera_model(self.camera)

    def objects_at(self, time: float) -> tuple[int, ...]:
        """The numbers, from 1, of the objects on the table."""
        return tuple(n for n, s in enumerate(self.stays, start=1) if s.begin <= time < s.end)

    def light_at(self, time: float) -> Light:
        """The light at a time."""
        now = Light(self.light, self.light)
        for change in self.changes:
            if time >= change.end:
                now = Light(change.to, change.to)
            elif time > change.begin:
                now = Light(now.name, change.to, _share(time, change.begin, change.end))
        return now

    def pose_at(self, time: float) -> CameraPose:
        """Where the camera is at a time."""
        now = self.pose
        for move in self.moves:
            if time >= move.end:
                now = move.pose
            elif time > move.begin:
                now = _between(now, move.pose, _ease(_share(time, move.begin, move.end)))
        return now

    def truth_at(self, time: float, objects: tuple[SeenObject, ...] = ()) -> Truth:
        """Ground truth at a time, given the visible objects."""
        light = self.light_at(time)
        domain = Domain(light.nearer, self.camera, self.background).name
        return Truth(objects, "", domain, light.name, light.next, round(light.share, 6))

    def keyframes_at(self, time: float) -> dict[BenchKeyframe, float]:
        """The keyframes to render for this time, with their weights in the image."""
        objects, pose = self.objects_at(time), self.pose_at(time)
        mixture = self.light_at(time).mixture()
        return {BenchKeyframe(objects, name, pose): share for name, share in mixture.items()}


@dataclass(frozen=True)
class Visit:
    """Some time in one room of the building."""

    category: str
    room: int  # which room of this category: its seed
    frames: int


@dataclass(frozen=True)
class RoomKeyframe:
    """A view to render: after `step` frames of a visit."""

    visit: int  # number of the visit, from 0
    step: int


@dataclass(frozen=True)
class RoomsScenario:
    """A robot that walks through rooms of a building under one lighting."""

    settings: RenderSettings
    building: str
    lighting: str
    visits: tuple[Visit, ...]

    @property
    def camera_model(self) -> CameraModel:
        """The camera model of all images."""
        return replace(ROBOT_CAMERA, fov_degrees=FOV)

    @property
    def frames(self) -> int:
        """How many frames there are."""
        return sum(visit.frames for visit in self.visits)

    def visit_at(self, time: float) -> RoomKeyframe:
        """The visit at a time, and its frame."""
        step = round(time * self.settings.rate)
        for number, visit in enumerate(self.visits):
            if step < visit.frames:
                return RoomKeyframe(number, step)
            step -= visit.frames
        raise ScenarioError(f"the scenario has ended before {time:g} s")

    def keyframes_at(self, time: float) -> dict[RoomKeyframe, float]:
        """The keyframe to render for this time."""
        return {self.visit_at(time): 1.0}

    def truth_at(self, time: float, objects: tuple[SeenObject, ...] = ()) -> Truth:
        """Ground truth at a time."""
        place = self.visits[self.visit_at(time).visit].category
        domain = domain_name(self.building, self.lighting)
        return Truth(objects, place, domain, self.lighting, self.lighting)


Scenario = WorkbenchScenario | RoomsScenario
Keyframe = BenchKeyframe | RoomKeyframe


def _share(time: float, begin: float, end: float) -> float:
    return (time - begin) / (end - begin)


def _ease(share: float) -> float:
    """Start and stop without a jerk."""
    return share * share * (3 - 2 * share)


def _between(a: CameraPose, b: CameraPose, share: float) -> CameraPose:
    def mixed(p: Point, q: Point) -> Point:
        x, y, z = ((1 - share) * u + share * v for u, v in zip(p, q, strict=True))
        return x, y, z

    return CameraPose(mixed(a.eye, b.eye), mixed(a.target, b.target))
