# SPDX-License-Identifier: Apache-2.0
"""`train_task`: images in, a task of a few hundred kilobytes over a shared network out."""

import logging
from typing import Any

import torch
from torch import nn

from newfound_core.checkpoint import TENSORS_NAME
from newfound_core.models import write_model_card
from newfound_core.task_delta.checkpoint import Base, save_delta
from newfound_core.task_delta.config import TaskDeltaConfig
from newfound_core.task_delta.delta import extract
from newfound_core.task_delta.layers import mask_statistics
from newfound_training.running.command import Command, Run
from newfound_training.running.training import train
from newfound_training.tasks.data import open_task
from newfound_training.tasks.options import TaskOptions
from newfound_training.tasks.task import TaskTraining, build_task_model

_log = logging.getLogger(__name__)


def run_train_task(options: TaskOptions, run: Run) -> dict[str, Any]:
    """Train, and write the delta into `<out>/checkpoint`."""
    data = open_task(options.images(), options.decoding(), run)
    base = options.load_base()
    torch.manual_seed(run.seed)  # the scores and the head start from random values
    config, classes = options.config(), len(data.class_names)
    places = options.head == "places"
    model = build_task_model(base, options, classes, places=places, config=config)
    task = TaskTraining(data, model, config, options, run)
    metrics = train(task, options, run)
    return finished(task, config, base, metrics, run)


def finished(
    task: TaskTraining, config: TaskDeltaConfig, base: Base, metrics: dict[str, float], run: Run
) -> dict[str, Any]:
    """Write the delta, and say what came of the training."""
    backbone = task.model.backbone
    assert isinstance(backbone, nn.Module)
    size = 0
    if run.process_group.is_main_process:
        folder = save_delta(
            run.out / "checkpoint",
            task.model,
            config,
            base,
            labels=task.data.class_names,
            preprocessing=task.preprocessing,
            provenance=run.provenance(metrics),
            replace=True,
        )
        size = (folder / TENSORS_NAME).stat().st_size
        write_model_card(
            folder,
            f"Task over {base.name}: {', '.join(task.data.class_names[:8])}",
            "A delta: it needs the network it was trained on, given as `base`. Load it with "
            "`load_model(directory, base=…)`.",
            {"base (SHA-256)": base.digest, "training images": len(task.data.training)},
        )
        _log.info("delta of %.0f KiB written to %s", size / 1024, folder)
    return {
        "checkpoint": "checkpoint",
        "classes": list(task.data.class_names),
        "training_images": len(task.data.training),
        "held_out_images": len(task.data.held_out),
        "corrupt_images": [*task.data.training.corrupt, *task.data.held_out.corrupt],
        "variant": config.variant,
        "base_sha256": base.digest,
        "size_bytes": size,
        "size_without_head_bytes": extract(backbone, config).size_bytes,
        **mask_statistics(backbone),
        **metrics,
    }


RESULT_KEYS = {
    "checkpoint": "the delta, a folder relative to result.json",
    "classes": "names, in the order of the model's outputs",
    "training_images, held_out_images": "how many were trained on and measured on",
    "corrupt_images": "names of those left out",
    "variant, base_sha256": "what the task may change, and the digest of the network it needs",
    "size_bytes, size_without_head_bytes": "of the delta's file, and of its tensors without those "
    "of the head",
    "bits_set, empty_rows": "share of the masks' bits that are 1; output channels with none "
    "(variants with masks)",
    "k0, k1, k2, k3": "mean size of the masks' factors over all layers",
    "accuracy": "share of the held-out images recognised, 0 to 1",
}

COMMAND = Command(
    "train-task",
    "Trains a task as a delta of a network that it shares with other tasks (BAT).",
    TaskOptions,
    run_train_task,
    RESULT_KEYS,
)
