# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.learner import learn_step
from newfound_core.open_world.memory import Memory, MemoryConfig


@pytest.fixture
def blank(many):
    """A head that has a background and a calibration, and knows no class."""
    head = build_head("plda", 6)
    head.extend([str(i) for i in range(40)])
    head.fit_background(many.features[:, None], many.labels)
    head.refit([(many.features, many.labels)], features_changed=False)
    for label in list(head.labels):
        head.forget(label)
    return head


@pytest.fixture
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


def teach(head, views, names):
    before = len(head.labels)
    head.extend(names)
    labels = torch.arange(len(names)).repeat_interleave(views.shape[1]) + before
    head.refit([(views.flatten(0, 1), labels)], features_changed=False)
    head.fit_added_thresholds(views[:, :0].flatten(0, 1), labels[:0], before)


def test_a_head_without_classes_keeps_its_background_and_says_unknown(blank, many):
    assert blank.background_classes == 40
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


def test_learning_a_class_leaves_the_evidence_of_the_others_as_it_is(blank, many):
    teach(blank, many.apart[:2, :5], ["cup", "fork"])
    before = blank.evidence(many.apart[0])
    teach(blank, many.apart[2:3, :5], ["lamp"])
    assert torch.equal(blank.evidence(many.apart[0])[:, :2], before)
    blank.forget("lamp")
    assert torch.equal(blank.evidence(many.apart[0]), before)


def test_distance_and_threshold_agree_with_the_decision(blank, many):
    teach(blank, many.apart[:6, :3], list("abcdef"))
    decision = blank.decide(many.apart.flatten(0, 1))
    inside = decision.distance <= decision.rejection_threshold + 1e-4
    assert (inside == decision.known).float().mean() > 0.99


def test_further_views_of_a_class_replace_no_density_that_is_still_used(blank, many):
    teach(blank, many.apart[:1, :2], ["cup"])
    first = blank.evidence(many.apart[0])
    blank.refit(
        [(many.apart[0, 2:12], torch.zeros(10, dtype=torch.int64))], features_changed=False
    )
    assert blank.means.count.tolist() == [12]
    assert not torch.equal(blank.evidence(many.apart[0]), first)


def test_a_step_from_images_learns_a_background_and_later_steps_keep_it(toy):
    model = toy.model("plda")
    memory = Memory(MemoryConfig(size=60, held_out_share=0.2))
    first = [s for label in toy.classes[:3] for s in toy.samples(label)]
    step = learn_step(model, first, memory, toy.inputs)
    assert step.model.head.in_background.tolist() == [True] * 3
    later = learn_step(step.model, toy.samples("shoe"), step.memory, toy.inputs)
    assert later.model.head.in_background.tolist() == [True] * 3 + [False]
    assert torch.equal(later.model.head.projection, step.model.head.projection)


def test_options_without_meaning_are_refused():
    with pytest.raises(ConfigError, match="within_shrinkage"):
        build_head("plda", 6, within_shrinkage=2.0)
    with pytest.raises(ConfigError, match="directions"):
        build_head("plda", 6, directions=0)
