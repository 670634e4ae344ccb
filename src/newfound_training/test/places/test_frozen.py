# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.preprocessing import default_preprocessing
from newfound_training.places.frozen import FrozenPart, Shortened, remember, unpack
from newfound_training.places.inputs import ImageInputs
from newfound_training.places.models import build_place_model, pretrained

CPU = torch.device("cpu")


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
        frozen = FrozenPart(pretrained(options), options.frozen_stages)
        short = Shortened(model, options.frozen_stages, frozen.shapes(16))
        found = model(frozen(batch))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        again = short.whole()(batch)
    torch.testing.assert_close(again.logits, expected.logits)


def test_training_the_rest_trains_the_whole(tiny, inputs):
    model = build_place_model(replace(tiny, method="bn"), 3, 2)
    frozen = FrozenPart(pretrained(tiny), 2)
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
    path = tmp_path / "rows.npy"
    frozen = FrozenPart(pretrained(tiny), 2)
    first = remember(frozen, inputs, 2, path, CPU)
    time = path.stat().st_mtime_ns
    again = remember(frozen, inputs, 2, path, CPU)
    assert path.stat().st_mtime_ns == time
    assert torch.equal(first.plain([3, 5]), again.plain([3, 5]))
    expected = frozen(inputs.plain([3, 5]))
    torch.testing.assert_close(first.plain([3, 5]), expected, rtol=2e-3, atol=2e-3)


def test_a_variant_is_one_of_those_remembered_and_not_the_plain_image(tiny, inputs, tmp_path):
    remembered = remember(FrozenPart(pretrained(tiny), 2), inputs, 2, tmp_path / "r.npy", CPU)
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
        FrozenPart(pretrained(replace(tiny, frozen_stages=0)), 0)
