# SPDX-License-Identifier: Apache-2.0
"""Running a loaded model on camera images: which engine, how many threads, which precision.

    inference = build_inference(load_model(folder), InferenceConfig(backend="onnx"))
    output = inference([rgb])          # what the model itself returns for these images

`torch` runs the network as it is and is the only back end whose statistics ONDA can move;
`compile` and `onnx` hold a copy of the network made once.
"""

import re
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from newfound_core.errors import ConfigError
from newfound_core.export import INPUT_NAME, export_onnx
from newfound_core.models import LoadedModel
from newfound_core.places import PlaceClassifier, PlaceOutput

Backend = Literal["torch", "compile", "onnx"]
BACKENDS: tuple[str, ...] = get_args(Backend)
ADAPTABLE = ("torch",)  # the others hold a copy of the statistics that ONDA cannot move


@dataclass(frozen=True)
class InferenceConfig:
    """Options of inference."""

    backend: Backend = "torch"
    channels_last: bool = False  # memory layout of `torch` and `compile`
    threads: int = 0  # of one pass on a CPU; 0: as many as the library chooses
    half_precision: bool = False  # float16 where that is safe; CUDA only

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ConfigError(f"backend must be one of {BACKENDS}, got {self.backend!r}")
        if self.threads < 0:
            raise ConfigError(f"threads must be 0 (automatic) or more, got {self.threads}")
        if self.backend == "onnx" and (self.channels_last or self.half_precision):
            raise ConfigError(
                "channels_last and half_precision are options of the back ends torch and compile; "
                "ONNX Runtime chooses its own layout and runs in single precision"
            )


def build_inference(loaded: LoadedModel, config: InferenceConfig | None = None) -> "Inference":
    """The model behind the back end, warmed up; a ConfigError or ExportError if it cannot be."""
    config = config or InferenceConfig()
    if config.half_precision and loaded.device.type != "cuda":
        raise ConfigError(
            f"half_precision needs a CUDA device, but the model runs on {loaded.device}: on a CPU "
            "it would be slower. Set half_precision to false, or device to cuda"
        )
    kinds: dict[str, type[Inference]] = {
        "torch": TorchInference,
        "compile": CompiledInference,
        "onnx": OnnxInference,
    }
    inference = kinds[config.backend](loaded, config)
    inference.warm_up()
    return inference


class Inference(ABC):
    """A model that takes camera images."""

    def __init__(self, loaded: LoadedModel, config: InferenceConfig) -> None:
        self.loaded, self.config = loaded, config

    def __call__(self, images: Sequence[np.ndarray]) -> Any:
        """Run the model on images, uint8 [H, W, 3] RGB."""
        return self.run(self.prepare(images))

    def prepare(self, images: Sequence[np.ndarray]) -> Tensor:
        """The network's input."""
        return self.loaded.prepare(images)

    @abstractmethod
    def run(self, batch: Tensor) -> Any:
        """Run the model on prepared images."""

    def warm_up(self) -> None:
        """Run once, so that what is slow or fails for the first image does so now."""
        self([np.zeros((48, 64, 3), np.uint8)])


class _Threads:
    """torch knows one number of threads, that of the whole process: the last choice holds."""

    def __init__(self) -> None:
        self._choosers: weakref.WeakSet[Inference] = weakref.WeakSet()
        self._chosen = self._before = 0

    def choose(self, inference: Inference, threads: int) -> None:
        """Set the number of threads; 0 is the library's, unless a model in use wants another."""
        now = torch.get_num_threads()
        if threads:
            if now != self._chosen:  # not our own choice: what to return to
                self._before = now
            self._choosers.add(inference)
            self._chosen = threads
            torch.set_num_threads(threads)
        elif now == self._chosen and not self._choosers:
            torch.set_num_threads(self._before)
            self._chosen = 0


_THREADS = _Threads()


class TorchInference(Inference):
    """PyTorch as it is."""

    def __init__(self, loaded: LoadedModel, config: InferenceConfig) -> None:
        super().__init__(loaded, config)
        _THREADS.choose(self, config.threads)
        self._layout = torch.channels_last if config.channels_last else torch.contiguous_format
        loaded.model.to(memory_format=self._layout)
        self._forward: Callable[[Tensor], Any] = loaded.model

    def serve(self, forward: Callable[[Tensor], Any]) -> None:
        """Run images through this from now on, such as an `Onda` around the model."""
        self._forward = forward

    def prepare(self, images: Sequence[np.ndarray]) -> Tensor:
        """The network's input, in the layout of its weights."""
        return super().prepare(images).contiguous(memory_format=self._layout)

    @torch.no_grad()
    def run(self, batch: Tensor) -> Any:
        """Run the model on prepared images."""
        with self._precision():
            return self._forward(batch)

    def _precision(self) -> AbstractContextManager[Any]:
        """Mixed precision: statistics of normalisation and sums stay in single precision."""
        if not self.config.half_precision:
            return nullcontext()
        return torch.autocast(self.loaded.device.type, dtype=torch.float16)


_ABOUT_TOOLS = re.compile(r"Cxx|CppCompile|C\+\+|Triton", re.IGNORECASE)


class CompiledInference(TorchInference):
    """The network compiled by `torch.compile`, for one image at a time."""

    def __init__(self, loaded: LoadedModel, config: InferenceConfig) -> None:
        super().__init__(loaded, config)
        self._forward = torch.compile(loaded.model)

    def warm_up(self) -> None:
        """Compile; the compiler's errors are of many kinds and mean the same here."""
        try:
            super().warm_up()
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            advice = "Set backend to torch"
            if _ABOUT_TOOLS.search(str(error)):
                advice = (
                    "It needs a C++ compiler (on CUDA also Triton) where the model runs; install "
                    "one, or set backend to torch"
                )
            raise ConfigError(f"torch.compile does not work here: {reason}. {advice}") from error


class OnnxInference(Inference):
    """ONNX Runtime, on a graph that was compared with the model when it was made."""

    def __init__(self, loaded: LoadedModel, config: InferenceConfig) -> None:
        super().__init__(loaded, config)
        try:
            import onnxruntime
        except ImportError as error:
            raise ConfigError(
                "the back end onnx needs the package onnxruntime, which cannot be imported "
                f"({error}): install it, or set backend to torch"
            ) from error
        provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(
            loaded.device.type, ""
        )
        if provider not in onnxruntime.get_available_providers():
            raise ConfigError(
                f"this ONNX Runtime cannot run on {loaded.device}: install one that can "
                "(onnxruntime-gpu for CUDA), or set backend to torch"
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = config.threads
        # Threads that spin between two frames take the processor from everything else.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            size = loaded.metadata.preprocessing.size
            report = export_onnx(loaded.model, torch.zeros(1, 3, size, size), file)
            self._session = onnxruntime.InferenceSession(file, options, providers=[provider])
        self._names = report.outputs

    def run(self, batch: Tensor) -> Any:
        """Run the model on prepared images."""
        found = self._session.run(list(self._names), {INPUT_NAME: batch.cpu().numpy()})
        outputs = {n: torch.from_numpy(v) for n, v in zip(self._names, found, strict=True)}
        if not isinstance(self.loaded.model, PlaceClassifier):
            return outputs["logits"]
        none = torch.zeros(len(batch), 0)  # of a model without domains
        return PlaceOutput(
            outputs["logits"],
            outputs.get("domain_logits", none),
            outputs.get("domain_weights", none),
        )
