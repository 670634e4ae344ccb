# SPDX-License-Identifier: Apache-2.0
"""Classes of pixels learned from job folders, as on the robot."""

from dataclasses import replace
from itertools import count

import cv2
import numpy as np
import pytest

from newfound_core.errors import ConfigError
from newfound_core.knowledge.segments import forgetting, read_segments, renaming
from newfound_core.learning.job import Job, JobState, SegmentOptions
from newfound_core.learning.job_folder import JobFolder
from newfound_core.learning.learn import InterruptedJobError, finish_job
from newfound_core.segmentation.reference import read_reference
from newfound_core.testing import COLOURS, coloured_scene, tiny_segments

YELLOW = {**COLOURS, "yellow": (230, 220, 40)}
LABELS = ("background", *COLOURS)
QUICK = SegmentOptions(iterations=20, variants=0, frozen_stages=0, max_class_loss=1.0)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A knowledge base's folder, with a network that was trained for a moment."""
    made = tmp_path_factory.mktemp("base")
    tiny_segments(made / "current", skilled=True)
    (made / "jobs").mkdir()
    return made


NUMBERS = count(1)


def png(values):
    return cv2.imencode(".png", values[..., ::-1] if values.ndim == 3 else values)[1].tobytes()


def make_job(root, options=QUICK, images=6, changed=None):
    pairs = [coloured_scene(YELLOW, 100 + number) for number in range(images)]
    pictures = {f"{n}.png": png(rgb) for n, (rgb, _) in enumerate(pairs)}
    masks = {f"{n}.png": png((m == 4).astype(np.uint8)) for n, (_, m) in enumerate(pairs)}
    masks |= {f"{name}.png": png(mask) for name, mask in (changed or {}).items()}
    path = root / "jobs" / f"{next(NUMBERS):06d}"
    return JobFolder.create(path, Job("yellow", options=options), pictures, masks)


def test_a_job_keeps_its_kind_and_its_masks(root, tmp_path):
    folder = make_job(root)
    job = folder.read()
    assert (job.kind, job.options) == ("segment", QUICK)
    assert [folder.mask_path(p).is_file() for p in folder.image_paths()] == [True] * 6
    with pytest.raises(ConfigError, match="kind 'segment' has 0 masks"):
        JobFolder.create(tmp_path / "a", job, {"0.png": b"x"})
    with pytest.raises(ConfigError, match="kind 'class' has 1 masks"):
        JobFolder.create(tmp_path / "b", Job("x"), {"0.png": b"x"}, {"0.png": b"x"})


def test_a_learned_version_has_the_class_and_frames_to_check_it_on(root, tmp_path):
    folder = make_job(root)
    result = finish_job(folder.path)
    assert (result.state, result.images_used) == (JobState.DONE, 6)
    assert set(result.accuracy) == set(YELLOW)
    assert result.accuracy["red"].before is not None
    learned = read_segments(folder.result_path)
    assert learned.labels == (*LABELS, "yellow")
    assert learned.reference == {"background": 4, "red": 4, "green": 4, "blue": 4, "yellow": 1}
    new = read_reference(folder.result_path, 5)[-1]
    assert set(np.unique(new.labels)) == {4, 255}  # what else is there, nobody has said

    smaller = tmp_path / "smaller"
    smaller.mkdir()
    assert tuple(forgetting(folder.result_path, "green")(smaller)) == (
        "background", "red", "blue", "yellow"
    )  # fmt: skip
    assert read_segments(smaller).reference == {"background": 4, "red": 4, "blue": 4, "yellow": 1}


def test_a_renamed_class_keeps_its_number_its_network_and_its_frames(root, tmp_path):
    assert tuple(renaming(root / "current", "green", "olive")(tmp_path)) == (
        "background", "red", "olive", "blue"
    )  # fmt: skip
    before, after = read_segments(root / "current"), read_segments(tmp_path)
    assert after.reference == {"background": 4, "red": 4, "olive": 4, "blue": 4}
    assert after.loaded.metadata.provenance.command == "rename"
    tensors = before.loaded.model.state_dict()
    assert all(t.equal(tensors[name]) for name, t in after.loaded.model.state_dict().items())


def test_an_interrupted_job_ends_with_the_same_weights(root):
    longer = replace(QUICK, iterations=54)  # a state is saved after 50
    whole, resumed = make_job(root, longer, 3), make_job(root, longer, 3)
    finish_job(whole.path)
    calls = count()
    with pytest.raises(InterruptedJobError):
        finish_job(resumed.path, interrupted=lambda: next(calls) > 56)
    assert (resumed.resume_path).is_dir()
    resumed.result_path.mkdir()  # killed while it wrote
    assert finish_job(resumed.path).state is JobState.DONE
    name = "model.safetensors"
    assert (whole.result_path / name).read_bytes() == (resumed.result_path / name).read_bytes()
    assert (resumed.result_path / "reference").is_dir()


def test_a_class_that_is_not_recognised_is_rejected(root):
    options = SegmentOptions(iterations=1, variants=0)
    result = finish_job(make_job(root, options).path)
    assert (result.state, result.reason) == (JobState.REJECTED, "not_recognised")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"0": np.full((48, 64), 9, np.uint8)}, "labelled 9"),
        ({"0": np.ones((9, 9), np.uint8)}, "9x9 pixels, its image 64x48"),
        ({str(n): np.zeros((48, 64), np.uint8) for n in range(6)}, "0 of 6 masks show"),
        ({str(n): np.ones((48, 64), np.uint8) for n in range(6)}, "labelled background"),
    ],
)
def test_masks_that_do_not_fit_fail_the_job_with_the_reason(root, changed, reason):
    result = finish_job(make_job(root, changed=changed).path)
    assert (result.state, result.reason) == (JobState.FAILED, "bad_images")
    assert reason in result.message


def test_knowledge_of_another_kind_fails_the_job(root, tmp_path):
    from newfound_core.testing import tiny

    tiny(tmp_path / "current")
    (tmp_path / "jobs").mkdir()
    assert finish_job(make_job(tmp_path).path).reason == "bad_knowledge"
