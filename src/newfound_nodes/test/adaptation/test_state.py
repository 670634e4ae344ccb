# SPDX-License-Identifier: Apache-2.0
import os
import resource

import pytest
import torch
from torch import nn

from newfound_core.onda import Onda, OndaConfig
from newfound_nodes.adaptation.state import AdaptationStore, StateError, default_folder


@pytest.fixture
def onda():
    """An adapter that has moved."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.LazyLinear(2))
    network(torch.randn(2, 3, 8, 8))
    adapter = Onda(network.eval(), OndaConfig.thesis(2, 0.5))
    for _ in range(2):
        adapter.predict(torch.randn(3, 8, 8) + 2)
    return adapter


@pytest.fixture
def store(tmp_path):
    return AdaptationStore(tmp_path / "states", "/robot/front/classifier", "ab" * 32)


def test_a_state_comes_back(store, onda):
    drift = onda.drift().per_layer
    assert drift["1"] > 0
    path = store.save(onda, "saved")
    onda.reset()
    assert store.restore(onda, "saved") == path
    assert onda.drift().per_layer == drift


def test_the_file_is_below_the_folder_and_named_by_node_and_checkpoint(store, tmp_path):
    wanted = tmp_path / "states/robot__front__classifier/abababababababab.saved.safetensors"
    assert store.path("saved") == wanted


def test_the_default_is_beside_the_files_of_ros(monkeypatch, tmp_path):
    monkeypatch.setenv("ROS_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "newfound"
    monkeypatch.delenv("ROS_HOME")
    assert default_folder().parts[-2:] == (".ros", "newfound")


def test_what_is_not_there_is_told(store, onda):
    with pytest.raises(StateError, match="does not exist"):
        store.restore(onda, "saved")


def test_a_folder_that_cannot_be_is_told_with_the_way_out(tmp_path, onda):
    (tmp_path / "file").write_text("")
    store = AdaptationStore(tmp_path / "file", "/node", "ab" * 32)
    with pytest.raises(StateError, match="Set state_dir to a folder that can"):
        store.check_writable()
    with pytest.raises(StateError, match="could not be written"):
        store.save(onda, "saved")


def test_a_full_disk_is_told_and_leaves_the_old_state(store, onda):
    path = store.save(onda, "latest")
    content = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # the kernel's own refusal
    try:
        onda.reset()
        with pytest.raises(StateError, match="could not be written: File too large"):
            store.save(onda, "latest")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_what_a_killed_process_left_is_swept_up_and_that_of_others_is_not(store):
    store.folder.mkdir(parents=True)
    for key in ("ab" * 8, "cd" * 8):
        (store.folder / f".{key}.latest.safetensors.part7").write_bytes(b"half")
    store.check_writable()
    left = [file.name for file in store.folder.iterdir()]
    assert left == [f".{'cd' * 8}.latest.safetensors.part7"]


def test_a_crash_before_the_new_state_has_its_name_leaves_the_old_one(store, onda, monkeypatch):
    path = store.save(onda, "latest")
    content = path.read_bytes()

    def crash(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", crash)
    onda.reset()
    with pytest.raises(KeyboardInterrupt):
        store.save(onda, "latest")
    assert path.read_bytes() == content
    store.check_writable()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_states_of_other_checkpoints_are_known_as_such(store, onda, tmp_path):
    assert store.states_of_others() == []
    other = AdaptationStore(tmp_path / "states", "/robot/front/classifier", "cd" * 32)
    other.save(onda, "latest")
    assert store.states_of_others() == ["cdcdcdcdcdcdcdcd.latest.safetensors"]
    assert not store.has("latest")
