# SPDX-License-Identifier: Apache-2.0
"""`apply_delta`: a delta and its base as one ordinary checkpoint."""

from dataclasses import dataclass
from typing import Any

from newfound_core.checkpoint import TENSORS_NAME, load_checkpoint, save_checkpoint
from newfound_core.models import load_resolved, model_of, write_model_card
from newfound_training.running.command import Command, Run
from newfound_training.running.options import OutputOptions, option


@dataclass(frozen=True)
class ApplyOptions(OutputOptions):
    """Options of `apply-delta`."""

    checkpoint: str = option("", "folder of the delta", required=True)
    base: str = option("", "its base: a checkpoint, a file of weights, imagenet", required=True)


def run_apply_delta(options: ApplyOptions, run: Run) -> dict[str, Any]:
    """Write the plain model into `<out>/checkpoint`."""
    load_checkpoint(options.checkpoint, "delta")
    applied = load_resolved(options.checkpoint, base=options.base)
    model_of(applied)  # nothing is written that could not be loaded
    folder = save_checkpoint(
        run.out / "checkpoint", applied.metadata, applied.tensors, replace=True
    )
    write_model_card(
        folder,
        "An applied delta",
        f"What {options.checkpoint} makes of {options.base}; it needs no base any more.",
        {"delta (SHA-256)": applied.digest},
    )
    return {
        "checkpoint": "checkpoint",
        "method": applied.metadata.method,
        "classes": list(applied.metadata.labels),
        "size_bytes": (folder / TENSORS_NAME).stat().st_size,
    }


COMMAND = Command(
    "apply-delta",
    "Writes a delta and its base as one plain checkpoint.",
    ApplyOptions,
    run_apply_delta,
    {
        "checkpoint": "the plain model, a folder relative to result.json",
        "method, classes": "of the model",
        "size_bytes": "of its file",
    },
)
