# SPDX-License-Identifier: Apache-2.0
import copy
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.errors import CheckpointError
from newfound_training.openworld.incremental import restored_samples


class InterruptedHereError(Exception):
    """Stands for a crash right after a state was saved."""


def weights(outcome):
    return outcome.model.state_dict()


@pytest.fixture
def whole(make_incremental, tmp_path):
    return make_incremental(folder=tmp_path / "whole").run()


def test_every_step_is_measured_and_the_memory_keeps_its_size(whole):
    assert [record["known_classes"] for record in whole.records] == [2, 3, 4]
    assert whole.model.labels == ["red", "blue", "green", "white"]
    assert len(whole.memory) <= 24
    assert set(whole.memory.labels) == set(whole.model.labels)
    assert len(whole.records[-1]["confusion"]) == 5


@pytest.mark.parametrize("epoch", [0, 3, 6])  # in the first, second and third step
def test_after_an_interruption_the_result_is_the_same(make_incremental, whole, epoch):
    seen = []

    def interrupt(step, state):
        seen.append(step)
        if len(seen) == epoch + 1:
            raise InterruptedHereError

    with pytest.raises(InterruptedHereError):
        make_incremental(on_epoch=interrupt).run()
    resumed = make_incremental().run()
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(resumed)[name]), name
    assert resumed.records == whole.records
    for label in whole.memory.labels:
        pair = [
            [(s.source, s.held_out) for s in o.memory.samples(label)] for o in (whole, resumed)
        ]
        assert pair[0] == pair[1]


def found_by(outcome):
    memory = {k: [s.source for s in outcome.memory.samples(k)] for k in outcome.memory.labels}
    return {name: tensor.numpy() for name, tensor in weights(outcome).items()}, memory


class ToDouble(nn.Module):
    def forward(self, x):
        return x.double()


def in_double(incremental):
    """The same run; float32's rounding, magnified by every step, would hide a mistake."""
    network = nn.Sequential(ToDouble(), copy.deepcopy(incremental.dataset.network).double())
    return replace(incremental, dataset=replace(incremental.dataset, network=network))


@pytest.mark.parametrize("method", ["bdoc", "deepnno"])
def test_two_processes_learn_what_one_learns(in_two_processes, make_incremental, tmp_path, method):
    row = f"{method}: method={method} epochs=1 later_epochs=1 batch_size=15"  # shares of 7 and 8
    tensors, memory = found_by(in_double(make_incremental(row, folder=tmp_path / "one")).run())
    for found in in_two_processes(
        lambda group: found_by(in_double(make_incremental(row, process_group=group)).run())
    ):
        assert found[1] == memory
        for name, values in tensors.items():
            np.testing.assert_allclose(found[0][name], values, 1e-6, 1e-6, err_msg=name)


def test_two_processes_one_of_them_killed_end_as_if_it_had_not_been(
    in_two_processes, make_incremental, tmp_path
):
    def kill_the_main_process(step, state):
        if step == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def work(group, **changes):
        row = "bdoc: method=bdoc epochs=1 later_epochs=2"
        tensors, memory = found_by(make_incremental(row, process_group=group, **changes).run())
        return {name: values.tobytes() for name, values in tensors.items()}, memory

    def killed(group):
        return work(
            group, **({"on_epoch": kill_the_main_process} if group.is_main_process else {})
        )

    whole = in_two_processes(lambda group: work(group, folder=tmp_path / "whole"))
    assert in_two_processes(killed) == [None, None]
    assert in_two_processes(work) == whole
    assert whole[0] == whole[1]


@pytest.mark.parametrize(
    "row", ["ncm", "nno: method=nno epochs=2", "deepnno: method=deepnno epochs=2"]
)
def test_every_method_runs(make_incremental, row):
    outcome = make_incremental(row).run()
    metrics = outcome.records[-1]["metrics"]
    assert 0 <= metrics["nearest_beyond"]["owr_harmonic"] <= 1


def test_the_method_learns_what_it_is_shown(make_incremental):
    outcome = make_incremental(
        "bdoc: method=bdoc epochs=25 later_epochs=10 learning_rate=0.1"
    ).run()
    metrics = outcome.records[-1]["metrics"]["nearest_beyond"]
    assert metrics["closed_world_without_rejection"] > 0.7  # by chance 0.25


def test_a_memory_of_images_that_are_gone_is_refused(make_incremental):
    with pytest.raises(CheckpointError, match=r"remembers train/red/99\.png"):
        restored_samples({"red": [("train/red/99.png", False)]}, make_incremental().dataset)
