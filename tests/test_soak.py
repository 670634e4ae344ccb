# SPDX-License-Identifier: Apache-2.0
"""A short soak: `python -m studies.soak` is the long one."""

import pytest

from newfound_core.testing import tiny
from studies.soak import soak


@pytest.mark.slow
def test_adapting_for_a_while_takes_no_more_memory_and_answers_go_on(tmp_path):
    """Twenty seconds; a leak of one 160x120 image per frame would be 17 MB."""
    options = {"frames_per_update": 5, "balanced": True, "anchor": True}
    result = soak(tiny(tmp_path / "model"), 20.0, 15.0, 1.0, size=(160, 120), **options)
    answers = [sample["answers"] for sample in result["samples"]]
    assert answers[len(answers) // 2] > 10
    assert answers[-1] > answers[len(answers) // 2] + 10
    assert result["summary"]["memory_growth_mb"] < 8
    early, late = (result["summary"][f"processor_{when}_ms"] for when in ("early", "late"))
    assert 0 < late < 4 * early  # what an answer costs does not grow
