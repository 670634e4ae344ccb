# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from newfound_core.conversion import convert_batchnorm
from newfound_core.errors import ConfigError
from newfound_training.running.distributed import (
    SharedBatchNorm,
    Team,
    joined_team,
    local_device,
    share_statistics,
)


def test_without_torchrun_there_is_a_team_of_one(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined_team(torch.device("cpu")) as team:
        assert team == Team(0, 1)
        assert team.leads
        team.wait()
        assert team.mean({"a": torch.tensor(2.0)}) == {"a": 2.0}


def test_each_process_takes_its_own_gpu(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert local_device("cuda") == "cuda:3"
    assert local_device("cpu") == "cpu"
    with pytest.raises(ConfigError, match="give --device cuda"):
        local_device("cuda:1")


def test_layers_with_several_domains_are_refused_in_a_team():
    model = convert_batchnorm(nn.Sequential(nn.BatchNorm2d(3)), 2)
    with pytest.raises(ConfigError, match="several domains"):
        share_statistics(model, Team(0, 2))


def test_shared_layers_keep_names_and_tensors():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    before = model.state_dict()
    share_statistics(model, Team(0, 2))
    assert isinstance(model[1], SharedBatchNorm)
    for name, tensor in model.state_dict().items():
        assert tensor.data_ptr() == before[name].data_ptr(), name
    x = torch.randn(2, 4, 5, 5)
    torch.testing.assert_close(model[1].eval()(x), nn.BatchNorm2d(4).eval()(x))


@pytest.mark.slow
def test_two_processes_train_what_one_trains(tmp_path, tree, run_command):
    arguments = ["train-source", "--data", tree, "--domains", "bright", "--seed", 3]
    arguments += ["--backbone", "cifar_resnet20", "--weights", "random", "--image-size", 32]
    arguments += ["--frozen-stages", 0, "--iterations", 4, "--batch-size", 8]
    arguments += ["--lr", 0.01, "--new-lr", 0.01]
    for processes in (1, 2):
        done = run_command(*arguments, "--out", tmp_path / str(processes), processes=processes)
        assert done.returncode == 0, done.stderr
    one, two = (
        load_file(tmp_path / str(processes) / "checkpoint" / "model.safetensors")
        for processes in (1, 2)
    )
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-3, atol=1e-4, msg=name)
    seen = [int(t) for name, t in two.items() if name.endswith("num_batches_tracked")]
    assert set(seen) == {4}
