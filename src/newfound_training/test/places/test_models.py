# SPDX-License-Identifier: Apache-2.0

from dataclasses import replace

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.places import BsfClassifier, PlaceClassifier, WbnClassifier
from newfound_core.preprocessing import default_preprocessing
from newfound_training.places.data import FrozenInputs, ImageInputs
from newfound_training.places.models import (
    FrozenPart,
    Shortened,
    build_place_model,
    domain_names,
    unpack,
)
from newfound_training.running.training import pretrained_backbone

KINDS = {
    "bn": PlaceClassifier,
    "wbn": WbnClassifier,
    "wbn-latent": WbnClassifier,
    "bsf": BsfClassifier,
}


@pytest.mark.parametrize("method", KINDS)
def test_every_method_has_its_network(tiny, method):
    model = build_place_model(replace(tiny, method=method), 3, 2)
    assert type(model) is KINDS[method]
    names = domain_names(replace(tiny, method=method), model, ("cottage", "loft"))
    expected = {"bn": [], "wbn-latent": ["latent_0", "latent_1"]}
    assert names == expected.get(method, ["cottage", "loft"])
    if method.startswith("wbn"):
        assert model.config.latent == (method == "wbn-latent")


def test_the_number_of_latent_domains_can_be_chosen(tiny):
    options = replace(tiny, method="wbn-latent", latent_domains=4)
    assert build_place_model(options, 3, 2).domains == 4


def test_frozen_stages_keep_their_weights(tiny):
    backbone = pretrained_backbone(tiny)
    assert not any(p.requires_grad for p in backbone.stem.parameters())
    assert not any(p.requires_grad for p in backbone.stages[0].parameters())
    assert all(p.requires_grad for p in backbone.stages[1].parameters())


def test_a_network_can_be_cut_short(tiny):
    options = replace(tiny, stages=2, weights="random", remembered_variants=0)
    assert len(pretrained_backbone(options).stages) == 2


def test_more_stages_than_there_are_cannot_be_frozen(tiny):
    with pytest.raises(ConfigError, match="can be frozen"):
        pretrained_backbone(replace(tiny, frozen_stages=99))


@pytest.fixture
def inputs(images, tiny) -> ImageInputs:
    return ImageInputs(images.pixels, default_preprocessing(tiny.backbone, 16), tiny)


@pytest.mark.parametrize("method", ["bn", "wbn", "wbn-latent", "bsf"])
def test_rows_through_the_rest_give_what_images_through_the_whole_give(tiny, inputs, method):
    torch.manual_seed(3)
    options = replace(tiny, method=method)
    model = build_place_model(options, 3, 2).eval()
    batch = inputs.plain(range(6))
    with torch.no_grad():
        expected = model(batch)
        frozen = FrozenPart(pretrained_backbone(options), options.frozen_stages)
        short = Shortened(model, options.frozen_stages, frozen.shapes(16))
        found = model(frozen(batch))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        again = short.whole()(batch)
    torch.testing.assert_close(again.logits, expected.logits)


def test_training_the_rest_trains_the_whole(tiny, inputs):
    model = build_place_model(replace(tiny, method="bn"), 3, 2)
    frozen = FrozenPart(pretrained_backbone(tiny), 2)
    rows = frozen(inputs.plain(range(6)))
    short = Shortened(model, 2, frozen.shapes(16))
    names = {name for name, p in model.named_parameters() if p.requires_grad}
    model.train()
    model(rows).logits.square().sum().backward()
    whole = short.whole()
    trained = {name for name, p in whole.named_parameters() if p.grad is not None}
    assert len(trained) == len(names)
    assert all("stages" in n or "head" in n or "classifier" in n for n in trained)
    assert not any(p.grad is not None for p in whole.backbone.stem.parameters())


def test_rows_are_computed_once_and_read_again(tiny, inputs, tmp_path):
    frozen = FrozenPart(pretrained_backbone(tiny), 2)
    first = FrozenInputs.of(frozen, inputs, 2, tmp_path)
    (path,) = tmp_path.iterdir()
    time = path.stat().st_mtime_ns
    again = FrozenInputs.of(frozen, inputs, 2, tmp_path)
    assert path.stat().st_mtime_ns == time
    assert torch.equal(first.plain([3, 5]), again.plain([3, 5]))
    expected = frozen(inputs.plain([3, 5]))
    torch.testing.assert_close(first.plain([3, 5]), expected, rtol=2e-3, atol=2e-3)


def test_a_variant_is_one_of_those_remembered_and_not_the_plain_image(tiny, inputs, tmp_path):
    frozen = FrozenPart(pretrained_backbone(tiny), 2)
    remembered = FrozenInputs.of(frozen, inputs, 2, tmp_path)
    drawn = {
        tuple(remembered.varied(4, np.random.default_rng(seed)).tolist()) for seed in range(20)
    }
    assert len(drawn) == 2
    assert tuple(remembered.plain([4])[0].tolist()) not in drawn


def test_maps_come_out_of_a_row_as_they_went_in():
    early, last = torch.randn(2, 3, 4, 4), torch.randn(2, 5, 2, 2)
    rows = torch.cat([early.flatten(1), last.flatten(1)], 1)
    found = unpack(rows, ((3, 4, 4), (5, 2, 2)))
    assert torch.equal(found[0], early)
    assert torch.equal(found[1], last)


def test_the_branch_must_leave_from_the_frozen_part(tiny):
    with pytest.raises(ConfigError, match="--remembered-variants 0"):
        FrozenPart(pretrained_backbone(replace(tiny, frozen_stages=0)), 0)
