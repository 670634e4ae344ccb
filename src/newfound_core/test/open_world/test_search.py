# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from newfound_core.open_world import search
from newfound_core.open_world.search import MeanSearch


def clustered(classes=600, dimension=160, samples=50, seed=0, offset=5.0):
    """Means near a subspace, as those of a network are, and samples around some of them."""
    generator = torch.Generator().manual_seed(seed)
    spectrum = torch.arange(1, dimension + 1) ** -0.5
    means = offset + torch.randn(classes, dimension, generator=generator) * spectrum
    own = torch.randint(classes, (samples,), generator=generator)
    noise = 0.2 * torch.randn(samples, dimension, generator=generator) * spectrum
    return means, means[own] + noise, own


def direct(features, means):
    return ((features.double()[:, None] - means.double()[None]) ** 2).sum(-1).numpy()


near_and_far_from_the_origin = pytest.mark.parametrize("offset", [0.0, 0.5, 5.0, 100.0])


@near_and_far_from_the_origin
def test_all_distances_equal_the_direct_form_in_double_precision(offset):
    means, features, _ = clustered(offset=offset)
    found = MeanSearch(means).squares(features).numpy()
    np.testing.assert_allclose(found, direct(features, means), rtol=1e-4, atol=1e-4)


@near_and_far_from_the_origin
def test_the_shortlist_holds_the_nearest_class_with_its_full_distance(offset):
    means, features, own = clustered(offset=offset)
    squares, classes = MeanSearch(means).candidates(features, 12)
    assert squares.shape == classes.shape == (50, 12)
    nearest = classes.gather(1, squares.argmin(1, keepdim=True))[:, 0]
    exact = direct(features, means)
    assert nearest.tolist() == exact.argmin(1).tolist() == own.tolist()
    expected = np.take_along_axis(exact, classes.numpy(), 1)
    np.testing.assert_allclose(squares.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("classes", "shortlist"), [(30, 12), (600, 0), (5, 12)])
def test_few_classes_or_no_shortlist_look_at_every_class(classes, shortlist):
    means, features, _ = clustered(classes)
    squares, columns = MeanSearch(means).candidates(features, shortlist)
    assert squares.shape == (50, classes)
    assert columns.tolist() == list(range(classes))


def test_a_nan_feature_stays_in_its_row():
    means, features, own = clustered()
    features[3, 7] = torch.nan
    squares, classes = MeanSearch(means).candidates(features, 12)
    assert squares[3].isnan().all()
    nearest = classes.gather(1, squares.argmin(1, keepdim=True))[:, 0]
    assert nearest[4:].tolist() == own[4:].tolist()


def test_it_notices_that_the_means_were_replaced_or_changed_in_place():
    means, _, _ = clustered(20)
    prepared = MeanSearch(means)
    assert prepared.serves(means)
    assert not prepared.serves(means.clone())
    means[0] += 1
    assert not prepared.serves(means)


def test_no_features_and_no_classes_are_fine():
    means, features, _ = clustered()
    squares, _ = MeanSearch(means).candidates(features[:0], 12)
    assert squares.shape == (0, 12)
    assert MeanSearch(means[:0]).squares(features).shape == (50, 0)


def test_fewer_dimensions_than_the_screen_has_are_fine():
    means, features, own = clustered(dimension=search.SCREEN_DIMENSIONS // 4)
    squares, classes = MeanSearch(means).candidates(features, 4)
    nearest = classes.gather(1, squares.argmin(1, keepdim=True))[:, 0]
    assert nearest.tolist() == own.tolist()
