# SPDX-License-Identifier: Apache-2.0
import sys

import cv2
import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.errors import CheckpointError, DataError
from newfound_core.learning.class_learning import (
    MappedSamples,
    default_frozen_stages,
    load_knowledge,
    reduced,
    step_config,
)
from newfound_core.learning.job import LearningOptions
from newfound_core.models import save_model
from newfound_core.open_world.heads import CHOSEN, build_head
from newfound_core.open_world.memory import Memory, MemoryConfig, Sample
from newfound_core.open_world.memory_store import save_memory
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.preprocessing import Preprocessing


def test_a_job_overrides_what_was_chosen_for_the_method():
    config = step_config("bdoc", LearningOptions(epochs=3, batch_size=9, seed=4))
    assert (config.epochs, config.batch_size, config.seed) == (3, 9, 4)
    assert config.learning_rate == CHOSEN["bdoc"]["learning_rate"]
    assert step_config("bdoc", LearningOptions(learning_rate=0.5)).learning_rate == 0.5


@pytest.fixture
def saved(tmp_path, make_samples):
    """A checkpoint of an untrained network that knows one class."""
    torch.manual_seed(0)
    model = OpenWorldModel(build_backbone("cifar_resnet20", width=0.25), build_head("ncm", 16))
    model.head.extend(["a"])
    memory = Memory(MemoryConfig(9), {"a": make_samples("a", 4)})
    save_model(
        tmp_path / "with",
        model.eval(),
        ["a"],
        Preprocessing(16),
        write_memory=lambda folder: save_memory(memory, folder),
    )
    save_model(tmp_path / "without", model, ["a"], Preprocessing(16))
    return tmp_path


def test_a_checkpoint_comes_with_its_memory(saved):
    knowledge = load_knowledge(saved / "with")
    assert knowledge.model.labels == ["a"]
    assert len(knowledge.memory) == 4


def test_one_without_memory_cannot_go_on_learning(saved):
    with pytest.raises(CheckpointError, match="has no memory"):
        load_knowledge(saved / "without")


def test_mapped_samples_give_the_features_of_their_images_and_lead_back_to_them(saved, tmp_path):
    knowledge = load_knowledge(saved / "with")
    mapped = MappedSamples(knowledge, 2, tmp_path / "features")
    memory = mapped.map_memory(knowledge.memory, lambda done: None)
    features = torch.from_numpy(np.stack([s.image[0] for s in memory.samples("a")])).float()
    images = [s.pixels() for s in knowledge.memory.samples("a")]
    expected = knowledge.backbone(knowledge.loaded.prepare(images))
    torch.testing.assert_close(mapped.rest(features), expected, rtol=5e-3, atol=5e-3)
    back = mapped.originals(memory).samples("a")
    assert [s.source for s in back] == [s.source for s in knowledge.memory.samples("a")]
    for sample, image in zip(back, images, strict=True):
        np.testing.assert_array_equal(sample.pixels(), image)


def test_new_samples_have_variants_and_progress_is_told(saved, tmp_path, make_samples):
    mapped = MappedSamples(load_knowledge(saved / "with"), 2, tmp_path / "features")
    told = []
    found = mapped.map(make_samples("new", 30, size=20), 2, told.append)
    assert {len(s.image) for s in found} == {4}
    assert told == [25, 30]


def test_nothing_is_written_to_the_terminal_of_a_node(
    saved, tmp_path, make_samples, monkeypatch, capsys
):
    mapped = MappedSamples(load_knowledge(saved / "with"), 2, tmp_path / "features")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    mapped.map(make_samples("new", 3, size=20), 2)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("name", "frozen"), [("efficientnet_lite0", 7), ("cifar_resnet20", 3)])
def test_the_last_stage_learns(name, frozen):
    assert default_frozen_stages(build_backbone(name)) == frozen


def photograph(height: int, width: int) -> Sample:
    """A smooth picture, as a camera takes it."""
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([255 * y / height, 255 * x / width, np.full_like(x, 90)], axis=2)
    return Sample(cv2.imencode(".png", pixels.astype(np.uint8))[1].tobytes(), "mug", "camera")


@pytest.mark.parametrize("shape", [(3000, 4000), (640, 700), (2561, 641)])
def test_a_large_image_becomes_two_to_four_times_the_input_and_looks_the_same(shape):
    sample = photograph(*shape)
    kept = reduced(sample, 160)
    assert 320 <= min(kept.pixels().shape[:2]) < 640
    assert kept.pixels().shape[1] / kept.pixels().shape[0] == pytest.approx(
        shape[1] / shape[0], rel=0.01
    )
    assert (kept.label, kept.source) == ("mug", "camera")
    resized = Preprocessing(160).resized
    before, after = resized(sample.pixels()).astype(int), resized(kept.pixels()).astype(int)
    assert np.abs(before - after).mean() < 2, "what a JPEG costs"


@pytest.mark.parametrize("shape", [(100, 80), (639, 2000)])
def test_an_image_that_is_small_enough_stays_as_it_is_in_its_file(shape):
    sample = photograph(*shape)
    assert reduced(sample, 160) is sample


def test_what_cannot_be_decoded_is_an_error():
    with pytest.raises(DataError):
        reduced(Sample(b"junk", "mug"), 160)
