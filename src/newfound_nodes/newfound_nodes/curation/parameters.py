# SPDX-License-Identifier: Apache-2.0
"""The parameters of the curator."""

from newfound_runtime.parameters import Parameter

PARAMETERS = (
    Parameter("detector", "open_world_detector", "Name of the detector's node."),
    Parameter("web_query", "web_query", "Name of the node that is asked for labels and images."),
    Parameter(
        "state_folder",
        "",
        "Where proposals are kept; empty: newfound/<name of the node> below $ROS_HOME.",
    ),
    Parameter(
        "image_folder",
        "",
        "The image_folder of web_query, from which fetched images are read; empty: its default.",
    ),
    # What goes on without a person.
    Parameter(
        "auto_confirm",
        1.0,
        "Confidence above which the best label is taken unasked; 1: a person is always asked.",
        0.0,
        1.0,
        live=True,
    ),
    Parameter("max_candidates", 5, "Labels to ask for.", 1, 100, live=True),
    Parameter(
        "fetch_images", 20, "Images to fetch of a label; 0: crops alone.", 0, 150, live=True
    ),
    # Patience.
    Parameter("label_timeout", 30.0, "For an answer to query_label, s.", 0.1, 300.0, live=True),
    Parameter("fetch_timeout", 90.0, "For an answer to fetch_images, s.", 0.1, 300.0, live=True),
    Parameter(
        "answer_patience",
        10.0,
        "For any answer, beyond the service's own time limit, s.",
        0.1,
        300.0,
        live=True,
    ),
    Parameter("attempts", 3, "That may fail, before it goes on without.", 1, 100, live=True),
    Parameter("first_wait", 1.0, "After a failed attempt, s; doubled each time.", 0.01, 60.0),
    Parameter("longest_wait", 60.0, "Between two attempts, s.", 0.01, 3600.0),
    Parameter(
        "silence", 30.0, "Without news of a job, before the detector is asked, s.", 0.1, 3600.0
    ),
    Parameter("max_open", 100, "Proposals at a time; further objects wait.", 1, 10000),
)
