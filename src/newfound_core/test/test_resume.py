# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from newfound_core.errors import CheckpointError
from newfound_core.open_world.memory import Memory, MemoryConfig
from newfound_core.open_world.step_config import EpochState
from newfound_core.resume import (
    FinishedSteps,
    StateFolder,
    load_training,
    names_of,
    read_state,
    save_training,
    write_state,
)


def test_an_empty_folder_has_nothing_to_resume(tmp_path):
    folder = StateFolder(tmp_path)
    assert folder.finished() is None
    assert folder.epoch(0) is None


def test_what_was_saved_comes_back(tmp_path):
    tensors = {"weight": torch.randn(3, 2), "count": torch.tensor([4])}
    memory = {"red": [("train/red/0.png", False), ("train/red/1.png", True)]}
    state = FinishedSteps(2, {"scale": 10.0}, tensors, memory, [{"known_classes": 3}])
    StateFolder(tmp_path).save_finished(state)
    found = StateFolder(tmp_path).finished()
    assert (found.steps, found.options, found.records) == (2, state.options, state.records)
    assert found.memory == memory
    assert all(torch.equal(found.tensors[name], tensors[name]) for name in tensors)


def test_an_epoch_belongs_to_its_step(tmp_path):
    folder = StateFolder(tmp_path)
    folder.save_epoch(1, EpochState(5, {"w": torch.ones(2)}, {"total": 0.5}))
    assert folder.epoch(0) is None
    found = folder.epoch(1)
    assert (found.epochs_done, found.losses) == (5, {"total": 0.5})
    assert torch.equal(found.tensors["w"], torch.ones(2))


def test_a_damaged_file_is_named(tmp_path):
    folder = StateFolder(tmp_path)
    folder.save_epoch(1, EpochState(5, {"w": torch.ones(2)}, {}))
    path = tmp_path / "epoch.safetensors"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CheckpointError, match=r"epoch.safetensors cannot be resumed from"):
        folder.epoch(1)


def test_a_memory_is_kept_as_names(make_samples):
    memory = Memory(MemoryConfig(9), {"red": make_samples("red", 2)})
    assert names_of(memory) == {"red": [("red0", False), ("red1", False)]}


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
    save_training(tmp_path / "state", 3, one, optimizer)
    steps(one, optimizer, 3, 6)

    other = network()
    optimizer = optimizers(other)[kind]
    assert load_training(tmp_path / "state", other, optimizer) == 3
    steps(other, optimizer, 3, 6)
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


def test_a_damaged_state_is_named(tmp_path):
    model = network()
    optimizer = optimizers(model)["sgd"]
    save_training(tmp_path / "state", 3, model, optimizer)
    content = (tmp_path / "state").read_bytes()
    (tmp_path / "state").write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match="cannot be resumed from"):
        load_training(tmp_path / "state", model, optimizer)


def test_the_state_of_another_network_is_refused(tmp_path):
    model = network()
    save_training(tmp_path / "state", 3, model, optimizers(model)["sgd"])
    other = nn.Linear(2, 2)
    with pytest.raises(CheckpointError, match="do not fit"):
        load_training(tmp_path / "state", other, SGD(other.parameters(), 0.1))


def test_a_file_of_another_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("newfound_core.resume.FORMAT", "newfound resume 0")
    write_state(tmp_path / "state", {"w": torch.ones(1)}, {"step": 1})
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="its format is 'newfound resume 0'"):
        read_state(tmp_path / "state")
