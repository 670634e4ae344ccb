# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from std_msgs.msg import Header

from newfound_nodes.debug_images import BAR, WIDTH, Chart, annotate, draw
from newfound_runtime.images import rgb_message, to_rgb


def bars(picture):
    """How many pixels are of the bars' colour."""
    return int((picture == np.array(BAR, np.uint8)).all(-1).sum())


def test_the_camera_image_is_in_the_middle_at_a_readable_size():
    rgb = np.full((48, 64, 3), (10, 20, 30), np.uint8)
    shown = annotate(rgb, "mug  93%", Chart("places", [0.1, 0.9], ["a", "b"]))
    assert shown.shape[1] == WIDTH
    assert (shown == (10, 20, 30)).all(-1).sum() == WIDTH * WIDTH * 48 // 64


@pytest.mark.parametrize("names", [("left", "right"), ()])
def test_a_bar_is_as_long_as_its_value(names):
    none, half, full = (bars(draw(Chart("", [v, 0.0], names))) for v in (0.0, 0.5, 1.0))
    lines = 2 * WIDTH if not names else 0  # narrow bars have a floor
    assert none <= lines
    assert half - none == pytest.approx((full - none) / 2, rel=0.1)


def test_values_beyond_the_scale_fill_their_bar_and_no_more():
    assert bars(draw(Chart("", [7.0], ["a"]))) == bars(draw(Chart("", [1.0], ["a"])))


@pytest.mark.parametrize("count", [0, 1, 8, 9, 52, 2000])
def test_any_number_of_bars_is_drawn(count):
    chart = Chart("Größe", [0.5] * count, [f"büro {n}" for n in range(count)])
    assert draw(chart).shape[1:] == (WIDTH, 3)


def test_the_message_holds_the_picture():
    rgb = np.random.default_rng(1).integers(0, 255, (5, 7, 3), dtype=np.uint8)
    np.testing.assert_array_equal(to_rgb(rgb_message(Header(frame_id="x"), rgb)), rgb)
