# SPDX-License-Identifier: Apache-2.0
"""Sessions of ONNX Runtime: threads, and the execution provider that computes.

ONNX Runtime itself falls back to the CPU without an error where a provider cannot start. Here
that is a ConfigError: a robot that silently runs ten times as slow is hard to debug.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from newfound_core.errors import ConfigError

ExecutionProvider = Literal["auto", "cpu", "cuda", "tensorrt", "openvino"]
EXECUTION_PROVIDERS: tuple[str, ...] = get_args(ExecutionProvider)

_NAMES = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
}
_PACKAGES = {
    "cpu": "onnxruntime",
    "cuda": "onnxruntime-gpu, with CUDA and cuDNN of the versions it was built for",
    "tensorrt": "onnxruntime-gpu, with TensorRT of the version it was built for",
    "openvino": "onnxruntime-openvino",
}
_ON_CUDA = ("cuda", "tensorrt")
INPUT_NAME = "images"  # of every graph
MAX_BATCH = 32  # images of one pass on TensorRT, whose engines know the sizes they run at


def import_onnxruntime() -> Any:
    """The package, or a ConfigError that says what to do."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ConfigError(
            "the back end onnx needs the package onnxruntime, which cannot be imported "
            f"({error}): install it, or set backend to torch"
        ) from error
    return onnxruntime


def choose_provider(wanted: ExecutionProvider, device: torch.device) -> str:
    """The execution provider for a device; a ConfigError if it cannot be had here."""
    if wanted == "auto":
        wanted = "cuda" if device.type == "cuda" else "cpu"
    on_cuda = wanted in _ON_CUDA
    if on_cuda != (device.type == "cuda") or device.type not in ("cpu", "cuda"):
        raise ConfigError(
            f"the execution provider {wanted} does not run on {device}: set device to "
            f"{'cuda' if on_cuda else 'cpu'}, or execution_provider to auto"
        )
    available = import_onnxruntime().get_available_providers()
    if _NAMES[wanted] not in available:
        raise ConfigError(
            f"this ONNX Runtime cannot run on {wanted} (it has {', '.join(available)}): install "
            f"{_PACKAGES[wanted]}, or set execution_provider to auto or backend to torch"
        )
    return wanted


def make_session(
    model: bytes,
    *,
    threads: int = 0,
    provider: str = "cpu",
    device: torch.device | None = None,
    image_size: int | None = None,
    optimized_to: Path | None = None,
    weights: Mapping[str, Any] | None = None,
) -> Any:
    """A session of a model; `threads` 0 is the library's choice.

    `image_size` is needed by TensorRT. `optimized_to` writes the optimised graph to a file.
    `weights` are OrtValues whose memory the session reads in every pass: the graph must be an
    optimised one, and stays as it is.
    """
    runtime = import_onnxruntime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    # Threads that spin between two frames take the processor from everything else.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if optimized_to is not None:
        options.optimized_model_filepath = str(optimized_to)
        options.log_severity_level = 3  # it warns that such a graph is for this machine only
    if weights is not None:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        # A packed copy would not see what is written to the weights later.
        options.add_session_config_entry("session.disable_prepacking", "1")
        for name, value in weights.items():
            options.add_initializer(name, value)
    try:
        session = runtime.InferenceSession(
            model, options, providers=_with_options(provider, device, image_size)
        )
    except Exception as error:  # of pybind's own kinds
        raise ConfigError(f"ONNX Runtime cannot start on {provider}: {error}") from error
    if session.get_providers()[0] != _NAMES[provider]:
        raise ConfigError(
            f"ONNX Runtime could not start on {provider} and fell back to "
            f"{session.get_providers()[0]}: its log says why. It needs {_PACKAGES[provider]}"
        )
    return session


def _with_options(provider: str, device: torch.device | None, image_size: int | None) -> list[Any]:
    options: dict[str, Any] = {}
    if provider in _ON_CUDA:
        options["device_id"] = (device.index or 0) if device is not None else 0
    if provider == "tensorrt":
        options |= _tensorrt_options(image_size)
    if provider == "openvino":
        options["device_type"] = "CPU"
    found: list[Any] = [(_NAMES[provider], options)]
    # What a provider cannot compute falls to the next: TensorRT's to CUDA, then the CPU.
    if provider == "tensorrt":
        found.append((_NAMES["cuda"], {"device_id": options["device_id"]}))
    return found if provider == "cpu" else [*found, _NAMES["cpu"]]


def _tensorrt_options(image_size: int | None) -> dict[str, Any]:
    """Engines take minutes to build: kept on disk, one for batches of all sizes."""
    folder = tensorrt_cache()
    folder.mkdir(parents=True, exist_ok=True)
    shape = f"3x{image_size}x{image_size}"
    return {
        "trt_engine_cache_enable": True,
        "trt_engine_cache_path": str(folder),
        "trt_timing_cache_enable": True,
        "trt_timing_cache_path": str(folder),
        "trt_profile_min_shapes": f"{INPUT_NAME}:1x{shape}",
        "trt_profile_opt_shapes": f"{INPUT_NAME}:1x{shape}",
        "trt_profile_max_shapes": f"{INPUT_NAME}:{MAX_BATCH}x{shape}",
    }


def tensorrt_cache() -> Path:
    """Where TensorRT's engines are kept; they fit one model on one GPU."""
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "newfound" / "tensorrt"
