# SPDX-License-Identifier: Apache-2.0
"""The parameters of the open-world detector."""

from newfound_runtime.parameters import Parameter

PARAMETERS = (
    Parameter(
        "checkpoint",
        "bench_bdoc",
        "Open-world model, a folder or the name of a shipped one: the first version of the "
        "knowledge. Not read where there is knowledge already, but it must be there.",
    ),
    Parameter(
        "knowledge_base",
        "",
        "Folder of the knowledge base; empty: newfound/<name of the node> below $ROS_HOME.",
    ),
    Parameter("versions_kept", 10, "Versions of the knowledge on disk.", 2, 1000),
    Parameter("device", "cpu", "Where the model runs: cpu, cuda, cuda:1."),
    # Finding objects.
    Parameter(
        "proposer",
        "depth",
        "How objects are found: by depth, by a region network, or the image is the object.",
        choices=("whole_image", "depth", "rpn"),
    ),
    Parameter("proposer_checkpoint", "", "Model of the region network; for the proposer rpn."),
    Parameter("depth_topic", "depth", "Depth image registered to the colour image."),
    Parameter("depth_tolerance", 0.05, "Depth may be so much older or younger, s.", 0.0, 10.0),
    Parameter("depth_patience", 0.1, "So long is depth waited for, s.", 0.0, 10.0),
    Parameter("min_relief", 0.008, "Objects stand out so much, per metre away.", 0.0001, 1.0),
    Parameter("plane_tolerance", 0.005, "How uneven the plane is, per metre.", 0.0001, 1.0),
    Parameter("min_area", 0.0008, "Smallest object, as a share of the image.", 0.000001, 1.0),
    Parameter("max_area", 0.4, "Largest object, as a share of the image.", 0.000001, 1.0),
    Parameter("max_regions", 10, "Objects looked at in a frame, at most.", 1, 200),
    Parameter(
        "min_objectness",
        -1.0,
        "Regions below this are no objects; negative: what suits the proposer, 0.3 of depth and "
        "0.5 of rpn.",
        -1.0,
        1.0,
    ),
    Parameter("max_overlap", 0.5, "IoU above which two boxes are one object.", 0.0, 1.0),
    Parameter("crop_margin", 0.15, "Added around a box, as a share of its side.", 0.0, 2.0),
    # Unknown objects.
    Parameter("announce_after", 5, "Sightings after which an unknown is announced.", 1, 10000),
    Parameter("same_similarity", 0.85, "Cosine above which two things are one.", 0.01, 1.0),
    Parameter("max_unknowns", 100, "Unknown objects kept, at most.", 1, 10000),
    Parameter("max_unknown_days", 7.0, "Unknowns not seen for longer are removed.", 0.001, 3650.0),
    Parameter("crops_kept", 24, "Views kept of each unknown object, for learning.", 2, 200),
    Parameter("crop_gap", 3, "Frames between two of them, so that they differ.", 1, 1000),
    Parameter("crops_published", 4, "Views in an UnknownObject message.", 1, 200, live=True),
    # Learning.
    Parameter("queue_limit", 10, "Learning jobs that may wait, the running one included.", 1, 100),
    Parameter(
        "extend_known",
        False,
        "A request with the name of a known class teaches that class further views, instead of "
        "being refused.",
        live=True,
    ),
    Parameter(
        "max_accuracy_loss",
        0.1,
        "What known classes may lose on the held-out memory; beyond it a job is rejected.",
        0.0,
        1.0,
        live=True,
    ),
    Parameter(
        "max_class_loss",
        0.5,
        "The share that any one known class may lose of what is recognised of it; 1: single "
        "classes are not looked at, and not whether the new one is recognised.",
        0.0,
        1.0,
        live=True,
    ),
    Parameter(
        "learning_epochs",
        0,
        "How long the network is trained for a class; 0: it stays as it is.",
        0,
        1000,
        live=True,
    ),
    Parameter(
        "learning_patience",
        600.0,
        "A job whose process makes no progress for so long has failed, s.",
        1.0,
        86400.0,
    ),
    Parameter("learning_threads", 0, "Cores that learning may take; 0: all.", 0, 1024),
    Parameter("learning_niceness", 10, "By how much learning steps back for others.", 0, 19),
)
