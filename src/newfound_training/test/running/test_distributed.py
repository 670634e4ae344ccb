# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

from newfound_core.conversion import convert_batchnorm
from newfound_core.errors import ConfigError
from newfound_core.normalization import AssignmentContext
from newfound_core.open_world.heads import build_head
from newfound_core.resume import save_training
from newfound_training.running.command import Run
from newfound_training.running.distributed import (
    CpuSyncBatchNorm,
    DistributedGroup,
    init_process_group,
    local_device,
    synchronize_batchnorm,
)
from newfound_training.running.training import Task, TrainingOptions, train

CPU = torch.device("cpu")


def test_without_torchrun_there_is_a_group_of_one(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with init_process_group(CPU) as group:
        assert group == DistributedGroup(0, 1)
        assert group.is_main_process
        group.barrier()
        assert group.sum_terms({"a": torch.tensor(2.0)}) == {"a": 2.0}
        assert group.all_gather(3, CPU) == [3]


def test_each_process_takes_its_own_gpu(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert local_device("cuda") == "cuda:3"
    assert local_device("cpu") == "cpu"
    with pytest.raises(ConfigError, match="give --device cuda"):
        local_device("cuda:1")


def test_shared_layers_keep_names_and_tensors():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    before = model.state_dict()
    synchronize_batchnorm(model, DistributedGroup(0, 2), CPU)
    assert isinstance(model[1], CpuSyncBatchNorm)
    for name, tensor in model.state_dict().items():
        assert tensor.data_ptr() == before[name].data_ptr(), name
    x = torch.randn(2, 4, 5, 5)
    torch.testing.assert_close(model[1].eval()(x), nn.BatchNorm2d(4).eval()(x))


def test_on_a_gpu_plain_layers_become_those_of_torch():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Sequential(nn.BatchNorm2d(4)))
    convert_batchnorm(model[2], 2)
    before = model.state_dict()
    synchronize_batchnorm(model, DistributedGroup(0, 2), torch.device("cuda"))
    assert isinstance(model[1], nn.SyncBatchNorm)
    assert model[2][0].total is not None  # the domain-dependent layer sums by itself
    assert model.state_dict().keys() == before.keys()


def small_network(domains: int) -> tuple[nn.Module, AssignmentContext]:
    """A network with plain batch normalisation (0 domains) or the domain-dependent layer."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten()]
    layers += [nn.Linear(6 * 36, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)]
    model, context = nn.Sequential(*layers).double().train(), AssignmentContext()
    if domains:
        convert_batchnorm(model, domains, context)
    return model, context


def findings(domains: int, part: slice, group: DistributedGroup) -> dict[str, np.ndarray]:
    """Gradients and statistics that a process finds with its part of the batch."""
    torch.manual_seed(1)
    images, labels = torch.randn(8, 3, 8, 8).double(), torch.randint(0, 3, (8,))
    weights = torch.randn(8, max(1, domains)).double().requires_grad_()
    model, context = small_network(domains)
    synchronize_batchnorm(model, group, CPU)
    with context.use(weights[part].softmax(1)):
        loss = functional.cross_entropy(model(images[part]), labels[part]) / group.world_size
    loss.backward()
    parameters = dict(model.named_parameters())
    if domains > 1:
        parameters["weights"] = weights
    group.sum_gradients(parameters.values())
    found = {n: p.grad.numpy() for n, p in parameters.items()}
    return found | {n: b.numpy() for n, b in model.named_buffers()}


@pytest.mark.parametrize("domains", [0, 1, 3])
def test_gradients_and_statistics_are_those_of_the_whole_batch(in_two_processes, domains):
    """In double precision, so that only a mistake can make a difference."""
    shares = in_two_processes(lambda group: findings(domains, slice(group.rank, None, 2), group))
    assert_same(shares, findings(domains, slice(None), DistributedGroup()))


def assert_same(shares, whole) -> None:
    for found in shares:
        for name, value in whole.items():
            np.testing.assert_allclose(found[name], value, atol=1e-12, err_msg=name)


def open_world_findings(method: str, group: DistributedGroup) -> dict[str, np.ndarray]:
    """The same where the loss needs the features of all images: seven, three and four."""
    torch.manual_seed(1)
    images, old = torch.randn(7, 3, 8, 8).double(), torch.randn(7, 3).double()
    model, head = small_network(0)[0], build_head(method, 3).double()
    synchronize_batchnorm(model, group, CPU)
    head.extend(["cup", "fork"])
    features = group.apply(model, images)
    head.loss(features, torch.tensor([0, 1, 1, 0, 1, 0, 0]), old)["total"].backward()
    group.sum_gradients(model.parameters())
    found = {n: p.grad.numpy() for n, p in model.named_parameters()}
    found |= {n: b.numpy() for n, b in model.named_buffers()}
    return found | {"features": features.detach().numpy()}


@pytest.mark.parametrize("method", ["bdoc", "deepnno"])
def test_a_loss_over_all_features_has_the_gradients_of_one_process(in_two_processes, method):
    shares = in_two_processes(lambda group: open_world_findings(method, group))
    assert_same(shares, open_world_findings(method, DistributedGroup()))


def test_a_batch_smaller_than_the_group_is_no_problem(in_two_processes):
    network = small_network(0)[0].eval()

    def one_image(group):
        with torch.no_grad():
            return group.apply(network, torch.ones(1, 3, 8, 8).double()).numpy()

    for found in in_two_processes(one_image):
        np.testing.assert_allclose(found, one_image(DistributedGroup()), atol=1e-12)


def test_the_main_process_fills_a_cache_before_the_others_read_it(in_two_processes, tmp_path):
    cache = tmp_path / "cache"

    def use_cache(group):
        with group.main_process_first():
            if not cache.exists():
                cache.write_text(f"made by {group.rank}")
            return cache.read_text()

    assert in_two_processes(use_cache) == ["made by 0"] * 2


class LinearTask(Task):
    def __init__(self) -> None:
        self.model = nn.Linear(2, 2)

    def batch(self, step):
        return torch.ones(2, 2)

    def loss(self, batch):
        return {"all": self.model(batch).square().mean()}

    def evaluate(self):
        return {}


def test_processes_that_find_different_states_say_so_instead_of_waiting_forever(
    in_two_processes, tmp_path
):
    """As on two machines with a folder each, where only the first process ever saved."""
    task = LinearTask()
    state = tmp_path / "0" / "state.safetensors"
    save_training(state, 3, task.model, torch.optim.SGD(task.model.parameters(), 0.1))

    def resume(group: DistributedGroup) -> str:
        out = tmp_path / str(group.rank)
        run = Run("test", out, torch.device("cpu"), 0, "", group)
        with pytest.raises(ConfigError) as error:
            train(LinearTask(), TrainingOptions(iterations=5), run)
        return str(error.value)

    for found in in_two_processes(resume):
        assert "after 3, 0 steps" in found
        assert "must be one folder that all machines share" in found


SOURCE = ["train-source", "--domains", "bright", "--frozen-stages", 0]
PLACES = ["train-places", "--method", "wbn", "--frozen-stages", 0, "--remembered-variants", 0]


@pytest.mark.parametrize("command_line", [SOURCE, PLACES], ids=["source", "places"])
def test_two_processes_train_what_one_trains(tmp_path, tree, run_command, command_line):
    """Two steps: a deep network with random weights soon magnifies differences in rounding."""
    arguments = [*command_line, "--data", tree, "--seed", 3, "--image-size", 32]
    arguments += ["--backbone", "cifar_resnet20", "--weights", "random"]
    arguments += ["--iterations", 2, "--batch-size", 8, "--lr", 0.001, "--new-lr", 0.01]
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
    assert set(seen) == {2}


@pytest.mark.slow
def test_torchrun_starts_the_processes_of_a_group(tmp_path, tree):
    """The real launcher, once; the other tests give its environment to forked processes."""
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    arguments = [*SOURCE, "--data", tree, "--backbone", "cifar_resnet20", "--weights", "random"]
    arguments += [
        "--image-size",
        32,
        "--iterations",
        1,
        "--batch-size",
        8,
        "--out",
        tmp_path / "o",
    ]
    done = subprocess.run(
        [sys.executable, "-m", *launcher, "newfound_training", *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("checkpoint written to") == 1
    assert json.loads((tmp_path / "o" / "result.json").read_text())["processes"] == 2
