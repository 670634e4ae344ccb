# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from newfound_sim.clip import load_clip
from newfound_sim.clip_cache import ClipRenderError, cached_clip, default_cache_folder
from newfound_sim.errors import ScenarioError


@pytest.mark.slow
def test_a_scenario_is_rendered_once_and_kept(tiny_scenario, tmp_path):
    told: list[str] = []
    clip = cached_clip(tiny_scenario, tmp_path / "cache", 1, told.append)
    assert len(load_clip(clip).frames) == 10
    assert told[0].startswith(f"rendering {tiny_scenario} into")
    told.clear()
    assert cached_clip(tiny_scenario, tmp_path / "cache", 1, told.append) == clip
    assert told == []
    tiny_scenario.write_text(tiny_scenario.read_text().replace("seed: 3", "seed: 4"))
    with pytest.raises(ClipRenderError, match="was stopped"):
        cached_clip(tiny_scenario, tmp_path / "cache", 1, told.append, keep_going=lambda: False)
    assert len(list((tmp_path / "cache").iterdir())) <= 2, "another scenario has another folder"


def test_a_bad_scenario_is_refused_before_anything_is_started(tiny_scenario, tmp_path):
    tiny_scenario.write_text("kind: garden")
    with pytest.raises(ScenarioError, match=re.escape("tiny.yaml:1: kind must be one of")):
        cached_clip(tiny_scenario, tmp_path / "cache", 1, print)
    assert not (tmp_path / "cache").exists()


def test_a_rendering_that_fails_tells_why(tiny_scenario, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(ClipRenderError, match="cannot be written"):
        cached_clip(tiny_scenario, tmp_path / "cache", 1, lambda _: None)


def test_the_cache_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / "newfound" / "clips"
