# SPDX-License-Identifier: Apache-2.0
"""Inference graphs for other engines: `torch.export` and ONNX, each checked against the model.

A graph takes prepared images [N, 3, H, W], N free, H and W fixed, and gives

    a classifier          logits
    a place classifier    logits, and with domains domain_logits, domain_weights
    an open-world model   embedding (the head stays outside, since its classes change)
"""

import copy
import io
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from newfound_core.errors import ConfigError, ExportError, ExportToolsError
from newfound_core.onnx_runtime import INPUT_NAME
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.storage import write_bytes

CHECKED_BATCHES = (1, 2, 5)
Run = Callable[[Tensor], Sequence[Tensor]]


@dataclass(frozen=True)
class ExportReport:
    """File and accuracy of an export."""

    path: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    largest_difference: float  # relative to the largest value of the output, or to 1
    size_bytes: int


class InferenceGraph(nn.Module):
    """A model as a function from images to a tuple of named tensors."""

    def __init__(self, model: nn.Module, example: Tensor) -> None:
        super().__init__()
        # A copy: tracing must not leave anything behind in a model that is in use.
        self.model = copy.deepcopy(model).cpu()
        self.eval()  # the graph itself too: an exporter restores the mode it found
        with torch.no_grad():
            output = self.model(example)
        several = isinstance(output, tuple)
        self.output_type = type(output) if several else None
        names = getattr(output, "_fields", None) if several else (_single_name(model),)
        if names is None:
            raise ExportError(f"the outputs of {type(model).__name__} have no names")
        tensors = output if several else (output,)
        # A model without domains has domain outputs without columns; no engine wants those.
        self.kept = [i for i, tensor in enumerate(tensors) if tensor.numel()]
        self.names = tuple(names[i] for i in self.kept)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """The outputs, in the order of `names`."""
        output = self.model(images)
        tensors = output if isinstance(output, tuple) else (output,)
        return tuple(tensors[i] for i in self.kept)

    def rebuild(self, tensors: Sequence[Tensor]) -> Any:
        """What the model itself returns, from the outputs in the order of `names`."""
        if self.output_type is None:
            return tensors[0]
        found = dict(zip(self.names, tensors, strict=True))
        none = tensors[0].new_zeros(len(tensors[0]), 0)
        return self.output_type(*(found.get(name, none) for name in self.output_type._fields))


@dataclass(frozen=True)
class OnnxGraph:
    """A model as an ONNX graph that nothing has been compared with yet."""

    PREFIX: ClassVar[str] = "model."  # of the names of the model's parameters in the graph

    content: bytes
    names: tuple[str, ...]  # of the outputs
    rebuild: Callable[[Sequence[Tensor]], Any]  # what the model returns, from the outputs

    def compare(self, model: nn.Module, example: Tensor, tolerance: float = 1e-4) -> float:
        """The largest difference between ONNX Runtime and the model; an ExportError if large."""
        run = _onnx_runtime(self.content, self.names)
        graph = InferenceGraph(model, example)
        return _check(run, graph, example, tolerance, "ONNX Runtime")


def trace_onnx(model: nn.Module, example: Tensor) -> OnnxGraph:
    """The model as an ONNX graph that takes any number of images."""
    _require_tools()  # at once: tracing takes its time
    example = _check_example(example)
    graph = InferenceGraph(model, example)
    return OnnxGraph(_to_onnx(_trace(graph, example), graph.names), graph.names, graph.rebuild)


def export_program(
    model: nn.Module, example: Tensor, *, tolerance: float = 1e-4
) -> ExportedProgram:
    """The model as a `torch.export` program that takes any number of images.

    `example` is a batch of prepared images; its height and width become fixed.
    """
    example = _check_example(example)
    graph = InferenceGraph(model, example)
    program = _trace(graph, example)
    _check(program.module(), graph, example, tolerance, "the torch.export program")
    return program


def save_program(
    model: nn.Module,
    example: Tensor,
    path: str | PathLike[str],
    *,
    tolerance: float = 1e-4,
) -> ExportReport:
    """Write the model as a file for `torch.export.load`, once it is known to compute the same."""
    path, example = Path(path), _check_example(example)
    graph = InferenceGraph(model, example)
    program = _trace(graph, example)
    difference = _check(program.module(), graph, example, tolerance, "the torch.export program")
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    write_bytes(path, buffer.getvalue())
    return ExportReport(path, (INPUT_NAME,), graph.names, difference, path.stat().st_size)


def export_onnx(
    model: nn.Module,
    example: Tensor,
    path: str | PathLike[str],
    *,
    tolerance: float = 1e-4,
) -> ExportReport:
    """Write the model as one ONNX file, once ONNX Runtime computes the same with it.

    If it does not, an ExportError is raised and nothing is written.
    """
    path, example = Path(path), _check_example(example)
    graph = trace_onnx(model, example)
    difference = graph.compare(model, example, tolerance)
    write_bytes(path, graph.content)
    return ExportReport(path, (INPUT_NAME,), graph.names, difference, len(graph.content))


def _trace(graph: InferenceGraph, example: Tensor) -> ExportedProgram:
    batch = Dim("batch", min=1, max=65536)
    try:
        with torch.no_grad():
            return torch.export.export(graph, (example,), dynamic_shapes=({0: batch},))
    except Exception as error:  # whatever the tracer raises, of many kinds, means the same
        raise ExportError(
            f"{type(graph.model).__name__} cannot be traced: {_first_line(error)}"
        ) from error


def _require_tools() -> None:
    try:
        import onnxscript  # noqa: F401  what torch.onnx writes with
    except (ImportError, AttributeError) as error:
        raise _tools_error(error) from error


def _to_onnx(program: ExportedProgram, names: Sequence[str]) -> bytes:
    try:
        written = torch.onnx.export(
            program,
            dynamo=True,
            verbose=False,
            input_names=[INPUT_NAME],
            output_names=list(names),
        )
    except (ImportError, AttributeError) as error:  # the exporter wraps all errors of its own
        raise _tools_error(error) from error
    except Exception as error:
        raise ExportError(f"the ONNX exporter failed: {_first_line(error)}") from error
    assert written is not None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        written.save(str(file), external_data=False)
        return file.read_bytes()


def _onnx_runtime(content: bytes, names: Sequence[str]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # it only checks; the machine may be busy
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def run(images: Tensor) -> Sequence[Tensor]:
        outputs = session.run(list(names), {INPUT_NAME: images.numpy()})
        return [torch.from_numpy(output) for output in outputs]

    return run


@torch.no_grad()
def _check(run: Run, graph: Any, example: Tensor, tolerance: float, engine: str) -> float:
    """The largest difference over batches of several sizes; an ExportError if it is too large."""
    largest = 0.0
    generator = torch.Generator().manual_seed(0)
    for count in CHECKED_BATCHES:
        images = torch.randn(count, *example.shape[1:], generator=generator)
        for name, found, expected in zip(graph.names, run(images), graph(images), strict=True):
            difference = relative_difference(found, expected)
            if not difference <= tolerance:  # NaN is not
                raise ExportError(
                    f"{engine} computes {name} of {count} images differently from PyTorch: by "
                    f"{difference:.2g}, where {tolerance:.2g} is allowed. Nothing was exported."
                )
            largest = max(largest, difference)
    return largest


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """The largest difference of two tensors, relative to the largest value or to 1."""
    if found.shape != expected.shape:
        return float("inf")
    difference = (found.double() - expected.double()).abs().max()
    return float(difference / expected.double().abs().max().clamp_min(1))


def _check_example(example: Tensor) -> Tensor:
    if example.ndim != 4 or example.shape[1] != 3 or not example.is_floating_point():
        raise ConfigError(
            f"the example must be prepared images, float [N, 3, H, W], got {example.dtype} "
            f"{list(example.shape)}"
        )
    # Tracing takes a size of 1 for a constant: the example needs at least two images.
    return example.detach().cpu().expand(max(2, len(example)), -1, -1, -1).contiguous()


def _single_name(model: nn.Module) -> str:
    return "embedding" if isinstance(model, OpenWorldModel) else "logits"


def _tools_error(error: Exception) -> ExportToolsError:
    return ExportToolsError(
        f"ONNX cannot be written, since its packages do not fit: {_first_line(error)}. "
        "Install onnx, onnxscript, onnx-ir and ml_dtypes in versions made for this torch."
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
