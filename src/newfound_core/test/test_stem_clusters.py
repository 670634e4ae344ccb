# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.errors import ConfigError, DataError
from newfound_core.stem_clusters import (
    cluster_images,
    cluster_statistics,
    k_means,
    measure_stem,
    stem_statistics,
)


def heaps(sizes=(20, 12, 8), seed=0):
    generator = np.random.default_rng(seed)
    points = [generator.normal(10 * i, 1, (size, 5)) for i, size in enumerate(sizes)]
    return torch.from_numpy(np.concatenate(points)), np.repeat(np.arange(len(sizes)), sizes)


def test_statistics_are_mean_and_deviation_of_each_channel():
    early = torch.randn(3, 4, 5, 6, dtype=torch.float64)
    expected = np.concatenate([early.numpy().mean((2, 3)), early.numpy().std((2, 3))], 1)
    np.testing.assert_allclose(stem_statistics(early).numpy(), expected, atol=1e-12)


def test_batches_do_not_matter_and_the_network_stays_as_it_was():
    backbone = build_backbone("cifar_resnet20", width=0.25)
    images = torch.rand(9, 3, 16, 16)
    whole = measure_stem(backbone, [images])
    assert backbone.training
    torch.testing.assert_close(measure_stem(backbone, images.split(4)), whole)


def test_heaps_are_found_the_largest_first():
    points, truth = heaps((8, 20, 12))
    clusters = cluster_statistics(points, 3)
    assert clusters.sizes == [20, 12, 8]
    assert [int(c) for c in clusters.assignment[[0, 8, 28]]] == [2, 0, 1]
    for heap in range(3):
        assert len(set(clusters.assignment[truth == heap].tolist())) == 1
    standard = (points.numpy() - points.numpy().mean(0)) / points.numpy().std(0)
    np.testing.assert_allclose(clusters.centres[0], standard[8:28].mean(0), atol=1e-9)
    spread = standard - clusters.centres.numpy()[clusters.assignment.numpy()]
    assert clusters.variance == pytest.approx(np.mean(spread**2))


def test_the_same_seed_sorts_alike():
    points, _ = heaps()
    assert k_means(points, 4, 7)[0].equal(k_means(points, 4, 7)[0])


def test_no_cluster_stays_empty():
    points = torch.tensor([[0.0], [0.0], [0.0], [0.0], [1.0], [1.1]], dtype=torch.float64)
    assert len(set(k_means(points, 3)[0].tolist())) == 3


def test_too_few_images_for_the_domains_are_refused():
    with pytest.raises(DataError, match="2 images, 1 of them different"):
        cluster_statistics(torch.ones(2, 3), 2)
    with pytest.raises(ConfigError, match="at least 1"):
        cluster_statistics(torch.ones(2, 3), 0)
    with pytest.raises(DataError, match="no images"):
        cluster_images(build_backbone("cifar_resnet20", width=0.25), [], 2)
    with pytest.raises(DataError, match="not finite"):
        cluster_statistics(torch.tensor([[torch.nan], [1.0]]), 1)
