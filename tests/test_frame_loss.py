# SPDX-License-Identifier: Apache-2.0
import pytest

from tests import ROOT
from tests.bench.frame_loss import measure


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(640, 480), (1280, 720)])
def test_no_camera_frame_is_lost_between_two_processes_with_our_profile(width, height):
    result = measure(str(ROOT / "config/fastdds.xml"), seconds=3, width=width, height=height)
    assert result["sent"] == 90
    assert result["lost"] == 0
