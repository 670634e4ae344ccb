# SPDX-License-Identifier: Apache-2.0
"""mDA against independent code in double precision."""

from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.backbones import Backbone
from newfound_core.errors import BackboneError, ConfigError, DataError, TrainingError
from newfound_core.latent import (
    LatentClassifier,
    LatentConfig,
    LatentOutput,
    require_classes,
    used_domains,
)
from newfound_core.normalization import AssignmentContext, DomainBatchNorm2d
from newfound_core.onda import Onda, OndaConfig

EPS = 1e-5


def block(inside, outside):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, 2, 1), nn.BatchNorm2d(outside), nn.ReLU())


def small_backbone():
    torch.manual_seed(0)
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    stages = OrderedDict(a=block(6, 8), b=block(8, 8))
    return Backbone(block(3, 6), stages, head, stem_channels=6, feature_dim=8)


def model(source=2, target=3, **options):
    made = LatentClassifier(small_backbone(), 4, LatentConfig(source, target, **options))
    return made.double()


def batch(source=6, target=8):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(source + target, 3, 16, 16, generator=generator, dtype=torch.float64)
    is_target = torch.arange(source + target) >= source
    return images, torch.arange(source + target) % 4, is_target


def entropy(p):
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


# The layer -----------------------------------------------------------------------------------


def test_the_layers_gradients_are_those_of_the_thesis():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(7, 2, 3, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    w = torch.rand(7, 3, generator=generator, dtype=torch.float64)
    w = (w / w.sum(1, keepdim=True)).requires_grad_()
    g = torch.randn(7, 2, 3, 3, generator=generator, dtype=torch.float64)
    context = AssignmentContext()
    layer = DomainBatchNorm2d(2, 3, context, affine="none", eps=EPS).double()
    with context.use(w):
        (layer(x) * g).sum().backward()
    found = _thesis_gradients(x.detach().numpy(), w.detach().numpy(), g.numpy())
    np.testing.assert_allclose(x.grad.numpy(), found[0], atol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), found[1], atol=1e-11)


def _thesis_gradients(x, w, g):
    """Appendix A, one channel after the other; alpha also divides by the positions."""
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    positions = x.shape[2] * x.shape[3]
    for c in range(x.shape[1]):
        xc, gc = x[:, c].reshape(len(x), -1), g[:, c].reshape(len(x), -1)
        for d in range(w.shape[1]):
            alpha = (w[:, d] / (w[:, d].sum() * positions))[:, None]
            mean = (alpha * xc).sum()
            variance = (alpha * (xc - mean) ** 2).sum()
            hat = (xc - mean) / np.sqrt(variance + EPS)
            a = (w[:, d, None] * gc).sum() / (w[:, d].sum() * positions)
            b = (w[:, d, None] * gc * hat).sum() / (w[:, d].sum() * positions)
            each = w[:, d, None] / np.sqrt(variance + EPS) * (gc - a - hat * b)
            dx[:, c] += each.reshape(len(x), *x.shape[2:])
            ratio = variance / (variance + EPS)
            dw[:, d] += (hat * (gc - a) - 0.5 * (hat**2 - ratio) * b).sum(1)
    return dx, dw


# The loss --------------------------------------------------------------------------------------


def test_the_loss_has_the_terms_of_the_thesis():
    config = {"target_entropy_weight": 0.3, "certainty_weight": 0.2, "balance_weight": 0.7}
    made = model(**config, domain_loss_weight=0.4)
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    domain_logits = torch.randn(9, 5, generator=generator, dtype=torch.float64)
    is_target = torch.tensor([0, 1, 0, 1, 1, 0, 0, 1, 0], dtype=torch.bool)
    labels = torch.tensor([0, 9, 1, 9, 9, 3, 2, 9, 1])
    domains = torch.tensor([1, -1, -1, -1, -1, 0, -1, -1, -1])
    output = LatentOutput(logits, domain_logits, domain_logits.softmax(1))
    terms = made.loss_terms(output, labels, is_target, domains)

    p = np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(1, keepdims=True)
    side = {"s": domain_logits.numpy()[:, :2], "t": domain_logits.numpy()[:, 2:]}
    f = {k: np.exp(v) / np.exp(v).sum(1, keepdims=True) for k, v in side.items()}
    source, target = np.array([0, 2, 5, 6, 8]), np.array([1, 3, 4, 7])
    expected = {
        "classes": -np.mean([np.log(p[i, labels[i]]) for i in source]),
        "target_entropy": 0.3 * np.mean([entropy(p[i]) for i in target]),
        "source_domains": 0.4 * -np.mean([np.log(f["s"][0, 1]), np.log(f["s"][5, 0])]),
        "certainty": 0.2
        * (
            np.mean([entropy(f["s"][i]) for i in (2, 6, 8)])
            + np.mean([entropy(f["t"][i]) for i in target])
        ),
        "balance": -0.7 * (entropy(f["s"][source].mean(0)) + entropy(f["t"][target].mean(0))),
    }
    assert terms.keys() == expected.keys()
    for name, value in expected.items():
        assert float(terms[name]) == pytest.approx(value, abs=1e-12), name


def test_one_domain_on_each_side_has_no_domain_terms_and_no_branch():
    made = model(1, 1)
    images, labels, is_target = batch()
    terms = made.loss_terms(made(images, is_target), labels, is_target)
    assert len(made.branches) == 0
    assert float(terms["certainty"].detach()) == float(terms["balance"].detach()) == 0


def test_a_symmetric_start_has_no_gradient_of_the_domain_logits():
    made = model()
    for side in made.branches.values():
        nn.init.zeros_(side.branch.linear.weight)
        nn.init.zeros_(side.branch.linear.bias)
    images, labels, is_target = batch()
    output = made(images, is_target)
    torch.testing.assert_close(output.domain_weights[-1, 2:], torch.full((3,), 1 / 3).double())
    sum(made.loss_terms(output, labels, is_target).values()).backward()
    for side in made.branches.values():
        assert float(side.branch.linear.weight.grad.abs().max()) < 1e-12
        assert float(side.branch.linear.bias.grad.abs().max()) < 1e-12


# Assignment -----------------------------------------------------------------------------------


def test_statistics_of_source_and_target_never_mix():
    made = model()
    images, _, is_target = batch()
    weights = made(images, is_target).domain_weights.detach()
    assert bool((weights[is_target, :2] == 0).all())
    assert bool((weights[~is_target, 2:] == 0).all())
    torch.testing.assert_close(weights.sum(1), torch.ones(14).double())


def test_a_known_domain_fixes_the_weights_and_the_unknown_ones_stay_soft():
    made = model()
    images, _, is_target = batch()
    domains = torch.full((14,), -1)
    domains[0], domains[7] = 1, 2
    weights = made(images, is_target, domains).domain_weights.detach()
    assert weights[0].tolist() == [0, 1, 0, 0, 0]
    assert weights[7].tolist() == [0, 0, 0, 0, 1]
    assert 0 < float(weights[1, 0]) < 1
    with pytest.raises(DataError, match="0 to 1, got 3 to 3"):
        made(images, is_target, torch.full((14,), 3))


def test_in_evaluation_images_are_of_the_target_unless_the_source_is_asked_for():
    made = model().eval()
    for layer in made.domain_layers():
        layer.running_mean.normal_()
    images = batch()[0]
    with torch.no_grad():
        assert bool((made(images).domain_weights[:, :2] == 0).all())
    assert not torch.equal(made.classify(images), made.classify(images, side="source"))
    alone = made.for_target()
    torch.testing.assert_close(alone.classify(images), made.classify(images))
    assert alone.domains == 3
    with pytest.raises(DataError, match="source domains of this model were dropped"):
        alone.classify(images, side="source")


def test_one_image_of_a_stream_is_answered_as_in_a_batch():
    made = model(0, 3).eval()
    for layer in made.domain_layers():
        layer.running_mean.normal_()
    images = batch()[0][:2]
    with torch.no_grad():
        torch.testing.assert_close(made(images[:1]).logits, made(images).logits[:1])


# Guards ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), [(3, 8), (6, 5)])
def test_a_batch_with_less_than_two_images_a_domain_is_refused(source, target):
    images, _, is_target = batch(source, target)
    with pytest.raises(DataError, match=r"too small for \d (source|target) domains"):
        model()(images, is_target)


def test_training_without_the_side_of_each_image_is_refused():
    with pytest.raises(DataError, match="is_target"):
        model()(batch()[0])


def test_collapsed_classes_stop_the_training_with_a_sentence():
    require_classes(torch.tensor([0.4, 0.3, 0.2, 0.1]))
    with pytest.raises(TrainingError, match=r"97% of its images are taken for class 1"):
        require_classes(torch.tensor([0.01, 0.97, 0.01, 0.01]))


def test_used_domains_count_a_dead_one_as_none():
    assert used_domains(torch.tensor([[1.0, 0, 0], [0, 1, 0]])) == pytest.approx(2)
    assert used_domains(torch.full((4, 3), 1 / 3)) == pytest.approx(3)


def test_a_network_without_normalisation_behind_its_stem_is_refused():
    backbone = small_backbone()
    backbone.stages = nn.Sequential(OrderedDict(a=nn.Conv2d(6, 8, 3)))
    with pytest.raises(BackboneError, match="no batch normalisation behind its stem"):
        LatentClassifier(backbone, 4, LatentConfig(1, 2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_domains": 0}, "at least 1 target domain"),
        ({"certainty_weight": -1.0}, "certainty_weight"),
        ({"balance_weight": float("nan")}, "balance_weight"),
        ({"assignment": "dice"}, "branch or centres"),
    ],
)
def test_options_that_cannot_be_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        LatentConfig(**changes)


# ONDA on top ----------------------------------------------------------------------------------


def test_onda_moves_only_layers_with_domains_and_only_the_domain_of_the_frames():
    made = model(0, 3).float().eval()
    branch = made.branches["target"].branch.linear
    nn.init.zeros_(branch.weight)
    with torch.no_grad():
        branch.bias.copy_(torch.tensor([0.0, 200.0, 0.0]))  # every frame is of the second domain
    before = {name: value.clone() for name, value in made.state_dict().items()}
    onda = Onda(made, OndaConfig.thesis(4, 0.5, layers="auto"))
    onda.replay(batch()[0].float()[:8])
    assert onda.status().updates == 2
    moved = {name for name, value in made.state_dict().items() if not value.equal(before[name])}
    assert moved == {f"backbone.stages.{s}.1.running_{k}" for s in "ab" for k in ("mean", "var")}
    for layer, name in zip(made.domain_layers(), ("a", "b"), strict=True):
        was = before[f"backbone.stages.{name}.1.running_mean"]
        assert layer.running_mean[[0, 2]].equal(was[[0, 2]])
        assert not layer.running_mean[1].equal(was[1])
