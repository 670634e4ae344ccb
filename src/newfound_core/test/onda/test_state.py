# SPDX-License-Identifier: Apache-2.0
import pickle

import pytest
import torch
from newfound_core.errors import CheckpointError
from newfound_core.onda import Onda, OndaConfig
from safetensors.torch import save_file

CONFIG = OndaConfig(frames_per_update=2, estimator="streaming")


@pytest.fixture
def saved(network, shifted_frames, tmp_path):
    onda = Onda(network, CONFIG)
    for frame in shifted_frames(8):
        onda.predict(frame)
    path = tmp_path / "adapted.safetensors"
    onda.save(path)
    return onda, path


def test_a_restored_adapter_goes_on_where_the_saved_one_was(saved, make_network, shifted_frames):
    onda, path = saved
    other = Onda(make_network(), CONFIG)
    other.restore(path)
    frame = shifted_frames(1, seed=5)[0]
    assert torch.equal(onda.predict(frame), other.predict(frame))
    assert other.status().updates == onda.status().updates == 4
    other.reset()
    assert other.drift().maximum == pytest.approx(0)


def test_a_state_of_another_network_is_refused(saved, make_network):
    _, path = saved
    with pytest.raises(CheckpointError, match="another network"):
        Onda(make_network(seed=1), CONFIG).restore(path)


def write_garbage(path):
    path.write_bytes(b"garbage")


def truncate(path):
    path.write_bytes(path.read_bytes()[:-40])


def write_pickle(path):
    path.write_bytes(pickle.dumps({"mean": [1.0]}))


def write_unrelated_tensors(path):
    save_file({"weight": torch.zeros(3)}, path)


@pytest.mark.parametrize(
    "damage", [write_garbage, truncate, write_pickle, write_unrelated_tensors]
)
def test_a_damaged_file_is_a_clear_error_and_changes_nothing(saved, damage):
    onda, path = saved
    before = onda.network.state_dict()["1.running_mean"].clone()
    damage(path)
    with pytest.raises(CheckpointError, match="adapted"):
        onda.restore(path)
    assert torch.equal(onda.network.state_dict()["1.running_mean"], before)


def test_a_missing_file_is_a_clear_error(saved, tmp_path):
    onda, _ = saved
    with pytest.raises(CheckpointError, match="cannot be read"):
        onda.restore(tmp_path / "nowhere.safetensors")


@pytest.mark.parametrize("value", [float("nan"), -1.0])
def test_impossible_statistics_are_refused(saved, value):
    onda, path = saved
    from safetensors import safe_open
    from safetensors.torch import load_file

    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    tensors["variance"][0] = value
    save_file(tensors, path, metadata)
    with pytest.raises(CheckpointError, match="damaged"):
        onda.restore(path)


def test_saving_leaves_no_other_file_behind(saved):
    _, path = saved
    assert [p.name for p in path.parent.iterdir()] == [path.name]
