# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.models import load_model
from newfound_core.onda.statistics import NormalizationLayers, Statistics
from newfound_core.predictive import Measurer, StemAxes
from newfound_core.predictive.measured import NAMES, measure
from newfound_core.predictive.stem_fields import MOST, StemMeasurer
from newfound_core.preprocessing import Preprocessing
from newfound_core.testing import tiny_adagraph


def domains_of(count=4, channels=6, images=30, seed=0):
    generator = np.random.default_rng(seed)
    centres = generator.normal(0, 3, (count, channels))
    spread = generator.uniform(0.2, 2, channels)
    return [
        torch.from_numpy(c + spread * generator.normal(size=(images + n, channels))).float()
        for n, c in enumerate(centres)
    ]


def expected_fields(domains, image):
    """The equation in stem_fields.py in double precision: eigenvectors, not singular vectors."""
    groups = [d.double().numpy() for d in domains]
    means = np.stack([g.mean(0) for g in groups])
    residuals = np.concatenate([g - g.mean(0) for g in groups])
    deviation = np.sqrt((residuals**2).mean(0))
    points = means / deviation
    points -= points.mean(0)
    values, vectors = np.linalg.eigh(points.T @ points)
    order = np.argsort(-values)[: len(groups) - 1]
    directions = vectors[:, order].T
    unit = np.ptp(points @ directions[0])
    return directions @ ((image - means.mean(0)) / deviation) / unit


def test_fields_are_the_principal_directions_of_the_domains_in_units_of_their_spread():
    domains = domains_of()
    axes = StemAxes.fitted(domains)
    image = domains[2][5]
    [found] = axes.project(image[None])
    assert list(found) == ["stem_1", "stem_2", "stem_3"]
    expected = expected_fields(domains, image.double().numpy())
    np.testing.assert_allclose(np.abs(list(found.values())), np.abs(expected), atol=1e-4)


def test_distances_between_domains_are_kept_and_the_longest_direction_is_one_wide():
    domains = domains_of()
    axes = StemAxes.fitted(domains)
    places = np.stack([list(axes.project(d.mean(0)[None])[0].values()) for d in domains])
    assert np.ptp(places[:, 0]) == pytest.approx(1, abs=1e-4)
    residuals = torch.cat([d.double() - d.double().mean(0) for d in domains])
    deviation = residuals.square().mean(0).sqrt()
    points = torch.stack([d.double().mean(0) / deviation for d in domains])
    ratio = np.linalg.norm(places[0] - places[1]) / np.linalg.norm(places[2] - places[3])
    expected = (points[0] - points[1]).norm() / (points[2] - points[3]).norm()
    assert ratio == pytest.approx(float(expected), rel=1e-4)


def test_domains_that_are_alike_and_dead_channels_give_finite_fields():
    domains = domains_of(count=2)
    for domain in domains:
        domain[:, 0] = 0.0
    axes = StemAxes.fitted(domains)
    strange = domains[0][:1].clone()
    strange[:, 0] = 5.0  # a channel that is alive in no known domain tells nothing
    assert axes.project(strange)[0] == pytest.approx(axes.project(domains[0][:1])[0], abs=1e-3)
    same = StemAxes.fitted([domains[0], domains[0]])
    assert all(np.isfinite(v) for v in same.project(domains[1])[0].values())
    assert len(StemAxes.fitted(domains_of(count=30, channels=40)).names) == MOST


def test_statistics_are_mean_and_log_deviation_behind_the_stem():
    backbone = build_backbone("efficientnet_lite0").eval()
    preprocessing = Preprocessing(32)
    images = np.random.default_rng(0).integers(0, 255, (2, 32, 32, 3)).astype(np.uint8)
    found = StemMeasurer(backbone, preprocessing).statistics(list(images)).numpy()
    with torch.no_grad():
        early = backbone.early_features(preprocessing.batch(list(images))).double().numpy()
    flat = early.reshape(*early.shape[:2], -1)
    expected = np.concatenate([flat.mean(2), np.log(flat.std(2) + 0.01)], 1)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_what_onda_does_to_the_network_does_not_change_the_fields():
    backbone = build_backbone("efficientnet_lite0").eval()
    image = np.random.default_rng(0).integers(0, 255, (32, 32, 3)).astype(np.uint8)
    stem = StemMeasurer(backbone, Preprocessing(32))
    before = stem.statistics([image])
    layers = NormalizationLayers(backbone)
    source = layers.read()
    layers.write(Statistics(source.mean + 1, 2 * source.variance))
    torch.testing.assert_close(stem.statistics([image]), before)
    assert not torch.allclose(
        StemMeasurer(backbone, Preprocessing(32)).statistics([image]), before
    )


def test_without_axes_the_nine_numbers_of_the_image_are_measured():
    backbone, image = build_backbone("cifar_resnet20", width=0.25), np.zeros((32, 32, 3), np.uint8)
    measurer = Measurer(backbone, Preprocessing(32), None)
    assert measurer.names == NAMES
    assert measurer(image) == measure(image)


def test_a_checkpoint_keeps_the_axes(tmp_path):
    loaded = load_model(tiny_adagraph(tmp_path / "adagraph", stem=True))
    graph = loaded.model.domain_graph()
    assert graph.axes.names == tuple(f.name for f in graph.schema.measured)
    image = np.full((32, 32, 3), 90, np.uint8)
    found = loaded.model.measurer(loaded.metadata.preprocessing)(image)
    assert set(found) == set(graph.axes.names)
    again = load_model(tmp_path / "adagraph").model
    assert again.measurer(loaded.metadata.preprocessing)(image) == found
    assert np.isfinite(graph.predict(found).distance)
    assert graph.without(0).axes is graph.axes


def test_a_checkpoint_of_before_there_were_stem_fields_is_read(tmp_path):
    model = load_model(tiny_adagraph(tmp_path / "adagraph")).model
    assert model.domain_graph().axes is None
    del model.graph_values["stem_fields"]
    again = type(model)(
        model.backbone,
        model.classifier.out_features,
        domain_graph=model.graph_values,
        fingerprint=model.fingerprint,
    )
    again.load_state_dict(model.state_dict())
    assert again.domain_graph().schema == model.domain_graph().schema
