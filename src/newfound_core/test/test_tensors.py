# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from newfound_core.errors import CheckpointError
from newfound_core.tensors import load_into
from torch import nn


def network():
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def test_all_tensors_are_loaded():
    source, target = network(), network()
    load_into(target, source.state_dict())
    assert all(torch.equal(target.state_dict()[k], v) for k, v in source.state_dict().items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("1.running_var"), r"missing 1\.running_var"),
        (lambda s: s.update({"2.gate": torch.zeros(1)}), r"unexpected 2\.gate"),
        (
            lambda s: s.update({"0.weight": torch.zeros(2, 4)}),
            r"0\.weight has shape \[2, 4\] instead of \[2, 3\]",
        ),
        (
            lambda s: s.update({"0.bias": torch.zeros(2).half()}),
            r"0\.bias is torch.float16 instead of torch.float32",
        ),
        (lambda s: s.clear(), r"missing 0\.bias, 0\.weight, .* and 2 more"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named_and_nothing_is_loaded(change, message):
    target = network()
    before = {k: v.clone() for k, v in target.state_dict().items()}
    state = dict(network().state_dict())
    change(state)
    with pytest.raises(CheckpointError, match=message):
        load_into(target, state, "models/bench")
    assert all(torch.equal(target.state_dict()[k], v) for k, v in before.items())
