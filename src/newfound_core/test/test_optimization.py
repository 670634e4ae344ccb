# SPDX-License-Identifier: Apache-2.0
import torch

from newfound_core.optimization import ProcessGroup, autocast, backward


def test_products_are_computed_in_the_precision_asked_for():
    ones = torch.ones(2, 2)
    for precision, kind in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        with autocast(precision, ones.device):
            assert (ones @ ones).dtype == kind


def test_gradients_are_clipped_and_their_norm_is_that_before():
    parameter = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    norm = backward(parameter.square().sum() / 2, optimizer, ProcessGroup(), max_norm=1.0)
    assert float(norm) == 5.0
    torch.testing.assert_close(parameter.grad, torch.tensor([0.6, 0.8]))


def test_without_a_largest_norm_gradients_stay_as_they_are():
    parameter = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    backward(parameter.square().sum() / 2, optimizer, ProcessGroup())
    assert torch.equal(parameter.grad, parameter.detach())
