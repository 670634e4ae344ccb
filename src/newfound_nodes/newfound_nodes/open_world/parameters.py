# SPDX-License-Identifier: Apache-2.0
"""The parameters of the open-world detector, and the settings of its parts made of them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from newfound_core.detection.announcements import region_problem
from newfound_core.detection.depth_segments import DepthSegments, DepthSegmentsConfig
from newfound_core.detection.detector import DetectorConfig
from newfound_core.detection.fused_proposer import FusedProposer
from newfound_core.detection.light_shift import LightShiftConfig
from newfound_core.detection.proposals import CameraView, Proposer, WholeImage
from newfound_core.detection.unknown_store import UnknownsConfig
from newfound_core.errors import ConfigError
from newfound_core.learning.job import LearningOptions
from newfound_nodes.knowledge.learning_queue import COMMAND
from newfound_nodes.model_node import BACKEND_PARAMETERS, inference_config
from newfound_nodes.open_world.session import SessionConfig
from newfound_runtime.parameters import Parameter
from newfound_runtime.shipped_models import find_checkpoint

# Parameters that are settings of the same name in UnknownsConfig.
_UNKNOWNS = (
    "announce_after",
    "min_unknown_size",
    "min_stability",
    "region_of_interest",
    "same_similarity",
    "same_place_similarity",
    "same_place_seconds",
    "max_unknowns",
)
PARAMETERS = (
    Parameter(
        "checkpoint",
        "blank",
        "Open-world model, a folder or the name of a shipped one: the first version of the "
        "knowledge base. Must exist, but is not read where there is knowledge already.",
    ),
    Parameter(
        "knowledge_base",
        "",
        "Folder of the knowledge base; empty: newfound/<name of the node> below $ROS_HOME.",
    ),
    Parameter(
        "knowledge_owner",
        "",
        "Node whose knowledge base is shared, such as /front/open_world_detector: what it learns "
        "is known here, and unknown objects are reported to it; empty: this node has its own.",
    ),
    Parameter(
        "package_keys",
        "",
        "Folder with signing.pem and trusted/*.pub for packages; empty: newfound/keys below "
        "$ROS_HOME.",
    ),
    Parameter(
        "signed_packages_only",
        True,
        "Import packages only if a trusted key has signed them; false: any package.",
        live=True,
    ),
    Parameter("versions_kept", 10, "Versions of the knowledge kept on disk.", 2, 1000),
    *BACKEND_PARAMETERS,
    # Adaptation.
    Parameter(
        "adapt",
        False,
        "Let the classes that were learned here follow the light; false: as they were learned.",
        live=True,
    ),
    Parameter("freeze", False, "Keep them where they are now.", live=True),
    Parameter(
        "adaptation_window",
        16,
        "Latest images that say what the light is; those that look alike count once.",
        10,
        1000,
    ),
    Parameter(
        "adaptation_min_classes",
        2,
        "Learned classes that must be recognised in them; one says more of itself than of light.",
        1,
        100,
    ),
    # Detection.
    Parameter(
        "proposer",
        "depth",
        "How objects are found: as segments of depth on a support surface, as regions of colour "
        "by a network, by both together (fused), or the whole image is one.",
        choices=("whole_image", "depth", "regions", "fused"),
    ),
    Parameter(
        "proposer_checkpoint",
        "regions",
        "Model of the region network, for the proposers regions and fused: a folder or a name.",
    ),
    Parameter("depth_topic", "depth", "Depth image registered to the colour image."),
    Parameter(
        "depth_transport",
        "raw",
        "raw: sensor_msgs/Image; compressedDepth: CompressedImage on the sibling topic, PNG.",
        choices=("raw", "compressedDepth"),
    ),
    Parameter(
        "depth_tolerance",
        0.05,
        "Maximum difference of the stamps of colour and depth (s).",
        0.0,
        10.0,
    ),
    Parameter("depth_timeout", 0.1, "Maximum wait for a matching depth image (s).", 0.0, 10.0),
    Parameter(
        "camera_info_topic",
        "",
        "sensor_msgs/CameraInfo of the depth image; empty: a usual focal length is assumed, and "
        "there are no positions.",
    ),
    Parameter(
        "camera_pitch",
        -1.0,
        "Angle by which the camera looks down (degrees), to tell a table from a wall; negative: "
        "unknown.",
        -1.0,
        90.0,
    ),
    Parameter(
        "min_height",
        0.003,
        "Depth: minimum height of an object above its support (m), besides the measured noise.",
        0.0001,
        1.0,
    ),
    Parameter("min_area", 0.0008, "Smallest object, as a share of the image.", 0.000001, 1.0),
    Parameter("max_area", 0.4, "Largest object, as a share of the image.", 0.000001, 1.0),
    Parameter("max_regions", 10, "Maximum number of objects per frame.", 1, 200),
    Parameter(
        "min_objectness",
        -1.0,
        "Minimum objectness of a region; negative: the default of the proposer, 0.4 for depth and "
        "fused, the checkpoint's own for regions, 0 for whole_image.",
        -1.0,
        1.0,
    ),
    Parameter("max_overlap", 0.5, "IoU above which two boxes are one object.", 0.0, 1.0),
    Parameter(
        "crop_margin", 0.15, "Margin around a box, as a share of its longer side.", 0.0, 2.0
    ),
    # Positions.
    Parameter(
        "positions",
        False,
        "Measure where detections are; false: only while detections_3d or markers has a "
        "subscriber.",
        live=True,
    ),
    Parameter(
        "target_frame",
        "",
        "Fixed frame that positions are also given in, such as map; empty: none.",
    ),
    Parameter(
        "camera_pose_topic",
        "",
        "geometry_msgs/PoseStamped of the camera's optical frame in target_frame; empty: by tf2.",
    ),
    Parameter(
        "transform_tolerance",
        0.1,
        "Maximum age of its transform, or distance in time of its pose, from the image (s).",
        0.0,
        3600.0,
    ),
    # Unknown objects.
    Parameter(
        "announce_after", 5, "Sightings after which an unknown object is announced.", 1, 10000
    ),
    Parameter(
        "min_unknown_size",
        24.0,
        "Smallest unknown object that is announced: square root of the area of its box (pixels).",
        0.0,
        10000.0,
    ),
    Parameter(
        "min_stability",
        0.5,
        "Stability above which an unknown object is announced: the share of its sightings that "
        "follow one in the frame before, times how little its shape and its embedding change.",
        0.0,
        1.0,
    ),
    Parameter(
        "region_of_interest",
        [0.0, 0.0, 1.0, 1.0],
        "Left, top, right, bottom as shares of the image: unknown objects whose centre is outside "
        "are detected, but not announced.",
        check=region_problem,
    ),
    Parameter(
        "same_similarity",
        0.9,
        "Cosine similarity above which two unknown objects are one.",
        0.01,
        1.0,
    ),
    Parameter(
        "same_place_similarity",
        0.7,
        "The same for an object at the place of one that was there a moment ago.",
        0.01,
        1.0,
    ),
    Parameter(
        "same_place_seconds",
        5.0,
        "How long ago that may be (s).",
        0.0,
        3600.0,
    ),
    Parameter(
        "max_unknowns",
        100,
        "Maximum number of unknown objects kept, beside as many that were dismissed.",
        1,
        10000,
    ),
    Parameter(
        "max_unknown_days",
        7.0,
        "Unknown objects not seen for longer are removed, but for dismissed ones (days).",
        0.001,
        3650.0,
    ),
    Parameter("crops_kept", 24, "Views kept of each unknown object, for learning.", 2, 200),
    Parameter("crop_gap", 3, "Minimum number of frames between two of them.", 1, 1000),
    Parameter("crops_published", 4, "Views in an UnknownObject message.", 1, 200, live=True),
    # What is published.
    Parameter(
        "shown_classes",
        [""],
        "Classes of the detections that are published, `unknown_class_id` for unknown objects; "
        "empty: all. Unknown objects are announced in any case.",
        live=True,
    ),
    Parameter(
        "min_score",
        0.0,
        "Minimum score of published detections.",
        0.0,
        1.0,
        live=True,
    ),
    # Messages for other packages.
    Parameter(
        "unknown_class_id",
        "unknown",
        "class_id of an unknown object in vision_msgs messages; empty: it has no hypothesis.",
        live=True,
    ),
    # Learning.
    Parameter(
        "queue_limit", 10, "Maximum number of learning jobs, the running one included.", 1, 100
    ),
    Parameter(
        "extend_known",
        False,
        "Let a request with the label of a known class add views to it, instead of refusing it.",
        live=True,
    ),
    Parameter(
        "max_accuracy_loss",
        0.1,
        "Maximum loss of accuracy of the known classes on the held-out memory; beyond it a job is "
        "rejected.",
        0.0,
        1.0,
        live=True,
    ),
    Parameter(
        "max_class_loss",
        0.5,
        "Maximum share that any one known class may lose of what is recognised of it; 1: neither "
        "single classes nor the recognition of the new one are checked.",
        0.0,
        1.0,
        live=True,
    ),
    Parameter(
        "learning_epochs",
        0,
        "Epochs of training for a new class; 0: the network stays as it is.",
        0,
        1000,
        live=True,
    ),
    Parameter(
        "learning_timeout",
        600.0,
        "A job fails when its process makes no progress for this long (s).",
        1.0,
        86400.0,
    ),
    Parameter(
        "learning_threads", 0, "CPU threads of the learning process; 0: all cores.", 0, 1024
    ),
    Parameter("learning_niceness", 10, "Niceness added to the learning process.", 0, 19),
    Parameter(
        "learning_in_process",
        True,
        "Learn in a thread where nothing trains (learning_epochs 0): a process of its own takes "
        "longer to start than the class to learn.",
    ),
)

Param = Callable[[str], Any]  # the value of a parameter by its name


def detector_config(param: Param) -> DetectorConfig:
    """Which regions are classified."""
    return DetectorConfig(
        max_regions=param("max_regions"),
        min_objectness=param("min_objectness"),
        max_overlap=param("max_overlap"),
        margin=param("crop_margin"),
    )


def camera_view(param: Param) -> CameraView:
    """What is known of the depth camera before its camera_info came."""
    pitch = param("camera_pitch")
    return CameraView(up=CameraView.up_at_pitch(pitch) if pitch >= 0 else None)


def default_root(node: str) -> Path:
    """Where a node keeps what it knows."""
    home = Path(os.environ.get("ROS_HOME", "~/.ros")).expanduser()
    return home / "newfound" / node.strip("/")


def session_config(param: Param, node: str) -> SessionConfig:
    """Where the knowledge base is, and how much is kept; `node` is its owner."""
    default = default_root(node)
    checkpoint = param("checkpoint")
    return SessionConfig(
        root=Path(param("knowledge_base") or default).expanduser(),
        shipped=find_checkpoint(checkpoint) if checkpoint else None,
        device=param("device"),
        inference=inference_config(param),
        versions_kept=param("versions_kept"),
        unknowns=UnknownsConfig(
            **{name: param(name) for name in _UNKNOWNS},
            max_age=86400 * param("max_unknown_days"),
            crops=param("crops_kept"),
            crop_gap=param("crop_gap"),
        ),
        queue_limit=param("queue_limit"),
        learning_timeout=param("learning_timeout"),
        learner=learner(param),
        learn_in_process=param("learning_niceness") if param("learning_in_process") else None,
        light=LightShiftConfig(
            window=param("adaptation_window"), min_classes=param("adaptation_min_classes")
        ),
        adapt=param("adapt"),
    )


def learning_options(param: Param) -> LearningOptions:
    """How a class is learned."""
    return LearningOptions(
        epochs=param("learning_epochs"),
        max_accuracy_loss=param("max_accuracy_loss"),
        max_class_loss=param("max_class_loss"),
    )


def learner(param: Param) -> tuple[str, ...]:
    """The command of the learning process."""
    options = {name: str(param(f"learning_{name}")) for name in ("threads", "niceness")}
    flags = [part for name, value in options.items() for part in (f"--{name}", value)]
    return (*COMMAND[:-1], *flags, COMMAND[-1])


def make_proposer(param: Param) -> Proposer:
    """The proposer that is asked for; raises a NewfoundError if its model cannot be loaded."""
    name = param("proposer")
    if name == "depth":
        return _depth_proposer(param)
    if name == "regions":
        return _region_proposer(param)
    if name == "fused":
        return FusedProposer(_depth_proposer(param), _region_proposer(param))
    return WholeImage()


def _depth_proposer(param: Param) -> DepthSegments:
    names = ("min_height", "min_area", "max_area")
    config = DepthSegmentsConfig(**{name: param(name) for name in names})
    return DepthSegments(config, camera_view(param))


def _region_proposer(param: Param) -> Proposer:
    from newfound_core.detection.region_proposer import load_region_proposer

    if not param("proposer_checkpoint"):
        raise ConfigError(
            f"the proposer {param('proposer')} needs a model: set proposer_checkpoint to a folder "
            "of train_detector or to a file with torchvision's weights"
        )
    model = find_checkpoint(param("proposer_checkpoint"))
    return load_region_proposer(str(model), param("device"))
