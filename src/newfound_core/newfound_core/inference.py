# SPDX-License-Identifier: Apache-2.0
"""Running a loaded model on camera images: which engine, how many threads, which precision.

    inference = build_inference(load_model(folder), InferenceConfig(backend="onnx"))
    output = inference([rgb])          # what the model itself returns for these images

`torch` runs the network as it is, `compile` and `onnx` hold a copy of it made once. With `adapt`,
ONDA moves the statistics of `torch`, and of `onnx` on a CPU:

    inference = build_inference(load_model(folder), InferenceConfig(backend="onnx", adapt=True))
    inference.serve(onda := inference.build_onda(OndaConfig()))
"""

import re
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from newfound_core.errors import ConfigError
from newfound_core.models import LoadedModel
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.onnx_folding import OnnxFolding
from newfound_core.onnx_graphs import GRAPHS
from newfound_core.onnx_runtime import (
    EXECUTION_PROVIDERS,
    INPUT_NAME,
    ExecutionProvider,
    choose_provider,
    import_onnxruntime,
    make_session,
)
from newfound_core.quantization import calibration_batches, quantize

Backend = Literal["torch", "compile", "onnx"]
BACKENDS: tuple[str, ...] = get_args(Backend)


@dataclass(frozen=True)
class InferenceConfig:
    """Options of inference."""

    backend: Backend = "torch"
    channels_last: bool = False  # memory layout of `torch` and `compile`
    threads: int = 0  # of one pass on a CPU; 0: as many as the library chooses
    half_precision: bool = False  # float16 where that is safe; CUDA only
    execution_provider: ExecutionProvider = "auto"  # of `onnx`; auto: the device's own
    # Folder of images of what the camera will see: `onnx` as 8-bit integers, calibrated on them.
    int8_images: str = ""
    adapt: bool = False  # ONDA is to move the statistics: `build_onda`

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
        self._check_provider()
        if self.adapt and self.backend == "compile":
            raise ConfigError(
                "the back end compile cannot adapt, since it holds a copy of the statistics: set "
                "backend to torch or onnx, or adapt to false to run the model as it was trained"
            )

    def _check_provider(self) -> None:
        if self.execution_provider not in EXECUTION_PROVIDERS:
            raise ConfigError(
                f"execution_provider must be one of {EXECUTION_PROVIDERS}, got "
                f"{self.execution_provider!r}"
            )
        if self.execution_provider != "auto" and self.backend != "onnx":
            raise ConfigError(
                f"execution_provider is an option of the back end onnx, not of {self.backend}: "
                "set it to auto"
            )
        if self.int8_images and (self.backend != "onnx" or self.adapt):
            raise ConfigError(
                "8-bit integers are an option of the back end onnx without adaptation: leave "
                "int8_images empty, or set backend to onnx and adapt to false"
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
        "onnx": AdaptiveOnnxInference if config.adapt else OnnxInference,
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

    def build_onda(self, config: OndaConfig) -> Onda:
        """ONDA around the model, to be served by `serve`; its updates are the caller's."""
        raise ConfigError(f"the back end {self.config.backend} was not built to adapt")

    def serve(self, forward: Callable[[Tensor], Any]) -> None:
        """Run images through this from now on, such as an `Onda` around the model."""
        raise ConfigError(f"the back end {self.config.backend} was not built to adapt")

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

    def build_onda(self, config: OndaConfig) -> Onda:
        """ONDA around the model."""
        return Onda(self.loaded.model, config, inline=False)

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
        import_onnxruntime()  # at once: tracing takes its time
        provider = choose_provider(config.execution_provider, loaded.device)
        images = calibration_batches(loaded, config.int8_images) if config.int8_images else []
        size = loaded.metadata.preprocessing.size
        example = torch.zeros(1, 3, size, size)
        graph = GRAPHS.of(loaded.model, example)
        self._names, self._rebuild = list(graph.names), graph.rebuild
        content = quantize(graph, images) if images else graph.content
        self._session = make_session(
            content,
            threads=config.threads,
            provider=provider,
            device=loaded.device,
            image_size=size,
        )

    def run(self, batch: Tensor) -> Any:
        """Run the model on prepared images."""
        found = self._session.run(self._names, {INPUT_NAME: batch.cpu().numpy()})
        return self._rebuild([torch.from_numpy(values) for values in found])


class AdaptiveOnnxInference(Inference):
    """ONNX Runtime with weights that ONDA changes between two frames."""

    def __init__(self, loaded: LoadedModel, config: InferenceConfig) -> None:
        super().__init__(loaded, config)
        import_onnxruntime()
        provider = choose_provider(config.execution_provider, loaded.device)
        if provider != "cpu":
            raise ConfigError(
                f"the back end onnx adapts on a CPU only, since {provider} keeps a copy of the "
                "weights: set backend to torch, or adapt to false"
            )
        self._forward: Callable[[Tensor], Any] = loaded.model  # until there is an Onda

    def build_onda(self, config: OndaConfig) -> Onda:
        """ONDA around the model, whose frames are served by ONNX Runtime."""
        engine = partial(
            OnnxFolding,
            size=self.loaded.metadata.preprocessing.size,
            positions=config.positions_per_frame,
            threads=self.config.threads,
        )
        return Onda(self.loaded.model, config, inline=False, engine=engine)

    def serve(self, forward: Callable[[Tensor], Any]) -> None:
        """Run images through an `Onda` of `build_onda` from now on."""
        self._forward = forward

    @torch.no_grad()
    def run(self, batch: Tensor) -> Any:
        """Run the model on prepared images."""
        return self._forward(batch)
