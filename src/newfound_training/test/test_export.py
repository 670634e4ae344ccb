# SPDX-License-Identifier: Apache-2.0

import json

import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.models import load_model, save_model
from newfound_core.preprocessing import Preprocessing
from newfound_training.commands import main


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A network with few layers, since tracing takes its time for each."""
    torch.manual_seed(0)
    backbone = build_backbone("efficientnet_lite0", stages=1)
    folder = tmp_path_factory.mktemp("model") / "checkpoint"
    return save_model(folder, Classifier(backbone, 3).eval(), ["a", "b", "c"], Preprocessing(32))


def run_graph(path, images):
    if path.suffix == ".onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return session.run(["logits"], {"images": images.numpy()})[0]
    with torch.no_grad():
        return torch.export.load(path).module()(images)[0].numpy()


@pytest.mark.parametrize("kind", ["onnx", "program"])
def test_the_file_computes_what_the_checkpoint_computes(checkpoint, tmp_path, kind, undocumented):
    out = tmp_path / "out"
    arguments = ["--checkpoint", str(checkpoint), "--out", str(out), "--format", kind]
    assert main(["export", *arguments]) == 0
    result = json.loads((out / "result.json").read_text())
    assert not undocumented("export", result, result["preprocessing"])
    assert result["classes"] == ["a", "b", "c"]
    assert result["preprocessing"]["size"] == 32
    assert (result["inputs"], result["outputs"]) == (["images"], ["logits"])
    assert result["size_bytes"] == (out / result["file"]).stat().st_size
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = load_model(checkpoint).model(images).numpy()
    np.testing.assert_allclose(run_graph(out / result["file"], images), expected, atol=1e-4)


def test_no_data_is_asked_for_but_a_checkpoint_is(tmp_path, capsys):
    assert main(["export", "--out", str(tmp_path / "out")]) == 2
    assert "--checkpoint is required" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["export", "--data", "somewhere"])


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path, capsys):
    arguments = ["--checkpoint", str(tmp_path / "none"), "--out", str(tmp_path / "out")]
    assert main(["export", *arguments]) == 1
    assert "none" in capsys.readouterr().err
