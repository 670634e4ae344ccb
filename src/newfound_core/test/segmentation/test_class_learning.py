# SPDX-License-Identifier: Apache-2.0
"""A tiny network that knows red, green and blue learns yellow."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError, DataError, TrainingError
from newfound_core.learning.job import JobState, LearningOptions
from newfound_core.learning.validation import validate
from newfound_core.models import load_model, save_model
from newfound_core.segmentation.class_learning import (
    LearningConfig,
    learn_class,
    mask_of,
    save_learned,
    split_reference,
)
from newfound_core.segmentation.growth import without_class
from newfound_core.segmentation.metrics import Confusion
from newfound_core.segmentation.samples import LabelledImage, compute_samples
from newfound_core.segmentation.segmenter import Segmenter
from newfound_core.segmentation.training import TrainingConfig, fit, learn_step

from .conftest import LABELS, PREPROCESSING, scene

TRAINING = TrainingConfig(iterations=40, batch_size=6, learning_rate=5e-3, frozen=0, save_every=10)
LEARNING = LearningConfig(TRAINING, variants=2)
IDENTITY = np.arange(256, dtype=np.uint8)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A checkpoint that knows three colours."""
    from newfound_core.backbones import build_backbone
    from newfound_core.segmentation.network import SegmentationNetwork

    from .conftest import CONFIG

    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet20", width=0.25)
    network = SegmentationNetwork(backbone, len(LABELS), CONFIG)
    images = [LabelledImage(*scene(LABELS[1:], seed)) for seed in range(24)]
    samples = compute_samples(network, images, PREPROCESSING, frozen=0, variants=1)
    fit(network, samples, IDENTITY, replace(TRAINING, iterations=100))
    folder = tmp_path_factory.mktemp("trained") / "c"
    return load_model(save_model(folder, network, LABELS, PREPROCESSING))


def new_images(count, also=LABELS[1:], first=100):
    """Images of yellow things, of which alone the masks know."""
    pairs = [scene([*also, "yellow"], seed) for seed in range(first, first + count)]
    return [rgb for rgb, _ in pairs], [(m == len(also) + 1).astype(np.uint8) for _, m in pairs]


def learn(trained, count=8, config=LEARNING, label="yellow", **more):
    images, masks = new_images(count)
    return learn_class(trained, label, images, masks, config, **more)


def test_a_class_is_learned_and_the_others_are_kept(trained, tmp_path):
    before = copy.deepcopy(trained.model.state_dict())
    reference = [LabelledImage(*scene(LABELS[1:], seed)) for seed in range(50, 54)]
    longer = replace(LEARNING, training=replace(TRAINING, iterations=100))
    learned = learn(trained, count=16, config=longer, reference=reference)
    assert learned.labels == (*LABELS, "yellow")
    assert learned.network.config.steps == (3, 1)
    assert all(t.equal(before[n]) for n, t in trained.model.state_dict().items())
    assert learned.accuracy["yellow"].after > 0.3
    assert learned.accuracy["yellow"].before is None
    assert learned.accuracy["red"].after > learned.accuracy["red"].before - 0.15
    assert validate(learned.accuracy, LearningOptions())[0] is JobState.DONE

    folder = save_learned(tmp_path / "learned", learned, trained, "yellow")
    segmenter = Segmenter.load(folder)
    confusion = Confusion(5)
    for seed in range(200, 206):
        rgb, truth = scene(["red", "green", "blue", "yellow"], seed)
        confusion.add(truth, segmenter.segment(rgb).mask)
    assert (confusion.iou()[1:] > 0.2).all()


def test_fine_tuning_forgets_what_mib_keeps(trained):
    def red_after(rule):
        config = replace(LEARNING, training=replace(TRAINING, rule=rule))
        found = learn(trained, config=config).accuracy
        return found["red"].after

    assert red_after("mib") > red_after("ft") + 0.2


def test_half_of_the_reference_keeps_classes_that_the_new_images_do_not_show(trained):
    reference = [LabelledImage(*scene(LABELS[1:], seed)) for seed in range(50, 62)]
    images, masks = new_images(8, also=("red",))

    def kept(config):
        found = learn_class(trained, "yellow", images, masks, config, reference=reference)
        assert (found.accuracy["green"].samples < 12) == config.distil_reference
        return found.accuracy["green"].after + found.accuracy["blue"].after

    assert kept(LEARNING) > kept(replace(LEARNING, distil_reference=False)) + 0.05


def test_every_class_stays_among_the_frames_that_are_checked():
    def frame(*shown):
        labels = np.array([[0, 255, *shown]], np.uint8)
        return LabelledImage(np.zeros((*labels.shape, 3), np.uint8), labels)

    frames = [frame(1), frame(1, 2), frame(1), frame(2), frame(1), frame(1), frame(3)]
    checked, kept = split_reference(frames)
    assert [n for n, f in enumerate(frames) if any(f is k for k in kept)] == [2, 3, 5]
    assert {n for f in checked for n in np.unique(f.labels).tolist()} == {0, 1, 2, 3, 255}
    assert split_reference([]) == ([], [])


def test_a_job_that_is_killed_and_resumed_ends_with_the_same_network(trained, tmp_path):
    class KilledError(Exception):
        pass

    def kill(phase, done, total):
        if (phase, done) == ("training", 25):
            raise KilledError

    whole = learn(trained)
    with pytest.raises(KilledError):
        learn(trained, state=tmp_path, on_progress=kill)
    phases = []
    resumed = learn(trained, state=tmp_path, on_progress=lambda *now: phases.append(now))
    assert ("training", 20, 40) not in phases
    assert ("training", 21, 40) in phases
    for name, tensor in whole.network.state_dict().items():
        assert resumed.network.state_dict()[name].equal(tensor), name


def test_pixels_that_are_not_known_are_not_learned(trained):
    images, masks = new_images(8)
    half = [m.copy() for m in masks]
    for mask in half:
        mask[:, 32:] = 255
    learned = learn_class(trained, "yellow", images, half, LEARNING)
    assert 0 <= learned.accuracy["yellow"].after <= 1


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("red", "'red' is known already"),
        ("Red", "'red' is known already"),
        ("Background", "'background' is known already"),
        (" ", "is empty"),
        ("red ", "ends with a space"),
        ("a\nb", "cannot be printed"),
        (300 * "x", "at most 100"),
    ],
)
def test_a_class_that_exists_or_has_no_usable_name_is_refused(trained, label, message):
    with pytest.raises(DataError, match=message):
        learn(trained, label=label)


def test_a_network_that_knows_nothing_learns_its_first_class(trained, tmp_path):
    model = trained.model
    for _ in LABELS[1:]:
        model = without_class(model, 1)
    folder = save_model(tmp_path / "nothing", model, ("background",), PREPROCESSING)
    longer = replace(LEARNING, training=replace(TRAINING, iterations=100))
    learned = learn(load_model(folder), config=longer)
    assert learned.labels == ("background", "yellow")
    assert learned.accuracy["yellow"].after > 0.1


def test_one_image_is_too_few(trained):
    with pytest.raises(DataError, match="1 images are too few"):
        learn(trained, count=1)


def bad(trained, change, count=4):
    images, masks = new_images(count)
    change(images, masks)
    learn_class(trained, "yellow", images, masks, LEARNING)


def test_a_mask_of_another_size_is_refused(trained):
    def change(images, masks):
        masks[1] = masks[1][:20]

    with pytest.raises(DataError, match="mask 1 has 64x20 pixels, its image 64x48"):
        bad(trained, change)


def test_a_missing_mask_is_refused(trained):
    with pytest.raises(DataError, match="4 images have 3 masks"):
        bad(trained, lambda images, masks: masks.pop())


def test_a_label_outside_of_the_list_is_refused(trained):
    def change(images, masks):
        masks[2][0, 0] = 9

    with pytest.raises(DataError, match="mask 2: 1 pixels are labelled 9"):
        bad(trained, change)


def test_an_image_with_an_empty_mask_is_a_negative_but_all_of_them_are_refused(trained):
    def one(images, masks):
        masks[0][:] = 0

    def nearly_all(images, masks):
        for mask in masks[1:]:
            mask[:] = 0

    bad(trained, one)
    with pytest.raises(DataError, match="1 of 4 masks show the class"):
        bad(trained, nearly_all)


def test_a_step_without_background_is_refused_with_the_reason(trained):
    def change(images, masks):
        for mask in masks:
            mask[mask == 0] = 255

    with pytest.raises(DataError, match="no pixel is labelled background"):
        bad(trained, change)


def test_huge_images_are_reduced_before_anything_is_computed(trained):
    images, masks = new_images(2)
    large = [np.ascontiguousarray(i.repeat(60, 0).repeat(60, 1)) for i in images]
    masks = [m.repeat(60, 0).repeat(60, 1) for m in masks]
    config = replace(LEARNING, training=replace(TRAINING, iterations=1))
    found = learn_class(trained, "yellow", large, masks, config)
    assert found.images_used == 2


def test_a_new_class_without_a_pixel_and_a_loss_that_explodes_are_reported(trained):
    images = [LabelledImage(*scene(["red"], seed)) for seed in range(3)]
    samples = compute_samples(trained.model, images, PREPROCESSING, frozen=0)
    table = np.where(IDENTITY == 1, 4, IDENTITY).astype(np.uint8)
    with pytest.raises(DataError, match="no pixel shows the new class number 5"):
        learn_step(trained.model, samples, table, 2, TRAINING)
    wild = replace(TRAINING, learning_rate=1e30, optimizer="sgd")
    with pytest.raises(TrainingError, match="no longer a finite number"):
        fit(copy.deepcopy(trained.model), samples, IDENTITY, wild)


def test_options_that_make_no_sense_are_refused(trained):
    with pytest.raises(ConfigError, match="rule must be one of"):
        TrainingConfig(rule="magic")
    with pytest.raises(ConfigError, match="iterations must be at least 1, got 0"):
        TrainingConfig(iterations=0)
    with pytest.raises(ConfigError, match="frozen must not be negative, got -1"):
        TrainingConfig(frozen=-1)
    with pytest.raises(ConfigError, match="variants must not be negative"):
        LearningConfig(variants=-1)
    images = [LabelledImage(*scene(["red"], 0))]
    samples = compute_samples(trained.model, images, PREPROCESSING, frozen=1)
    with pytest.raises(ConfigError, match="1 frozen parts, not 0"):
        fit(trained.model, samples, IDENTITY, TRAINING)


def test_the_mask_of_a_network_and_of_a_segmenter_are_the_same(trained):
    rgb, _ = scene(["red", "blue"], 7)
    expected = Segmenter(trained).segment(rgb).mask
    assert (mask_of(trained.model, rgb, PREPROCESSING) == expected).all()
