# SPDX-License-Identifier: Apache-2.0
import json

import pytest
import torch
from safetensors.torch import load_file

from newfound_core.checkpoint import save_checkpoint
from newfound_core.errors import CheckpointError
from newfound_core.metadata import Metadata
from newfound_core.models import load_model
from newfound_core.testing import tiny_adagraph


@pytest.fixture
def folder(tmp_path):
    return tiny_adagraph(tmp_path / "adagraph")


def changed(folder, out, tensors=None, **options):
    values = json.loads((folder / "checkpoint.json").read_text())
    values.pop("tensors_sha256")
    values["options"] |= options
    held = load_file(folder / "model.safetensors") | (tensors or {})
    return save_checkpoint(out, Metadata.from_values(values), held)


def test_a_checkpoint_classifies_as_its_source_and_predicts_as_before(folder):
    loaded = load_model(folder, "adagraph")
    source = load_model(folder.with_name("adagraph_source"))
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(images), source.model(images))
    found = loaded.model.domain_graph().predict({"light": "day"})
    assert len(found.shares) == 4
    assert torch.isfinite(found.statistics.mean).all()


def test_weights_that_were_changed_afterwards_are_refused(folder, tmp_path):
    weight = load_file(folder / "model.safetensors")["classifier.weight"]
    other = changed(folder, tmp_path / "other", {"classifier.weight": weight + 1})
    with pytest.raises(CheckpointError, match="belong to another network"):
        load_model(other)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("graph.mean", lambda t: t[:, 1:], "graph.mean has shape"),
        ("graph.mean", lambda t: t[:3], "graph.mean has shape"),
        ("graph.variance", lambda t: -t, "negative"),
        ("graph.variance", lambda t: t / 0, "NaN or"),
    ],
)
def test_rows_that_do_not_fit_are_refused(folder, tmp_path, name, change, message):
    tensors = load_file(folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=message):
        load_model(changed(folder, tmp_path / "bad", {name: change(tensors[name])}))


def test_metadata_of_the_graph_that_make_no_sense_are_refused(folder, tmp_path):
    values = json.loads((folder / "checkpoint.json").read_text())["options"]["domain_graph"]
    values["schema"][0]["kind"] = "colour"
    with pytest.raises(CheckpointError, match="kind must be one of"):
        load_model(changed(folder, tmp_path / "bad", domain_graph=values))
