# SPDX-License-Identifier: Apache-2.0
import copy

import pytest
import torch

from newfound_core.errors import CheckpointError, ConfigError
from newfound_core.open_world.heads import build_head, head_from_options
from newfound_core.open_world.learner import learn_step
from newfound_core.open_world.memory import Memory, MemoryConfig


@pytest.fixture(scope="module")
def many():
    """Features of 52 classes in 6 dimensions, 20 views of each; the last 12 are set apart."""
    generator = torch.Generator().manual_seed(0)
    means = 4 * torch.randn(52, 6, generator=generator)
    views = means[:, None] + torch.randn(52, 20, 6, generator=generator)

    class Many:
        features = views[:40].flatten(0, 1)
        labels = torch.arange(40).repeat_interleave(20)
        apart = views[40:]

    return Many


@pytest.fixture(scope="module")
def trained(many):
    """A head that knows forty classes, with a calibration for classes of a few views."""
    head = build_head("ridge_lda", 6, few_views=True)
    head.extend([str(i) for i in range(40)])
    head.refit([(many.features, many.labels)], features_changed=False)
    return head


@pytest.fixture
def blank(trained):
    """A head that has a background and a calibration, and knows no class."""
    head = copy.deepcopy(trained)
    head.forget_names()
    return head


def teach(head, views, names):
    before = len(head.labels)
    head.extend(names)
    labels = torch.arange(len(names)).repeat_interleave(views.shape[1]) + before
    head.refit([(views.flatten(0, 1), labels)], features_changed=False)
    head.fit_added_thresholds(views[:, :0].flatten(0, 1), labels[:0], before)


def test_a_head_without_classes_keeps_its_background_and_says_unknown(blank, many):
    assert len(blank.other_means) == 40
    decision = blank.decide(many.apart[0])
    assert not decision.known.any()
    assert decision.confidence.tolist() == [1.0] * 20


def test_a_class_is_learned_from_three_views_and_others_stay_unknown(blank, many):
    teach(blank, many.apart[:6, :3], list("abcdef"))
    known = blank.decide(many.apart[:6, 3:].flatten(0, 1))
    truth = torch.arange(6).repeat_interleave(17)
    assert (known.label == truth).float().mean() > 0.85
    unknown = blank.decide(many.apart[6:].flatten(0, 1))
    assert (~unknown.known).float().mean() > 0.85


def test_the_confidence_of_decisions_is_the_share_of_right_ones(blank, many):
    teach(blank, many.apart[:6, :3], list("abcdef"))
    decision = blank.decide(many.apart[:, 3:].flatten(0, 1))
    truth = torch.arange(12).repeat_interleave(17)
    truth = torch.where(truth < 6, truth, -1)
    right = (decision.label == truth).float()
    assert abs(float(decision.confidence.mean() - right.mean())) < 0.06


def test_forgetting_a_class_leaves_no_trace(blank, many):
    teach(blank, many.apart[:2, :5], ["cup", "fork"])
    before = blank.evidence(many.apart[0])
    teach(blank, many.apart[2:3, :5], ["lamp"])
    assert not torch.equal(blank.evidence(many.apart[0])[:, :2], before)
    blank.forget("lamp")
    torch.testing.assert_close(blank.evidence(many.apart[0]), before, rtol=1e-9, atol=1e-9)


def test_forgetting_the_first_class_keeps_the_rows_of_the_others_theirs(blank, many):
    teach(blank, many.apart[:1, :5], ["cup"])
    teach(blank, many.apart[1:3, :5], ["fork", "lamp"])
    blank.forget("cup")
    assert blank.owner.unique().tolist() == [0, 1]
    other = blank.decide(many.apart[1:3].flatten(0, 1))
    assert (other.nearest == torch.arange(2).repeat_interleave(20)).float().mean() > 0.9


def test_views_that_come_in_two_parts_count_as_if_they_had_come_at_once(trained, many):
    def learned(parts):
        head = copy.deepcopy(trained)
        head.extend(["cup"])
        for part in parts:
            labels = torch.full((len(part),), 40)
            head.refit([(part, labels)], features_changed=False)
        return head.evidence(many.apart[1])

    views = many.apart[0]
    once, twice = learned([views[:12]]), learned([views[:5], views[5:12]])
    torch.testing.assert_close(once, twice, rtol=1e-4, atol=1e-3)


def test_distance_and_threshold_agree_with_the_decision(blank, many):
    teach(blank, many.apart[:6, :3], list("abcdef"))
    decision = blank.decide(many.apart.flatten(0, 1))
    inside = decision.distance <= decision.rejection_threshold + 1e-4
    assert (inside == decision.known).float().mean() > 0.99


def test_a_robots_own_classes_calibrate_it_once_they_are_more_than_those_before(blank, many):
    teach(blank, many.apart[:, :15], [f"thing {i}" for i in range(12)])
    held_out = many.apart[:, 15:].flatten(0, 1)
    labels = torch.arange(12).repeat_interleave(5)
    before = blank.calibration
    blank.fit_added_thresholds(held_out, labels, 0)
    assert blank.calibration == before  # 40 classes say more than 12
    blank.calibrated_on.fill_(10)
    blank.fit_added_thresholds(held_out, labels, 0)
    assert blank.calibration != before
    assert blank.calibration.weights == before.weights


def test_options_say_how_many_rows_a_state_has(blank, many):
    teach(blank, many.apart[:2, :5], ["cup", "fork"])
    tensors = {key: value.clone() for key, value in blank.state_dict().items()}
    again = head_from_options(blank.options())
    again.load_tensors(tensors)
    assert torch.equal(again.evidence(many.apart[0]), blank.evidence(many.apart[0]))
    options = blank.options() | {"sizes": {"rows": 3, "others": 40}}
    with pytest.raises(CheckpointError, match="deviations"):
        head_from_options(options).load_tensors(tensors)


def test_a_step_from_images_and_later_ones_share_one_set_of_directions(toy):
    model = toy.model("ridge_lda")
    memory = Memory(MemoryConfig(size=60, held_out_share=0.2))
    first = [s for label in toy.classes[:3] for s in toy.samples(label)]
    step = learn_step(model, first, memory, toy.inputs)
    later = learn_step(step.model, toy.samples("shoe"), step.memory, toy.inputs)
    assert torch.equal(later.model.head.basis, step.model.head.basis)
    assert later.model.head.owner.unique().tolist() == [0, 1, 2, 3]


def test_options_without_meaning_are_refused():
    with pytest.raises(ConfigError, match="within_shrinkage"):
        build_head("ridge_lda", 6, within_shrinkage=2.0)
    with pytest.raises(ConfigError, match="directions"):
        build_head("ridge_lda", 6, directions=0)
