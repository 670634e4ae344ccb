# SPDX-License-Identifier: Apache-2.0
"""The contract: one set of tests that every method passes."""

import json

import pytest
import torch

from newfound_core.errors import CheckpointError, ConfigError, DataError
from newfound_core.open_world.heads import HEADS, build_head, head_from_options
from newfound_core.open_world.learner import learn_step
from newfound_core.open_world.memory import Memory, MemoryConfig
from newfound_core.open_world.metrics import evaluate
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.step_config import StepConfig

OPTIONS = {
    "ncm": {},
    "nno": {"thresholds": "leave_one_class_out"},
    "deepnno": {"threshold_from": "held_out"},
    "bdoc": {},
    "ridge_lda": {},
}
CONFIG = StepConfig(epochs=15, batch_size=32, learning_rate=0.02, clip_gradient=5.0)

every_method = pytest.mark.parametrize("method", sorted(HEADS))


def fitted(method, points, **options):
    """A head that knows three classes, with means and thresholds from the same points."""
    head = build_head(method, 5, **options)
    head.extend(["cup", "fork", "lamp"])
    head.begin_step()
    features = points.features.float()
    head.refit([(features, points.labels)], features_changed=True)
    head.fit_thresholds(features, points.labels)
    head.end_step()
    return head


@every_method
def test_it_learns_rejects_extends_keeps_and_survives_a_checkpoint(method, toy):
    model = toy.model(method, **OPTIONS[method])
    memory = Memory(MemoryConfig(size=60, held_out_share=0.2))
    first = [s for label in toy.classes[:3] for s in toy.samples(label)]
    step = learn_step(model, first, memory, toy.inputs, CONFIG)
    step = learn_step(step.model, toy.samples("shoe"), step.memory, toy.inputs, CONFIG)
    model = step.model
    assert model.labels == toy.classes
    assert model.head.steps == 2

    known = [s for label in toy.classes for s in toy.samples(label, seed=9)]
    unseen = known + toy.far()
    images = toy.batch(unseen)
    decision = model.decide(images)
    metrics = evaluate(toy.labels_of(unseen, model.labels), decision)
    assert metrics.closed_world_without_rejection > 0.95
    assert metrics.closed_world_with_rejection > 0.6
    assert metrics.open_set > 0.9
    assert metrics.auroc > 0.95

    options = json.loads(json.dumps(model.options()))
    tensors = {key: value.clone() for key, value in model.state_dict().items()}
    again = OpenWorldModel.from_options(toy.model(method, seed=5).backbone, options)
    again.load_tensors(tensors)
    other = again.decide(images)
    for name in ("label", "nearest", "score", "distance", "rejection_threshold"):
        assert torch.equal(getattr(other, name), getattr(decision, name))


@every_method
def test_decisions_name_the_right_classes_and_reject_what_is_far(method, points):
    head = fitted(method, points)
    decision = head.decide(torch.cat([points.means.float(), torch.full((2, 5), 1e3)]))
    assert decision.label.tolist() == [0, 1, 2, -1, -1]
    assert decision.known.tolist() == [True, True, True, False, False]
    assert (decision.score[:3].min() > decision.score[3:].max()).item()
    assert (decision.distance[3:] > decision.rejection_threshold[3:]).all()


@every_method
def test_a_nan_feature_is_unknown_and_touches_no_other(method, points):
    head = fitted(method, points)
    features = points.means.float().clone()
    features[1, 2] = torch.nan
    decision = head.decide(features)
    assert decision.label.tolist() == [0, -1, 2]
    assert decision.nearest[1] == -1
    assert not decision.score.isnan().any()
    assert not decision.distance.isnan().any()


@every_method
def test_a_head_that_knows_nothing_calls_everything_unknown(method):
    head = build_head(method, 5)
    assert head.decide(torch.zeros(3, 5)).label.tolist() == [-1, -1, -1]
    head.extend(["cup"])  # announced, but without samples
    assert head.decide(torch.zeros(3, 5)).label.tolist() == [-1, -1, -1]


@every_method
def test_no_features_give_no_decisions(method, points):
    assert len(fitted(method, points).decide(torch.zeros(0, 5))) == 0


@every_method
def test_a_class_without_samples_is_never_decided_for(method, points):
    head = fitted(method, points)
    head.extend(["shoe"])
    head.rejection_threshold[:] = torch.inf  # reject nothing
    assert 3 not in head.decide(torch.zeros(4, 5)).label.tolist()


@every_method
def test_forgetting_a_class_shifts_the_others_and_keeps_their_decisions(method, points):
    head = fitted(method, points)
    before = head.decide(points.features.float())
    assert head.forget("fork") == 1
    assert head.labels == ["cup", "lamp"]
    after = head.decide(points.features.float())
    stays = before.nearest != 1
    assert torch.equal(after.nearest[stays], before.nearest[stays].div(2, rounding_mode="floor"))
    if method != "ridge_lda":  # whose classes share what is known of views
        assert torch.equal(after.rejection_threshold[stays], before.rejection_threshold[stays])
    with pytest.raises(DataError, match="cannot forget 'fork': the known classes are cup, lamp"):
        head.forget("fork")


@every_method
def test_forgetting_the_last_class_and_learning_again_works(method, points):
    head = fitted(method, points)
    for label in list(head.labels):
        head.forget(label)
    assert not head.decide(points.features.float()).known.any()
    head.extend(["cup"])
    head.refit([(torch.ones(3, 5), torch.zeros(3, dtype=torch.int64))], features_changed=True)
    assert head.decide(torch.ones(1, 5)).nearest.tolist() == [0]


@every_method
@pytest.mark.parametrize("label", ["cup", "", "  ", None])
def test_labels_must_be_new_and_say_something(method, points, label):
    with pytest.raises(DataError):
        fitted(method, points).extend([label])


@every_method
def test_the_loss_has_the_right_gradient(method, points):
    head = fitted(method, points).double()
    features = points.features[:8].clone().requires_grad_()
    old = points.features[:8] + 0.3

    def loss(f):
        return head.loss(f, points.labels[:8], old)["total"]

    if method in (
        "ncm",
        "nno",
        "bdoc",
        "ridge_lda",
    ):  # their unit, the batch's deviation, has no gradient
        total = loss(features)
        (gradient,) = torch.autograd.grad(total, features)
        assert gradient.isfinite().all()
        assert gradient.abs().sum() > 0
    else:
        assert torch.autograd.gradcheck(loss, features)


@every_method
def test_a_damaged_sample_in_a_training_batch_does_not_spread(method, points):
    head = fitted(method, points)
    features = points.features.float().clone()
    features[5] = torch.nan
    features.requires_grad_()
    loss = head.loss(features, points.labels, points.features.float())["total"]
    loss.backward()
    head.observe(features.detach(), points.labels)
    assert loss.isfinite()
    assert features.grad is not None
    assert features.grad.isfinite().all()
    assert all(tensor.isfinite().all() for tensor in head.state_dict().values())


@every_method
def test_a_class_met_for_the_first_time_in_a_batch_can_be_trained_on(method, points):
    head = fitted(method, points)
    head.extend(["shoe", "never seen"])
    labels = points.labels.clone()
    labels[:4] = 3
    features = points.features.float().requires_grad_()
    loss = head.loss(features, labels)["total"]
    loss.backward()
    assert loss.isfinite()
    assert head.means.seen.tolist() == [True, True, True, True, False]


@every_method
def test_a_batch_of_one_sample_has_a_finite_loss(method, points):
    features = points.features[:1].float().requires_grad_()
    fitted(method, points).loss(features, points.labels[:1])["total"].backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()


@every_method
def test_unchanged_features_add_to_the_means_instead_of_replacing_them(method, points):
    head = fitted(method, points)
    mean = head.means.value[0].clone()
    head.refit([(torch.zeros(8, 5), torch.zeros(8, dtype=torch.int64))], features_changed=False)
    torch.testing.assert_close(head.means.value[0], mean / 2)  # eight samples before, eight now
    assert head.means.count.tolist() == [16, 8, 8]


@every_method
def test_many_classes_are_decided_by_shortlist_as_without(method):
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(500, 64, generator=generator)
    labels = torch.arange(500)
    heads = [build_head(method, 64, shortlist=k) for k in (0, 8)]
    for head in heads:
        head.extend([str(i) for i in range(500)])
        head.refit([(means, labels)], features_changed=True)
        head.rejection_threshold[:] = 2.0
    near = means[:40] + 0.05 * torch.randn(40, 64, generator=generator)
    features = torch.cat([near, 30 * torch.ones(2, 64)])
    full, short = (head.decide(features) for head in heads)
    assert torch.equal(full.label, short.label)
    torch.testing.assert_close(full.distance, short.distance, rtol=1e-3, atol=1e-3)


@every_method
def test_a_state_of_the_wrong_form_is_refused(method, points):
    head = fitted(method, points)
    options = head.options()

    def load(change):
        tensors = {key: value.clone() for key, value in head.state_dict().items()}
        change(tensors)
        head_from_options(options).load_tensors(tensors)

    load(lambda tensors: None)
    with pytest.raises(CheckpointError, match="'rejection_threshold' is missing"):
        load(lambda tensors: tensors.pop("rejection_threshold"))
    with pytest.raises(CheckpointError, match="'extra' is not expected"):
        load(lambda tensors: tensors.update(extra=torch.zeros(1)))
    with pytest.raises(CheckpointError, match="3 classes of dimension 5 need"):
        load(lambda tensors: tensors.update(rejection_threshold=torch.zeros(4)))
    with pytest.raises(CheckpointError, match="holds NaN"):
        load(lambda tensors: tensors["means.value"].fill_(torch.nan))


@every_method
def test_options_of_the_wrong_form_are_refused(method, points):
    options = fitted(method, points).options()
    with pytest.raises(CheckpointError, match="steps"):
        head_from_options({k: v for k, v in options.items() if k != "steps"})
    with pytest.raises(CheckpointError, match="no option named colour"):
        head_from_options({**options, "config": {**options["config"], "colour": 1}})
    with pytest.raises(CheckpointError, match="no open-world method"):
        head_from_options({**options, "method": "magic"})


@every_method
@pytest.mark.parametrize(
    "options", [{"reject_when": "never"}, {"choose_from": "hat"}, {"shortlist": -1}]
)
def test_senseless_options_are_refused(method, options):
    with pytest.raises(ConfigError):
        build_head(method, 5, **options)


def test_unknown_methods_and_options_are_named():
    with pytest.raises(ConfigError, match="there are ncm, nno, deepnno, bdoc"):
        build_head("magic", 5)
    with pytest.raises(ConfigError, match="colour"):
        build_head("ncm", 5, colour=1)
    with pytest.raises(ConfigError, match="takes a BdocConfig"):
        HEADS["bdoc"](5, HEADS["ncm"].config_type())


@every_method
def test_features_of_the_wrong_length_are_named(method, points):
    with pytest.raises(DataError, match=r"expected \[N, 5\]"):
        fitted(method, points).decide(torch.zeros(2, 4))
