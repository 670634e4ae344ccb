# SPDX-License-Identifier: Apache-2.0
"""Conversion of frames and ground truth to ROS messages."""

import array
from collections.abc import Sequence

import numpy as np
from geometry_msgs.msg import Point, PoseStamped, Quaternion
from sensor_msgs.msg import CompressedImage, Image, RegionOfInterest
from std_msgs.msg import Header

from newfound_msgs.msg import GroundTruth, GroundTruthObject
from newfound_sim.clip import Matrix, SeenObject, Truth
from newfound_sim.player import Pixels


def image(header: Header, pixels: Pixels) -> Image:
    """Make an Image."""
    message = Image(
        header=header, height=pixels.height, width=pixels.width, encoding=pixels.encoding
    )
    message.step = len(pixels.data) // pixels.height
    message.data = pixels.data  # one copy; the constructor would make two
    return message


def compressed(header: Header, jpeg: array.array) -> CompressedImage:
    """Make a CompressedImage, with the format string of image_transport."""
    message = CompressedImage(header=header, format="rgb8; jpeg compressed bgr8")
    message.data = jpeg
    return message


def pinhole(width: int, height: int, fov_degrees: float) -> Matrix:
    """Compute K from the horizontal field of view, for square pixels."""
    focal = 0.5 * width / float(np.tan(np.radians(fov_degrees) / 2))
    return (focal, 0.0, (width - 1) / 2, 0.0, focal, (height - 1) / 2, 0.0, 0.0, 1.0)


def pose(header: Header, place_and_turn: Sequence[float]) -> PoseStamped:
    """Make a PoseStamped of x y z and the quaternion x y z w."""
    x, y, z, *turn = place_and_turn
    message = PoseStamped(header=header)
    message.pose.position = Point(x=x, y=y, z=z)
    message.pose.orientation = Quaternion(**dict(zip("xyzw", turn, strict=True)))
    return message


def ground_truth(header: Header, truth: Truth | None) -> GroundTruth:
    """Ground truth of a frame; the caller fills in time and frame number."""
    if truth is None:
        return GroundTruth(header=header, annotated=False)
    return GroundTruth(
        header=header,
        annotated=True,
        objects=[_object(seen) for seen in truth.objects],
        place=truth.place,
        domain=truth.domain,
        illumination=truth.illumination,
        next_illumination=truth.next_illumination,
        illumination_share=truth.illumination_share,
    )


def _object(seen: SeenObject) -> GroundTruthObject:
    left, top, width, height = seen.box
    region = RegionOfInterest(x_offset=left, y_offset=top, width=width, height=height)
    return GroundTruthObject(
        label=seen.label, instance=seen.instance, region=region, visible=seen.visible
    )
