# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from newfound_core.errors import ConfigError
from newfound_core.places import BsfClassifier, PlaceClassifier, WbnClassifier
from newfound_training.places.models import build_place_model, domain_names, pretrained

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
    backbone = pretrained(tiny)
    assert not any(p.requires_grad for p in backbone.stem.parameters())
    assert not any(p.requires_grad for p in backbone.stages[0].parameters())
    assert all(p.requires_grad for p in backbone.stages[1].parameters())


def test_a_network_can_be_cut_short(tiny):
    options = replace(tiny, stages=2, weights="random", remembered_variants=0)
    assert len(pretrained(options).stages) == 2


def test_more_stages_than_there_are_cannot_be_frozen(tiny):
    with pytest.raises(ConfigError, match="can be frozen"):
        pretrained(replace(tiny, frozen_stages=99))
