# SPDX-License-Identifier: Apache-2.0
"""From the node's parameters to the settings of its parts."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from newfound_core.detection.depth_relief import DepthReliefConfig
from newfound_core.detection.detector import DetectorConfig
from newfound_core.detection.unknowns import UnknownsConfig
from newfound_core.open_world.job import LearningOptions
from newfound_nodes.model_node import find_checkpoint
from newfound_nodes.open_world.mind import MindConfig

Param = Callable[[str], Any]  # the value of a parameter by its name


def detector_config(param: Param) -> DetectorConfig:
    """Which regions are looked at."""
    return DetectorConfig(
        max_regions=param("max_regions"),
        min_objectness=param("min_objectness"),
        max_overlap=param("max_overlap"),
        margin=param("crop_margin"),
    )


def relief_config(param: Param) -> DepthReliefConfig:
    """What counts as an object on a plane."""
    names = ("min_relief", "plane_tolerance", "min_area", "max_area")
    return DepthReliefConfig(**{name: param(name) for name in names})


def mind_config(param: Param, node: str) -> MindConfig:
    """Where knowledge is, and how much is kept."""
    home = Path(os.environ.get("ROS_HOME", "~/.ros")).expanduser()
    default = home / "newfound" / node.strip("/")
    checkpoint = param("checkpoint")
    return MindConfig(
        root=Path(param("knowledge_base") or default).expanduser(),
        shipped=find_checkpoint(checkpoint) if checkpoint else None,
        device=param("device"),
        versions_kept=param("versions_kept"),
        unknowns=UnknownsConfig(
            announce_after=param("announce_after"),
            same_similarity=param("same_similarity"),
            max_unknowns=param("max_unknowns"),
            max_age=86400 * param("max_unknown_days"),
            crops=param("crops_kept"),
            crop_gap=param("crop_gap"),
        ),
        queue_limit=param("queue_limit"),
        learning_patience=param("learning_patience"),
        learner=_learner(param),
    )


def learning_options(param: Param) -> LearningOptions:
    """How a class is learned."""
    return LearningOptions(
        epochs=param("learning_epochs"),
        max_accuracy_loss=param("max_accuracy_loss"),
        max_class_loss=param("max_class_loss"),
    )


def _learner(param: Param) -> tuple[str, ...]:
    options = {name: str(param(f"learning_{name}")) for name in ("threads", "niceness")}
    flags = [part for name, value in options.items() for part in (f"--{name}", value)]
    return (sys.executable, "-m", "newfound_training", "learn", *flags, "--job")
