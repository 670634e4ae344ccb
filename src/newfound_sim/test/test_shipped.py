# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_sim.clip import load_clip
from newfound_sim.shipped import find_source
from newfound_sim.sources import ClipSource, SourceError


def test_a_path_is_taken_as_it_is(tmp_path):
    assert find_source(str(tmp_path)) == tmp_path
    assert find_source("/nowhere/at/all").name == "all"


def test_the_demo_clip_is_installed_small_and_whole():
    folder = find_source("workbench_demo")
    clip = load_clip(folder)
    source = ClipSource(folder)
    assert source.rgb(0).shape == (clip.height, clip.width, 3)
    assert sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) < 6e6
    labels = [{o.label for o in clip.truths[f.truth].objects} for f in clip.frames]
    assert "teapot" not in labels[0]
    assert "teapot" in labels[-1]
    domains = [clip.truths[f.truth].domain for f in clip.frames]
    assert (domains[0], domains[-1]) == ("artificial_webcam_brown", "directed_webcam_brown")


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(SourceError, match="workbench_demo"):
        find_source("no_such_clip")
    with pytest.raises(SourceError, match="no source is given"):
        find_source("")
