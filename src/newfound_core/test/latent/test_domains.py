# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.errors import DataError
from newfound_core.latent import LatentConfig, as_plain, clustered, from_source, re_estimate_domain
from newfound_core.stem_clusters import cluster_images


@pytest.fixture
def source():
    torch.manual_seed(0)
    made = Classifier(build_backbone("cifar_resnet20", width=0.25), 3, output_norm=True)
    return made.double().eval()


@pytest.fixture
def images():
    """Twelve pictures, of which the last four are bright."""
    generator = torch.Generator().manual_seed(1)
    found = torch.randn(12, 3, 16, 16, generator=generator, dtype=torch.float64)
    found[8:] = 0.3 * found[8:] + 2
    return found


def test_every_domain_begins_as_the_source(source, images):
    model = from_source(source, LatentConfig(2, 3))
    with torch.no_grad():
        torch.testing.assert_close(model(images).logits, source(images))
    torch.testing.assert_close(model.classify(images, "source"), source(images).softmax(1))


def test_clusters_have_the_statistics_of_their_own_images(source, images):
    clusters = cluster_images(source.backbone, [images[:5], images[5:]], 2)
    assert clusters.sizes == [8, 4]
    model = clustered(source, clusters, lambda indices: images[torch.from_numpy(indices)])
    # The first layer behind the stem sees what the source's sees.
    first = source.backbone.stages[0][0].conv1
    with torch.no_grad():
        inputs = first(source.backbone.stem(images)).numpy()
    layer = model.domain_layers()[0]
    for domain, own in enumerate((inputs[:8], inputs[8:])):
        np.testing.assert_allclose(layer.running_mean[domain], own.mean((0, 2, 3)), rtol=1e-6)
        variance = own.var((0, 2, 3), ddof=1)
        np.testing.assert_allclose(layer.running_var[domain], variance, rtol=1e-6)
    with torch.no_grad():
        weights = model(images).domain_weights
    assert weights.argmax(1).tolist() == [0] * 8 + [1] * 4


def test_an_image_takes_part_in_the_statistics_of_its_domain_alone(source, images):
    model = from_source(source, LatentConfig(0, 2, assignment="centres")).eval()
    before = [layer.running_mean[0].clone() for layer in model.domain_layers()]
    stem = source.backbone.stem.state_dict()
    assert re_estimate_domain(model, 1, [images[:4], images[:1], images[4:]]) == 12
    for layer, was in zip(model.domain_layers(), before, strict=True):
        assert layer.running_mean[0].equal(was)
        assert layer.momentum == 0.1
        assert not layer.training
    for name, value in model.backbone.stem.state_dict().items():
        assert value.equal(stem[name])


def test_one_domain_is_a_plain_network(source, images):
    model = from_source(source, LatentConfig(1, 1)).eval()
    re_estimate_domain(model, 1, [images])
    alone = model.for_target()
    plain = as_plain(alone)
    assert type(plain) is Classifier
    with torch.no_grad():
        torch.testing.assert_close(plain(images), alone(images).logits)
    with pytest.raises(DataError, match="2 domains"):
        as_plain(model)
