# SPDX-License-Identifier: Apache-2.0
"""One question for each physical object: real tables, through detector, store and queue."""

import pytest

from studies.depth_proposals import osd_scenes
from studies.jittered_stills import Still
from studies.question_trial import trial
from tests import ROOT

CLIP = ROOT / "src" / "newfound_sim" / "clips" / "real_table"  # scenes of osd


@pytest.mark.slow
def test_each_object_of_a_real_table_is_asked_about_once_in_spite_of_jitter(tmp_path):
    stills = [Still(*scene) for scene in osd_scenes(CLIP, odd=False)][:3]
    robots = trial(stills, tmp_path, frames=12, proposer="depth")
    result = robots["no budget"].result(stills)
    assert result["per object"] <= 1.2
    answered = sum(result[key] for key in ("asked about", "recognised", "taken for known"))
    assert answered >= 0.8 * result["objects"]
    assert robots["default"].result(stills)["questions"] <= 6
