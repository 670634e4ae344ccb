# SPDX-License-Identifier: Apache-2.0
"""Every back end computes the same; what cannot work is refused before the first image."""

import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.errors import ConfigError
from newfound_core.inference import InferenceConfig, build_inference
from newfound_core.models import load_model, save_model
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.onnx_folding import LEARN_EVERY
from newfound_core.places import BsfClassifier, PlaceClassifier, WbnClassifier
from newfound_core.preprocessing import Preprocessing

LABELS, DOMAINS = ("office", "corridor", "kitchen"), ("freiburg", "ljubljana")


def network():
    return build_backbone("cifar_resnet20", width=0.25)


MODELS = {
    "source": lambda: Classifier(network(), 3),
    "bn": lambda: PlaceClassifier(network(), 3),
    "wbn": lambda: WbnClassifier(network(), 3, 2),
    "bsf": lambda: BsfClassifier(network(), 3, 2),
}


@pytest.fixture
def load(tmp_path):
    """A checkpoint of a method, loaded; equal ones with every call."""

    def make(method="source"):
        folder = tmp_path / method
        if not folder.exists():
            torch.manual_seed(1)
            model, domains = MODELS[method](), DOMAINS if method in ("wbn", "bsf") else ()
            save_model(folder, model, LABELS, Preprocessing(size=32), domains=domains)
        return load_model(folder)

    return make


@pytest.fixture
def image():
    return np.random.default_rng(2).integers(0, 255, (60, 80, 3), dtype=np.uint8)


@pytest.fixture
def expected(image):
    """What PyTorch says without any of this."""

    def compute(loaded):
        with torch.no_grad():
            return loaded.model(loaded.metadata.preprocessing.batch([image]))

    return compute


def assert_same(found, wanted):
    assert type(found) is type(wanted)
    pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", MODELS)
@pytest.mark.parametrize("channels_last", [False, True])
def test_torch_gives_what_the_model_gives(load, image, expected, method, channels_last):
    wanted = expected(load(method))
    inference = build_inference(load(method), InferenceConfig(channels_last=channels_last))
    assert_same(inference([image]), wanted)


@pytest.mark.parametrize("method", MODELS)
def test_onnx_gives_what_the_model_gives(load, image, expected, method):
    inference = build_inference(load(method), InferenceConfig("onnx", threads=1))
    assert_same(inference([image]), expected(load(method)))


def test_onnx_without_its_package_is_refused_in_words(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    with pytest.raises(ConfigError, match=r"needs the package onnxruntime.*set backend to torch"):
        build_inference(load(), InferenceConfig("onnx"))


@pytest.fixture
def small(load):
    """A loaded model of three layers: the C++ compiler takes seconds for each kernel."""
    torch.manual_seed(3)
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return replace(load(), model=nn.Sequential(*layers).eval())


@pytest.mark.slow
def test_compile_gives_what_the_model_gives_in_any_thread(small, image, expected):
    inference = build_inference(small, InferenceConfig("compile", channels_last=True))
    found = []
    thread = threading.Thread(target=lambda: found.append(inference([image])))
    thread.start()
    thread.join()
    assert_same(found[0], expected(small))


@pytest.mark.slow
def test_compile_without_a_compiler_is_refused_in_words(small, tmp_path, monkeypatch):
    from torch._inductor import config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # nothing made before
    torch.compiler.reset()
    said = r"torch.compile does not work here.*C\+\+ compiler"
    # Not by monkeypatch, which leaves the compiler's configuration without a compiler behind.
    with (
        config.patch({"cpp.cxx": ("no-such-compiler",)}),
        pytest.raises(ConfigError, match=said),
    ):
        build_inference(small, InferenceConfig("compile"))


def test_what_is_not_the_compilers_fault_is_not_blamed_on_it(small, monkeypatch):
    def compiled(_):
        raise RuntimeError("a shape does not fit\nand much more")

    monkeypatch.setattr(torch, "compile", lambda _: compiled)
    said = r"does not work here: a shape does not fit\. Set backend to torch$"
    with pytest.raises(ConfigError, match=said):
        build_inference(small, InferenceConfig("compile"))


@pytest.mark.slow
def test_compile_gives_what_models_with_domains_give(load, image, expected):
    for method, kind in (("wbn", WbnClassifier), ("bsf", BsfClassifier)):
        torch.manual_seed(4)
        tiny = kind(build_backbone("cifar_resnet8", width=0.25), 3, 2).eval()
        loaded = replace(load(method), model=tiny)
        inference = build_inference(loaded, InferenceConfig("compile"))
        assert_same(inference([image]), expected(loaded))


def test_onda_serves_through_onnx_and_moves_its_statistics(load, image, expected):
    loaded = load()
    before = expected(loaded)
    inference = build_inference(loaded, InferenceConfig("onnx", threads=1, adapt=True))
    onda = inference.build_onda(OndaConfig.thesis(2, 0.5, "streaming"))
    inference.serve(onda)
    assert_same(inference([image]), before)
    for picture in (255 - image, image) * LEARN_EVERY:
        inference([picture])
    onda.apply(onda.pending_update().estimate())
    assert not torch.allclose(expected(loaded), before)
    assert_same(inference([image]), expected(loaded))


def test_a_back_end_that_was_not_built_to_adapt_says_so(small):
    inference = build_inference(small, InferenceConfig("onnx", threads=1))
    with pytest.raises(ConfigError, match="was not built to adapt"):
        inference.build_onda(OndaConfig())


def test_an_execution_provider_that_is_not_here_is_refused_in_words(load):
    said = r"cannot run on openvino .*install onnxruntime-openvino"
    with pytest.raises(ConfigError, match=said):
        build_inference(load(), InferenceConfig("onnx", execution_provider="openvino"))


@pytest.mark.parametrize("channels_last", [False, True])
def test_onda_serves_through_torch_and_moves_its_statistics(load, image, expected, channels_last):
    loaded = load()
    before = expected(loaded)
    inference = build_inference(loaded, InferenceConfig(channels_last=channels_last))
    onda = Onda(loaded.model, OndaConfig.thesis(2, 0.5, "streaming"))
    inference.serve(onda)
    assert_same(inference([image]), before)
    inference([255 - image])
    assert onda.status().updates == 1
    assert not torch.allclose(inference([image]), before)


def test_the_number_of_threads_holds_in_a_thread_that_begins_later(load):
    before = torch.get_num_threads()
    try:
        build_inference(load(), InferenceConfig(threads=3))
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert seen == [3]
    finally:
        torch.set_num_threads(before)


def test_without_a_choice_the_number_of_threads_is_the_librarys_again(load):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        chosen = build_inference(load(), InferenceConfig(threads=3))
        build_inference(load(), InferenceConfig())
        assert torch.get_num_threads() == 3, "the first one is still in use"
        del chosen
        build_inference(load(), InferenceConfig())
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("backend", ["torch", "compile"])
def test_half_precision_on_a_cpu_is_refused(load, backend):
    with pytest.raises(ConfigError, match="needs a CUDA device, but the model runs on cpu"):
        build_inference(load(), InferenceConfig(backend, half_precision=True))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"backend": "tensorrt"}, "one of .*torch.*compile.*onnx"),
        ({"threads": -1}, "threads must be 0"),
        ({"backend": "onnx", "channels_last": True}, "ONNX Runtime chooses its own layout"),
        ({"backend": "onnx", "half_precision": True}, "single precision"),
        ({"backend": "onnx", "execution_provider": "npu"}, "one of .*auto.*cpu.*tensorrt"),
        ({"execution_provider": "cpu"}, "an option of the back end onnx, not of torch"),
        ({"int8_images": "data"}, "of the back end onnx without adaptation"),
        ({"backend": "onnx", "int8_images": "data", "adapt": True}, "without adaptation"),
        ({"backend": "compile", "adapt": True}, "compile cannot adapt.*torch or onnx"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        InferenceConfig(**options)
