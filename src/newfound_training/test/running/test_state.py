# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from newfound_core.errors import CheckpointError
from newfound_training.running.state import load_state, save_state


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(288, 2))
    return model.to(memory_format=torch.channels_last)


def optimizers(model):
    return {"sgd": SGD(model.parameters(), 1e-3, momentum=0.9), "adam": Adam(model.parameters())}


def steps(model, optimizer, first, last):
    for step in range(first, last):
        torch.manual_seed(step)
        optimizer.zero_grad()
        model(torch.randn(4, 3, 8, 8)).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_a_restored_state_goes_on_bit_for_bit(tmp_path, kind):
    one = network()
    optimizer = optimizers(one)[kind]
    steps(one, optimizer, 0, 3)
    save_state(tmp_path / "state", 3, one, optimizer)
    steps(one, optimizer, 3, 6)

    other = network()
    optimizer = optimizers(other)[kind]
    assert load_state(tmp_path / "state", other, optimizer) == 3
    steps(other, optimizer, 3, 6)
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


def test_a_damaged_state_is_named(tmp_path):
    model = network()
    optimizer = optimizers(model)["sgd"]
    save_state(tmp_path / "state", 3, model, optimizer)
    content = (tmp_path / "state").read_bytes()
    (tmp_path / "state").write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match="cannot be resumed from"):
        load_state(tmp_path / "state", model, optimizer)


def test_the_state_of_another_network_is_refused(tmp_path):
    model = network()
    save_state(tmp_path / "state", 3, model, optimizers(model)["sgd"])
    other = nn.Linear(2, 2)
    with pytest.raises(CheckpointError, match="do not fit"):
        load_state(tmp_path / "state", other, SGD(other.parameters(), 0.1))
