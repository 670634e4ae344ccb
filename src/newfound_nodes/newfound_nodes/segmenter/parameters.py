# SPDX-License-Identifier: Apache-2.0
"""The parameters of the segmenter, and the settings of its parts made of them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from newfound_core.errors import ConfigError
from newfound_core.learning.job import SegmentOptions
from newfound_nodes import tasks
from newfound_nodes.adaptation import prediction
from newfound_nodes.adaptive_classifier import AdaptiveClassifier
from newfound_nodes.model_node import inference_config
from newfound_nodes.open_world import parameters as open_world
from newfound_nodes.segmenter.session import SegmentConfig
from newfound_runtime.parameters import Parameter
from newfound_runtime.shipped_models import find_checkpoint

SMALLEST, LARGEST = 32, 1024  # of the network's input, pixels
# Those that mean the same in the detector.
_SHARED = (
    "knowledge_base",
    "package_keys",
    "signed_packages_only",
    "versions_kept",
    "queue_limit",
    "learning_timeout",
    "learning_threads",
    "learning_niceness",
)
# Off unless asked for: it gained two points in the one light it was measured in.
_ADAPTATION = tuple(
    replace(parameter, default=False) if parameter.name == "adapt" else parameter
    for parameter in AdaptiveClassifier.PARAMETERS
    if parameter not in (*prediction.PARAMETERS, *tasks.PARAMETERS)
    and parameter.name != "checkpoint"
)
PARAMETERS = (
    Parameter(
        "checkpoint",
        "rooms_segments",
        "Checkpoint of method segmentation, a folder or the name of a shipped one: the first "
        "version of the knowledge base. Must exist, but is not read where there is knowledge "
        "already.",
    ),
    *(p for p in open_world.PARAMETERS if p.name in _SHARED),
    Parameter(
        "working_size",
        0,
        f"Side of the network's square input (pixels), {SMALLEST} to {LARGEST}; 0: that of the "
        "checkpoint. Larger: finer masks, slower.",
        minimum=0,
        maximum=LARGEST,
    ),
    Parameter(
        "min_confidence",
        -1.0,
        "Probability below which a pixel is 255, unknown; 0: every pixel gets a class; -1: what "
        "the checkpoint says.",
        minimum=-1.0,
        maximum=1.0,
        live=True,
    ),
    *_ADAPTATION,
    Parameter(
        "max_accuracy_loss",
        0.1,
        "Maximum loss of the known classes' pixels that are found, on average; beyond it a job is "
        "rejected.",
        0.0,
        1.0,
        live=True,
    ),
    Parameter(
        "max_class_loss",
        0.5,
        "Maximum share that any one known class may lose of its pixels that are found; 1: neither "
        "single classes nor the recognition of the new one are checked.",
        0.0,
        1.0,
        live=True,
    ),
    Parameter(
        "min_new_accuracy",
        0.1,
        "Intersection over union that the new class must exceed on images held out.",
        0.0,
        1.0,
        live=True,
    ),
    Parameter(
        "learning_iterations",
        0,
        "Steps of training for a new class; 0: as many as suit twenty images.",
        0,
        100_000,
        live=True,
    ),
)

Param = Callable[[str], Any]  # the value of a parameter by its name


def segment_config(param: Param, node: str) -> SegmentConfig:
    """Where the knowledge base is, and how the network runs."""
    checkpoint, size = param("checkpoint"), param("working_size")
    if 0 < size < SMALLEST:
        raise ConfigError(f"working_size must be 0 or at least {SMALLEST}, got {size}")
    return SegmentConfig(
        root=Path(param("knowledge_base") or open_world.default_root(node)).expanduser(),
        shipped=find_checkpoint(checkpoint) if checkpoint else None,
        device=param("device"),
        inference=inference_config(param, adapt=param("adapt")),
        working_size=size,
        versions_kept=param("versions_kept"),
        queue_limit=param("queue_limit"),
        learning_timeout=param("learning_timeout"),
        learner=open_world.learner(param),
    )


def segment_options(param: Param) -> SegmentOptions:
    """How a class is learned."""
    return SegmentOptions(
        iterations=param("learning_iterations") or None,
        max_accuracy_loss=param("max_accuracy_loss"),
        max_class_loss=param("max_class_loss"),
        min_new_accuracy=param("min_new_accuracy"),
    )
