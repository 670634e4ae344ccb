# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.detection.light_shift import (
    LightShift,
    LightShiftConfig,
    estimate_shift,
    moved_head,
    moved_knowledge,
)
from newfound_core.errors import CheckpointError, ConfigError
from newfound_core.knowledge.contents import read_knowledge
from newfound_core.models import save_model
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.preprocessing import Preprocessing

LABELS = ["shipped", "cup", "lemon", "spanner"]
D = 16
RNG = np.random.default_rng(3)
MEANS = 10 * np.eye(4, D)  # far apart
LIGHT = RNG.normal(size=D) * 0.5  # its length is about 2
THRESHOLD = 3.0


@pytest.fixture
def knowledge(tmp_path):
    """Four classes, of which the last three were learned here, the third in a light of its own."""
    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet20", width=0.25).eval()
    assert backbone.feature_dim == D
    model = OpenWorldModel(backbone, build_head("ncm", D))
    model.head.extend(LABELS)
    model.head.means.update(torch.tensor(MEANS, dtype=torch.float32), torch.arange(4))
    model.head.rejection_threshold = torch.full((4,), THRESHOLD)
    read = read_knowledge(save_model(tmp_path / "m", model, LABELS, Preprocessing(16)))
    learned_in = {"cup": torch.zeros(D), "lemon": torch.full((D,), 0.1), "spanner": torch.zeros(D)}
    return replace(read, learned_in=learned_in)


def seen(label, light, count=6, noise=0.3):
    """Features of views of a class in a light."""
    number = LABELS.index(label)
    learned = 0.1 if label == "lemon" else 0.0
    views = MEANS[number] - learned + light + noise * RNG.normal(size=(count, D)) / 4
    return views


def tensor(*parts):
    return torch.tensor(np.concatenate(parts), dtype=torch.float32)


def test_the_shift_is_the_mean_over_classes_of_what_their_views_are_off(knowledge):
    cups, lemons = seen("cup", LIGHT, 9), seen("lemon", LIGHT, 3)
    found, classes = estimate_shift(knowledge, tensor(cups, lemons), 2)
    # By hand, in double precision: classes count alike, whatever the number of their views.
    expected = ((cups - MEANS[1]).mean(0) + (lemons - MEANS[2] + 0.1).mean(0)) / 2
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    assert classes == 2


def test_shipped_classes_and_unknown_things_say_nothing_about_the_light(knowledge):
    strange = np.full((5, D), 7.0)
    views = tensor(seen("cup", LIGHT), seen("spanner", LIGHT))
    alone, _ = estimate_shift(knowledge, views, 2)
    beside = torch.cat([views, tensor(seen("shipped", -LIGHT), strange)])
    among, _ = estimate_shift(knowledge, beside, 2)
    torch.testing.assert_close(among, alone)


def test_one_class_alone_is_not_enough_unless_it_may_be(knowledge):
    views = tensor(seen("cup", LIGHT))
    assert estimate_shift(knowledge, views, 2) is None
    assert estimate_shift(knowledge, views, 1) is not None


def test_things_that_the_light_had_made_unknown_are_recognised_again(knowledge):
    light = LIGHT * 3.2 / np.linalg.norm(LIGHT)  # beyond the thresholds of some views
    views = tensor(seen("cup", light, 20, 2.0), seen("spanner", light, 20, 2.0))
    before = knowledge.model.head.decide(views).label
    assert (before < 0).float().mean() > 0.3
    shift, _ = estimate_shift(knowledge, views, 2)
    after = moved_knowledge(knowledge, shift).model.head.decide(views).label
    assert (after == torch.tensor([1] * 20 + [3] * 20)).float().mean() > 0.9


def test_means_move_by_what_the_light_differs_from_theirs_and_shipped_ones_stay(knowledge):
    shift = torch.tensor(LIGHT, dtype=torch.float32)
    moved = moved_knowledge(knowledge, shift).model.head.means.value
    expected = MEANS + np.stack([np.zeros(D), LIGHT, LIGHT - 0.1, LIGHT])
    np.testing.assert_allclose(moved.numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(knowledge.model.head.means.value.numpy(), MEANS, atol=1e-6)


@pytest.mark.parametrize("method", ["ncm", "deepnno", "bdoc", "ridge_lda"])
def test_a_moved_head_decides_as_the_head_on_features_moved_back(method):
    torch.manual_seed(1)
    head = build_head(method, 8)
    head.extend(["a", "b", "c"])
    features, labels = torch.randn(60, 8) + 3, torch.arange(60) % 3
    head.begin_step()
    head.refit([(features + 2 * torch.eye(3, 8)[labels], labels)], features_changed=True)
    head.fit_thresholds(features, labels)
    head.decide(features)  # what is cached must not be served for the moved means
    offset = 0.3 * torch.randn(8)
    moved = moved_head(head, dict.fromkeys("abc", offset))
    expected = head.distances(features - offset)
    if method == "ridge_lda":  # whose unknown objects stay where they were
        assert not torch.equal(moved.distances(features), head.distances(features))
    else:
        torch.testing.assert_close(moved.distances(features), expected, atol=1e-3, rtol=1e-3)


def frames(label, light, count):
    return [
        tensor(seen(label, light, 2, 2.0), seen("spanner", light, 2, 2.0)) for _ in range(count)
    ]


def follow(light_shift, knowledge, shown):
    return [light_shift.update(knowledge) for frame in shown if light_shift.observe(frame)]


def test_the_shift_follows_from_light_to_light_and_back(knowledge):
    shift = LightShift(D)
    assert follow(shift, knowledge, frames("cup", LIGHT, 24))[-1]
    assert np.linalg.norm(shift.value.numpy() - LIGHT) < 0.5  # of about 2
    follow(shift, knowledge, frames("cup", 0.0, 30))
    assert np.linalg.norm(shift.value.numpy()) < 0.5
    assert shift.status().length < 0.05


def test_a_camera_that_stands_still_counts_once(knowledge):
    shift, (frame,) = LightShift(D), frames("cup", LIGHT, 1)
    assert not follow(shift, knowledge, [frame] * 50)
    assert shift.status().redundant == 49


def test_frames_that_are_not_finite_or_empty_do_not_count(knowledge):
    shift = LightShift(D)
    assert not shift.observe(torch.full((2, D), torch.nan))
    assert not shift.observe(torch.zeros(0, D))
    assert not shift.update(knowledge)


def test_frozen_it_stays_and_reset_it_is_nothing(knowledge):
    shift = LightShift(D)
    follow(shift, knowledge, frames("cup", LIGHT, 24))
    before = shift.value.clone()
    assert before.norm() > 1
    shift.freeze(True)
    assert not follow(shift, knowledge, frames("cup", -LIGHT, 24))
    assert torch.equal(shift.value, before)
    shift.freeze(False)
    shift.reset()
    assert not shift.value.any()


def test_a_saved_shift_is_gone_on_from_by_the_same_network_only(knowledge, tmp_path):
    shift, path = LightShift(D), tmp_path / "light.safetensors"
    follow(shift, knowledge, frames("cup", LIGHT, 24))
    shift.save(path, "network")
    other = LightShift(D)
    other.restore(path, "network")
    assert torch.equal(other.value, shift.value)
    with pytest.raises(CheckpointError, match="another network"):
        LightShift(D).restore(path, "retrained")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CheckpointError, match="cannot be read"):
        LightShift(D).restore(path, "network")


def test_wrong_options_are_refused():
    with pytest.raises(ConfigError, match="min_classes must be at least 1"):
        LightShiftConfig(min_classes=0)
