# SPDX-License-Identifier: Apache-2.0

import copy

import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.segmentation.growth import with_classes, without_class
from newfound_core.segmentation.losses import unbiased_distillation


def test_the_probabilities_of_old_classes_do_not_change_when_classes_are_added(tiny_network):
    images = torch.randn(2, 3, 32, 32)
    for count in (1, 3):
        grown = with_classes(tiny_network, count)
        before = tiny_network(images).pixels.softmax(1)
        after = grown(images).pixels.softmax(1)
        assert after[:, 1:4].allclose(before[:, 1:], atol=1e-6)
        shared = [after[:, 0], *(after[:, 4 + i] for i in range(count))]
        for part in shared:
            assert part.allclose(before[:, 0] / (1 + count), atol=1e-6)


def test_distillation_starts_at_its_minimum(tiny_network):
    old = tiny_network.double().eval()
    grown = with_classes(old, 2)
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    before = old(images).pixels.detach()
    loss = unbiased_distillation(grown(images).pixels, before)
    loss.backward()
    entropy = torch.special.entr(before.softmax(1)).sum(1).mean()
    assert loss.item() == pytest.approx(float(entropy), abs=1e-12)
    gradients = [p.grad.abs().max() for p in grown.parameters() if p.grad is not None]
    assert len(gradients) > 10
    assert float(max(gradients)) < 1e-12


def test_another_start_is_not_at_the_minimum(tiny_network):
    old = tiny_network.double().eval()
    images = torch.randn(1, 3, 32, 32, dtype=torch.float64)
    before = old(images).pixels.detach()
    grown = with_classes(old, 2, "random")
    unbiased_distillation(grown(images).pixels, before).backward()
    assert float(grown.classifier.bias.grad.abs().max()) > 1e-4


def test_the_network_that_grows_stays_as_it_is(tiny_network):
    before = copy.deepcopy(tiny_network.state_dict())
    grown = with_classes(tiny_network, 1)
    assert grown.config.steps == (3, 1)
    assert tiny_network.config.steps == (3,)
    for name, tensor in tiny_network.state_dict().items():
        assert tensor.equal(before[name])


def test_a_class_that_is_removed_leaves_the_logits_of_the_others(tiny_network):
    images = torch.randn(1, 3, 32, 32)
    smaller = without_class(tiny_network, 2)
    kept = tiny_network(images).pixels[:, [0, 1, 3]]
    assert smaller(images).pixels.allclose(kept, atol=1e-6)
    assert smaller.config.steps == (2,)
    assert without_class(with_classes(tiny_network, 1), 4).config.steps == (3,)


@pytest.mark.parametrize("index", [0, 4, -1])
def test_the_background_cannot_be_removed(tiny_network, index):
    with pytest.raises(ConfigError, match="cannot be removed"):
        without_class(tiny_network, index)


def test_a_step_without_a_class_is_refused(tiny_network):
    with pytest.raises(ConfigError, match="at least one"):
        with_classes(tiny_network, 0)
