# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from newfound_core.errors import CheckpointError
from newfound_core.open_world.memory import Memory, MemoryConfig
from newfound_core.open_world.step_config import EpochState
from newfound_training.openworld.state import FinishedSteps, StateFolder, names_of


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
