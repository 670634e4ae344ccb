# SPDX-License-Identifier: Apache-2.0
"""The equation and its gradients against NumPy in double precision."""

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.task_delta.config import TaskDeltaConfig
from newfound_core.task_delta.transform import dead_channels, masked, transformed

SHAPES = {"convolution": (6, 4, 3, 3), "depthwise": (8, 1, 3, 3), "linear": (5, 7)}


def expected(weight, scores, k, grad, gradient):
    """W~ and dL/dr, dL/dk, written as the equations are, one weight after the other."""
    new, of_scores, of_k = np.zeros_like(weight), np.zeros_like(weight), np.zeros_like(k)
    for place in np.ndindex(weight.shape):
        k0, k1, k2, k3 = k if k.ndim == 1 else k[:, place[0]]
        w, r, g = weight[place], scores[place], grad[place]
        m = 1.0 if r >= 0 else 0.0
        new[place] = k0 * w + k1 + k2 * m + k3 * w * m
        s = 1 / (1 + np.exp(-r))
        of_scores[place] = g * (k2 + k3 * w) * (1 if gradient == "straight_through" else s - s * s)
        terms = g * np.array([w, 1, m, m * w])
        if k.ndim == 1:
            of_k += terms
        else:
            of_k[:, place[0]] += terms
    return new, of_scores, of_k


@pytest.mark.parametrize("gradient", ["straight_through", "sigmoid"])
@pytest.mark.parametrize("channelwise", [False, True])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_weights_and_gradients_are_those_of_the_equations(shape, channelwise, gradient):
    generator = np.random.default_rng(0)
    weight, scores, grad = generator.normal(size=(3, *shape))
    scores.flat[0] = 0.0  # at the threshold the bit is set
    k = generator.normal(size=(4, shape[0]) if channelwise else 4)
    tensors = [torch.from_numpy(a).requires_grad_() for a in (weight, scores, k)]
    new = masked(*tensors, gradient)
    new.backward(torch.from_numpy(grad))
    wanted = expected(weight, scores, k, grad, gradient)
    found = (new.detach(), tensors[1].grad, tensors[2].grad)
    for value, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value.numpy(), want, rtol=1e-10, atol=1e-12)
    assert tensors[0].grad is None  # the base is never trained


def test_piggyback_keeps_or_removes_weights():
    weight, bits = torch.randn(4, 3, 3, 3), torch.rand(4, 3, 3, 3) < 0.5
    assert torch.equal(transformed(weight, bits, torch.tensor([0.0, 0, 0, 1])), weight * bits)


def test_where_k_starts_the_weights_are_the_base_and_masks_have_no_gradient():
    weight, scores = torch.randn(4, 3), torch.rand(4, 3).requires_grad_()
    k = torch.tensor([1.0, 0, 0, 0], requires_grad=True)
    new = masked(weight, scores, k, "straight_through")
    assert torch.equal(new, weight)
    new.square().sum().backward()
    assert not scores.grad.any()
    assert k.grad.abs().min() > 0


def test_opposite_k1_and_k2_are_a_step_stored_by_its_signs():
    weight, bits = torch.randn(5, 6).double(), torch.rand(5, 6) < 0.5
    step = transformed(weight, bits, torch.tensor([1, -0.1, 0.2, 0]).double()) - weight
    torch.testing.assert_close(step, 0.1 * (2 * bits.double() - 1))


def test_a_channel_without_weights_is_dead():
    weight = torch.randn(3, 2, 3, 3)
    weight[1] = 1e-7
    assert dead_channels(weight).flatten().tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"variant": "bat"}, "variant must be one of"),
        ({"mask_gradient": "none"}, "mask_gradient must be one of"),
        ({"unit": "metres"}, "unit must be one of"),
        ({"mask_margin": (2.0, 1.0)}, "mask_margin"),
    ],
)
def test_a_wrong_setting_is_named(values, message):
    with pytest.raises(ConfigError, match=message):
        TaskDeltaConfig(**values)
