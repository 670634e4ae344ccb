# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError, DataError
from newfound_core.preprocessing import default_preprocessing
from newfound_training.places.data import (
    BalancedBatches,
    ImageInputs,
    PlaceImages,
    Sources,
    domain_of,
    evenly_chosen,
)


def test_a_domain_is_all_or_a_part_of_the_folders_name():
    assert domain_of("old_loft_night", "whole") == "old_loft_night"
    assert domain_of("old_loft_night", "first") == "old_loft"
    assert domain_of("old_loft_night", "last") == "night"
    with pytest.raises(DataError, match="'photo' has no parts"):
        domain_of("photo", "first")


def test_images_are_grouped_by_building_or_by_light(images):
    assert images.domain_names == ["cottage", "loft", "villa"]
    assert len(images.of("loft")) == 24
    lights = PlaceImages(images.pixels, "last")
    assert lights.domain_names == ["day", "night"]
    assert set(lights.folders[lights.of("night")]) == {
        "cottage_night",
        "loft_night",
        "villa_night",
    }


def test_a_domain_that_is_not_there_is_named_with_those_that_are(images):
    with pytest.raises(DataError, match="no domain 'castle'; it has cottage, loft, villa"):
        images.of("castle")


def test_a_place_missing_in_a_domain_is_named(images):
    cottage_kitchen = (images.domains == "cottage") & (images.labels == 1)
    few = PlaceImages(images.pixels.select(np.flatnonzero(~cottage_kitchen)), "first")
    with pytest.raises(DataError, match="has no images of kitchen"):
        few.require_every_place(["loft", "cottage"])


def test_a_few_images_are_spread_over_each_folder_and_place(images):
    everything = images.pixels.images
    chosen = everything.select(evenly_chosen(everything, 2))
    assert len(chosen) == 6 * 3 * 2
    assert {source.name[-5] for source in chosen.sources} == {"0", "3"}  # of 0 to 3
    assert len(evenly_chosen(everything, 99)) == len(everything)


def test_training_and_held_out_images_are_apart_in_every_domain(images):
    sources = Sources.split(images, ["cottage", "villa"], 0.25, seed=1)
    assert not set(np.concatenate(sources.training)) & set(sources.validation)
    assert sources.count + len(sources.validation) == 48
    assert set(images.domains[sources.training[1]]) == {"villa"}
    for name in ("cottage", "villa"):
        held_out = sources.validation[images.domains[sources.validation] == name]
        assert np.bincount(images.labels[held_out]).tolist() == [2, 2, 2]


def test_one_walk_is_never_divided(walks):
    sources = Sources.split(walks, ["cottage", "villa"], 0.25, seed=1)
    trained = set(walks.folders[np.concatenate(sources.training)])
    held_out = set(walks.folders[sources.validation])
    assert len(trained) == len(held_out) == 2
    assert not trained & held_out


def test_without_a_domain_nothing_of_it_is_left(images):
    sources = Sources.split(images, ["cottage", "loft", "villa"], 0.1, seed=1).without(1)
    assert sources.names == ("cottage", "villa")
    assert "loft" not in images.domains[np.concatenate(sources.training)]
    assert not len(sources.validation)


def test_batches_are_balanced_whatever_the_sizes_of_the_domains():
    members = [np.arange(5), np.arange(100, 400), np.arange(500, 520)]
    batches = BalancedBatches(members, 12, seed=3)
    indices, domains = batches(7)
    assert np.bincount(domains).tolist() == [4, 4, 4]
    for number, own in enumerate(members):
        assert set(indices[domains == number]) <= set(own)
    again = BalancedBatches(members, 12, seed=3)(7)[0]
    assert (indices == again).all()
    assert not (indices == batches(8)[0]).all()
    assert not (indices == BalancedBatches(members, 12, seed=4)(7)[0]).all()


def test_what_is_left_over_goes_to_the_first_domains():
    domains = BalancedBatches([np.arange(9)] * 3, 8, seed=0)(0)[1]
    assert np.bincount(domains).tolist() == [3, 3, 2]


def test_a_batch_too_small_for_statistics_is_refused():
    with pytest.raises(ConfigError, match="too small for 3 domains"):
        BalancedBatches([np.arange(9)] * 3, 5, seed=0)


def test_plain_images_are_preprocessed_and_variants_follow_their_generator(images, tiny):
    preprocessing = default_preprocessing(tiny.backbone, 16)
    inputs = ImageInputs(images.pixels, preprocessing, tiny)
    assert torch.equal(inputs.plain([7])[0], preprocessing(images.pixels[7]))
    one, other = (inputs.varied(7, np.random.default_rng(s)) for s in (1, 2))
    assert torch.equal(one, inputs.varied(7, np.random.default_rng(1)))
    assert not torch.equal(one, other)
