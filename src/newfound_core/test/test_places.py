# SPDX-License-Identifier: Apache-2.0

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.backbones import Backbone, build_backbone
from newfound_core.errors import BackboneError, ConfigError, DataError
from newfound_core.normalization import DomainBatchNorm
from newfound_core.places import (
    BnClassifier,
    BsfClassifier,
    BsfConfig,
    PlaceFilter,
    PlaceOutput,
    WbnClassifier,
    WbnConfig,
    parameter_groups,
)

MODELS = {
    "bn": lambda backbone: BnClassifier(backbone, 4),
    "wbn*": lambda backbone: WbnClassifier(backbone, 4, 2),
    "wbn": lambda backbone: WbnClassifier(backbone, 4, 2, WbnConfig(latent=True)),
    "bsf": lambda backbone: BsfClassifier(backbone, 4, 2),
}
EVERY = pytest.mark.parametrize("name", MODELS)


def small_backbone():
    torch.manual_seed(0)
    stem = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.ReLU())
    stages = OrderedDict(a=nn.Sequential(nn.Conv2d(6, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU()))
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(8))
    return Backbone(stem, stages, head, stem_channels=6, feature_dim=8)


def batch(count=8):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(count, 3, 16, 16, generator=generator)
    labels = torch.arange(count) % 4
    return images, labels, torch.arange(count) % 2


@EVERY
def test_every_model_learns_a_batch_by_heart_and_categorizes_it(name):
    model = MODELS[name](small_backbone())
    images, labels, domains = batch()
    optimizer = torch.optim.SGD(parameter_groups(model, 0.05, 0.2), momentum=0.9)
    torch.manual_seed(0)
    for _ in range(150):
        optimizer.zero_grad()
        sum(model.loss_terms(model(images, domains), labels, domains).values()).backward()
        optimizer.step()
    prediction = model.eval().categorize(images)
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(8))
    assert (prediction.probabilities.argmax(1) == labels).float().mean() > 0.8
    if name != "bn":
        torch.testing.assert_close(prediction.domain_weights.sum(1), torch.ones(8))


@EVERY
def test_every_parameter_gets_a_gradient(name):
    model = MODELS[name](small_backbone())
    images, labels, domains = batch()
    torch.manual_seed(3)
    sum(model.loss_terms(model(images, domains), labels, domains).values()).backward()
    # A bias before a batch normalisation has none by construction.
    missing = [n for n, p in model.named_parameters() if p.grad is None]
    assert missing == []


@EVERY
def test_every_model_exports_with_its_branch(name):
    model = MODELS[name](small_backbone()).eval()
    images = batch(2)[0]
    exported = torch.export.export(model, (images,)).module()
    torch.testing.assert_close(exported(images).logits, model(images).logits)


def test_normalisation_is_plain_before_the_branch_and_per_domain_behind():
    model = WbnClassifier(small_backbone(), 4, 3)
    assert isinstance(model.backbone.stem[1], nn.BatchNorm2d)
    behind = [m for m in model.modules() if isinstance(m, DomainBatchNorm)]
    assert [m.domains for m in behind] == [3, 3]
    assert all(m.assignment is model.assignment for m in behind)


def test_one_domain_serves_one_image_as_any_number_of_them():
    model = WbnClassifier(small_backbone(), 4, 1).eval()
    images = batch()[0]
    each = torch.cat([model.categorize(image[None]).probabilities for image in images])
    torch.testing.assert_close(each, model.categorize(images).probabilities)


def test_a_network_without_normalisation_behind_the_branch_is_refused():
    with pytest.raises(BackboneError, match="alexnet has no batch normalisation behind"):
        WbnClassifier(build_backbone("alexnet"), 4, 2)
    model = WbnClassifier(build_backbone("alexnet"), 4, 1).eval()  # plain, as asked for
    assert model.categorize(torch.randn(1, 3, 64, 64)).domain_weights.tolist() == [[1.0]]


def test_training_with_labelled_domains_keeps_their_statistics_apart():
    model = WbnClassifier(small_backbone(), 4, 3)
    images, _, domains = batch()
    before = model.backbone.stages[0][1].running_mean.clone()
    output = model(images, domains)
    assert torch.equal(output.domain_weights, nn.functional.one_hot(domains, 3).float())
    after = model.backbone.stages[0][1].running_mean
    assert torch.equal(before[2], after[2])  # the third domain is not in the batch
    assert not torch.equal(after[0], after[1])


def test_latent_domains_learn_through_the_loss_of_the_places():
    model = WbnClassifier(small_backbone(), 4, 2, WbnConfig(latent=True))
    images, labels, _ = batch()
    output = model(images)
    terms = model.loss_terms(output, labels)
    terms["places"].backward()
    assert model.branch.linear.weight.grad.abs().sum() > 0
    assert terms["balance"].item() == terms["certainty"].item() == 0.0


def test_the_losses_are_the_weighted_sums_of_the_equations():
    logits, domain_logits = torch.randn(5, 4).double(), torch.randn(5, 2).double()
    labels, domains = torch.tensor([0, 1, 2, 3, 0]), torch.tensor([0, 1, 1, 0, 0])
    output = PlaceOutput(logits, domain_logits, domain_logits.softmax(1))

    def negative_log_likelihood(z, y):
        z = z.numpy()
        return -(z - np.log(np.exp(z).sum(1, keepdims=True)))[range(5), y].mean()

    places = negative_log_likelihood(logits, labels)
    known = negative_log_likelihood(domain_logits, domains)
    wbn = WbnClassifier(small_backbone(), 4, 2).loss_terms(output, labels, domains)
    bsf = BsfClassifier(small_backbone(), 4, 2).loss_terms(output, labels, domains)
    assert float(sum(wbn.values())) == pytest.approx(places + 1.0 * known)
    assert float(sum(bsf.values())) == pytest.approx(places + 0.5 * known)
    config = WbnConfig(latent=True, balance_weight=0.1, certainty_weight=0.2)
    latent = WbnClassifier(small_backbone(), 4, 2, config).loss_terms(output, labels)
    w = domain_logits.softmax(1).numpy()
    balance = -(w.mean(0) * np.log(w.mean(0))).sum()
    certainty = -(w * np.log(w)).sum(1).mean()
    expected = places - 0.1 * balance + 0.2 * certainty
    assert float(sum(latent.values())) == pytest.approx(expected)


def test_the_assignment_is_softened_at_test_time_only():
    config = WbnConfig(latent=True, assignment_smoothing=1.0)
    model = WbnClassifier(small_backbone(), 4, 2, config)
    images = batch()[0]
    trained = model(images)
    torch.testing.assert_close(trained.domain_weights, trained.domain_logits.softmax(1))
    torch.testing.assert_close(model.eval()(images).domain_weights, torch.full((8, 2), 0.5))
    model.config = replace(config, assignment_smoothing=0.0, assignment_temperature=10.0)
    output = model(images)
    torch.testing.assert_close(output.domain_weights, (output.domain_logits / 10).softmax(1))


def test_bsf_mixes_its_classifiers_by_the_printed_equation():
    model = BsfClassifier(small_backbone(), 4, 3).double().eval()
    images = batch()[0].double()
    output = model(images)
    with torch.no_grad():
        features = model.backbone(images).numpy()
        w = output.domain_logits.softmax(1).numpy()
    weight, bias = model.classifier.weight.detach().numpy(), model.classifier.bias.detach().numpy()
    z = np.zeros((8, 4))
    for j in range(3):
        f_j = features @ weight[:, j].T + bias[:, j]
        z += (1 - 0.25) * w[:, j, None] * f_j + 0.25 / 3 * f_j
    np.testing.assert_allclose(output.logits.detach(), z, rtol=1e-9)


def test_bsf_trains_with_the_label_or_with_all_classifiers_alike():
    model = BsfClassifier(small_backbone(), 4, 2, BsfConfig(uniform_share=0.25))
    torch.manual_seed(0)
    weights = model._weights(torch.zeros(4000, 2), torch.zeros(4000).long())
    uniform = (weights == 0.5).all(1)
    assert uniform.float().mean() == pytest.approx(0.25, abs=0.03)
    assert torch.equal(
        weights[~uniform], torch.tensor([[1.0, 0.0]]).expand(len(weights[~uniform]), 2)
    )


def test_labels_of_domains_are_asked_for_and_checked():
    model = WbnClassifier(small_backbone(), 4, 2)
    images = batch()[0]
    with pytest.raises(DataError, match="needs the domain label"):
        model(images)
    with pytest.raises(DataError, match="0 to 1"):
        model(images, torch.full((8,), 2))
    with pytest.raises(DataError, match="for 8 images"):
        model(images, torch.zeros(3).long())
    with pytest.raises(ConfigError, match="2 places"):
        BnClassifier(small_backbone(), 1)


def test_the_classifier_and_the_branch_learn_faster():
    model = WbnClassifier(small_backbone(), 4, 2)
    slow, fast = parameter_groups(model)
    assert (slow["lr"], fast["lr"]) == (1e-3, 1e-2)
    assert len(slow["params"]) + len(fast["params"]) == len(list(model.parameters()))
    assert any(p is model.branch.linear.weight for p in fast["params"])
    assert any(p is model.classifier.weight for p in fast["params"])


@pytest.mark.parametrize("backbone", ["efficientnet_lite0", "resnet18", "alexnet_bn"])
def test_a_converted_backbone_starts_from_what_it_computed(backbone):
    torch.manual_seed(0)
    network = build_backbone(backbone).eval()
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = network(images)
        model = WbnClassifier(network, 4, 3).eval()
        early = network.early_features(images)
        with model.assignment.use(torch.tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])):
            torch.testing.assert_close(network.from_early(early), expected, rtol=1e-3, atol=1e-3)


def test_two_steps_by_hand():
    places = PlaceFilter(2, change_probability=0.1)
    np.testing.assert_allclose(places.update([0.8, 0.2]), [0.8, 0.2])
    # Before the second frame: 0.9 * 0.8 + 0.1 * 0.2 = 0.74 and 0.26.
    both = np.array([0.74 * 0.6, 0.26 * 0.4])
    np.testing.assert_allclose(places.update([0.6, 0.4]), both / both.sum())


def test_one_wrong_frame_does_not_move_the_robot_but_a_new_room_does():
    places = PlaceFilter(3, change_probability=0.05)
    for _ in range(20):
        places.update([0.7, 0.2, 0.1])
    assert places.update([0.1, 0.8, 0.1]).argmax() == 0
    for _ in range(5):
        belief = places.update([0.1, 0.8, 0.1])
    assert belief.argmax() == 1


def test_a_certain_but_wrong_frame_is_recovered_from():
    places = PlaceFilter(2)
    places.update([1.0, 0.0])
    for _ in range(3):
        belief = places.update([0.0, 1.0])
    assert belief.argmax() == 1
    assert belief.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("bad", [[0.5, np.nan], [0.0, 0.0], [-1.0, 2.0], [1.0]])
def test_a_bad_observation_is_refused_and_changes_nothing(bad):
    places = PlaceFilter(2)
    before = places.update([0.9, 0.1])
    with pytest.raises(DataError):
        places.update(bad)
    np.testing.assert_array_equal(places.belief, before)


def test_reset_forgets():
    places = PlaceFilter(4)
    places.update([1.0, 0, 0, 0])
    places.reset()
    np.testing.assert_allclose(places.belief, 0.25)


def test_senseless_options_are_named():
    with pytest.raises(ConfigError, match="2 places"):
        PlaceFilter(1)
    with pytest.raises(ConfigError, match="change_probability"):
        PlaceFilter(3, 0.0)
