# SPDX-License-Identifier: Apache-2.0
"""`export`: a checkpoint as ONNX or as a `torch.export` program, checked against the model."""

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from newfound_core.errors import ConfigError
from newfound_core.export import ExportReport, export_onnx, save_program
from newfound_core.models import load_model
from newfound_training.running.command import Command, Run
from newfound_training.running.options import OutputOptions, option

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExportOptions(OutputOptions):
    """Options of `export`."""

    checkpoint: str = option("", "folder of the model", required=True)
    format: Literal["onnx", "program"] = option("onnx", "program is a file of torch.export")
    tolerance: float = option(1e-4, "largest difference to the model, relative to its outputs")

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise ConfigError(f"tolerance must be positive, got {self.tolerance}")


Exporter = Callable[..., ExportReport]
EXPORTERS: dict[str, tuple[str, Exporter]] = {
    "onnx": ("model.onnx", export_onnx),
    "program": ("model.pt2", save_program),
}


def run_export(options: ExportOptions, run: Run) -> dict[str, Any]:
    """Write the graph into `<out>`, if it computes what the model computes."""
    loaded = load_model(options.checkpoint)
    name, export = EXPORTERS[options.format]
    report = export(
        loaded.model,
        example_for(loaded.metadata.preprocessing.size),
        run.out / name,
        tolerance=options.tolerance,
    )
    _log.info("%s written, %.1f MB", report.path, report.size_bytes / 2**20)
    return {
        "file": name,
        "format": options.format,
        "method": loaded.metadata.method,
        "classes": list(loaded.labels),
        "preprocessing": asdict(loaded.metadata.preprocessing),
        "inputs": list(report.inputs),
        "outputs": list(report.outputs),
        "size_bytes": report.size_bytes,
        "largest_difference": report.largest_difference,
    }


def example_for(size: int) -> Tensor:
    """Images of the size that the model takes."""
    return torch.zeros(2, 3, size, size)


COMMAND = Command(
    "export",
    "Writes a checkpoint as a graph for another inference engine, and checks it.",
    ExportOptions,
    run_export,
    {
        "file, format": "what was written beside result.json",
        "method, classes, preprocessing": "of the model: the graph takes prepared images",
        "inputs, outputs": "names of the graph's tensors",
        "size_bytes": "of the file",
        "largest_difference": "between graph and model, relative to the largest output or to 1",
    },
)
