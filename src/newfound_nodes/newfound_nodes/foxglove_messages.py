# SPDX-License-Identifier: Apache-2.0
"""Detections as annotations that Foxglove draws on an image, where foxglove_msgs is installed."""

from typing import Any

try:
    from foxglove_msgs.msg import Color, ImageAnnotations, Point2, PointsAnnotation, TextAnnotation
except ImportError:
    Color = ImageAnnotations = Point2 = PointsAnnotation = TextAnnotation = None

AVAILABLE = ImageAnnotations is not None
_KNOWN, _UNKNOWN = (0.16, 0.7, 0.24), (0.94, 0.47, 0.08)  # as in the debug image
_LOOP = 2  # LINE_LOOP
_LINE, _FONT = 2.0, 12.0  # pixels


def annotations(message: Any) -> Any:
    """A foxglove_msgs/ImageAnnotations of an OpenWorldDetections message: boxes and names."""
    made = ImageAnnotations()
    for each in message.detections:
        stamp, region = message.header.stamp, each.region
        left, top = float(region.x_offset), float(region.y_offset)
        right, bottom = left + region.width, top + region.height
        red, green, blue = _KNOWN if each.label else _UNKNOWN
        colour = Color(r=red, g=green, b=blue, a=1.0)
        corners = ((left, top), (right, top), (right, bottom), (left, bottom))
        box = PointsAnnotation(timestamp=stamp, type=_LOOP, outline_color=colour, thickness=_LINE)
        box.points = [Point2(x=x, y=y) for x, y in corners]
        text = TextAnnotation(timestamp=stamp, position=Point2(x=left, y=top), font_size=_FONT)
        text.text = each.label or each.unknown_id or "unknown"
        text.text_color, text.background_color = Color(r=1.0, g=1.0, b=1.0, a=1.0), colour
        made.points = [*made.points, box]
        made.texts = [*made.texts, text]
    return made
