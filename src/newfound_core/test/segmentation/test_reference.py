# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest

from newfound_core.errors import DataError
from newfound_core.segmentation.reference import (
    counts,
    read_reference,
    without_class,
    write_reference,
)
from newfound_core.segmentation.samples import LabelledImage

from .conftest import LABELS, scene


@pytest.fixture
def frames():
    return [LabelledImage(*scene(LABELS[1:], seed)) for seed in range(3)]


def test_frames_come_back_with_their_labels_exact_and_their_pixels_nearly(frames, tmp_path):
    write_reference(tmp_path, frames)
    found = read_reference(tmp_path, len(LABELS))
    for frame, back in zip(frames, found, strict=True):
        assert (frame.labels == back.labels).all()
        assert abs(frame.rgb.astype(int) - back.rgb).mean() < 20  # noise suffers most by JPEG
    assert read_reference(tmp_path / "elsewhere", 4) == []


def test_a_forgotten_class_becomes_unlabelled_and_later_ones_move_up(frames):
    [made] = without_class(frames[:1], 2)
    before = frames[0].labels
    assert (made.labels[before == 2] == 255).all()
    assert (made.labels[before == 3] == 2).all()
    assert (made.labels[before <= 1] == before[before <= 1]).all()
    assert counts([made], ["background", "red", "blue"]) == {"background": 1, "red": 1, "blue": 1}


def test_damage_is_named(frames, tmp_path):
    write_reference(tmp_path, frames)
    with pytest.raises(DataError, match="2 classes"):
        read_reference(tmp_path, 2)
    (tmp_path / "reference/labels/001.png").write_bytes(b"no png")
    with pytest.raises(DataError, match=r"001\.png cannot be read"):
        read_reference(tmp_path, 4)
    write_reference(tmp_path / "b", [LabelledImage(f.rgb[:9], f.labels) for f in frames])
    with pytest.raises(DataError, match="pixels"):
        read_reference(tmp_path / "b", 4)
    (tmp_path / "reference/images/000.jpg").write_bytes(np.zeros(9, np.uint8).tobytes())
    with pytest.raises(DataError, match=r"000\.jpg cannot be read"):
        read_reference(tmp_path, 4)
