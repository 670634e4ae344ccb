# SPDX-License-Identifier: Apache-2.0
"""Execution providers are what was asked for, or an error that says what is missing."""

from types import SimpleNamespace

import pytest
import torch

from newfound_core import onnx_runtime
from newfound_core.errors import ConfigError
from newfound_core.onnx_runtime import choose_provider, make_session

CPU, CUDA = torch.device("cpu"), torch.device("cuda:1")
ALL = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]


@pytest.fixture
def runtime(monkeypatch):
    """An ONNX Runtime for GPUs, as far as it is asked: sessions tell what they were made with."""
    made = SimpleNamespace(available=list(ALL), runs_on=None, asked=[])

    class Session:
        def __init__(self, model, options, providers):
            made.asked.append(providers)
            self._runs_on = made.runs_on or providers[0][0]

        def get_providers(self):
            return [self._runs_on]

    class Options:
        def add_session_config_entry(self, name, value):
            pass

    fake = SimpleNamespace(
        get_available_providers=lambda: made.available,
        InferenceSession=Session,
        SessionOptions=Options,
    )
    monkeypatch.setattr(onnx_runtime, "import_onnxruntime", lambda: fake)
    return made


def test_auto_is_the_provider_of_the_device(runtime):
    assert choose_provider("auto", CPU) == choose_provider("cpu", CPU) == "cpu"
    assert choose_provider("auto", CUDA) == "cuda"
    assert choose_provider("tensorrt", CUDA) == "tensorrt"


@pytest.mark.parametrize(
    ("wanted", "device", "said"),
    [
        ("cuda", CPU, "cuda does not run on cpu: set device to cuda"),
        ("cpu", CUDA, "cpu does not run on cuda:1: set device to cpu"),
        ("openvino", CPU, "cannot run on openvino .*install onnxruntime-openvino"),
    ],
)
def test_what_cannot_be_had_is_refused(runtime, wanted, device, said):
    with pytest.raises(ConfigError, match=said):
        choose_provider(wanted, device)


def test_tensorrt_keeps_its_engines_and_leaves_the_rest_to_cuda(runtime, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make_session(b"", provider="tensorrt", device=CUDA, image_size=224)
    [[(first, options), (second, _), last]] = runtime.asked
    assert [first, second, last] == ALL
    assert options["device_id"] == 1
    assert options["trt_engine_cache_path"] == str(tmp_path / "newfound/tensorrt")
    assert (tmp_path / "newfound/tensorrt").is_dir()
    assert options["trt_profile_max_shapes"] == "images:32x3x224x224"


def test_a_silent_fall_back_to_the_cpu_is_an_error(runtime):
    runtime.runs_on = "CPUExecutionProvider"
    with pytest.raises(ConfigError, match="could not start on cuda and fell back to CPU"):
        make_session(b"", provider="cuda", device=CUDA)
