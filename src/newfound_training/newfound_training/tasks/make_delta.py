# SPDX-License-Identifier: Apache-2.0
"""`make_delta`: the signs of a fine-tuning's step, stored as a task.

Any model that was fine-tuned from a base becomes a delta of it: a bit says in which direction a
weight moved, two numbers per layer how far, and a short training of k, normalisation and head
makes up for what is lost.
"""

from typing import Any

import torch
from torch import nn

from newfound_core.errors import CheckpointError, ConfigError
from newfound_core.models import load_model
from newfound_core.places import PlaceClassifier
from newfound_core.task_delta.checkpoint import INNER_METHODS, Base
from newfound_core.task_delta.config import TaskDeltaConfig
from newfound_core.task_delta.layers import start_from_fine_tuned
from newfound_core.tensors import mismatches
from newfound_training.running.command import Command, Run
from newfound_training.running.training import train
from newfound_training.tasks.data import TaskData, open_task
from newfound_training.tasks.options import MakeDeltaOptions, TaskTrainingOptions
from newfound_training.tasks.task import TaskTraining, build_task_model
from newfound_training.tasks.train import RESULT_KEYS, finished


def run_make_delta(options: MakeDeltaOptions, run: Run) -> dict[str, Any]:
    """Make the delta and train its remaining parts; it goes into `<out>/checkpoint`."""
    loaded = load_model(options.checkpoint, INNER_METHODS)
    size = loaded.metadata.preprocessing.size
    if options.image_size != size:
        raise ConfigError(
            f"{options.checkpoint} takes images of {size} pixels, not {options.image_size}: give "
            f"--image-size {size}"
        )
    data = open_task(options.images(), options.decoding(), run)
    if data.class_names != loaded.labels:
        raise CheckpointError(
            f"{options.checkpoint} knows {', '.join(loaded.labels)}, but the images are of "
            f"{', '.join(data.class_names)}: give the images it was trained on"
        )
    base = options.load_base()
    task, config = delta_of(loaded.model, base, data, options, run)
    if task.preprocessing != loaded.metadata.preprocessing:
        raise CheckpointError(
            f"{options.checkpoint} takes images as {loaded.metadata.preprocessing}, not as its "
            f"base, {task.preprocessing}"
        )
    metrics = train(task, options, run)
    return finished(task, config, base, metrics, run)


def delta_of(
    fine_tuned: nn.Module, base: Base, data: TaskData, options: TaskTrainingOptions, run: Run
) -> tuple[TaskTraining, TaskDeltaConfig]:
    """The training of what is left after the signs were taken."""
    trunk = fine_tuned.backbone
    assert isinstance(trunk, nn.Module)
    tuned = trunk.state_dict()
    same = all(torch.equal(tuned[name], tensor) for name, tensor in base.tensors.items()
               if name in tuned and name.endswith(("running_mean", "running_var")))  # fmt: skip
    # A step of the fine-tuning's rate in units of weights would be larger than k itself.
    config = TaskDeltaConfig(
        "full",
        unit="relative",
        keep_dead=options.keep_dead,
        norm_statistics="base" if same else "task",
    )
    places = isinstance(fine_tuned, PlaceClassifier)
    classes = len(data.class_names)
    model = build_task_model(base, options, classes, places=places, config=config)
    problems = mismatches(base.tensors, tuned)
    if problems:
        raise CheckpointError(
            f"the checkpoint was not fine-tuned from {base.name}: {'; '.join(problems)}"
        )
    assert isinstance(model.backbone, nn.Module)
    start_from_fine_tuned(model.backbone, tuned)
    assert isinstance(fine_tuned.classifier, nn.Module)
    model.classifier.load_state_dict(fine_tuned.classifier.state_dict())
    return TaskTraining(data, model, config, options, run, trained_head=True), config


COMMAND = Command(
    "make-delta",
    "Makes a delta of a fine-tuned model: the signs of what changed, then a short training.",
    MakeDeltaOptions,
    run_make_delta,
    RESULT_KEYS,
)
