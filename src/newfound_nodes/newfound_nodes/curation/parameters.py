# SPDX-License-Identifier: Apache-2.0
"""The parameters of the curator."""

from newfound_runtime.parameters import Parameter

PARAMETERS = (
    Parameter("detector", "open_world_detector", "Name of the detector's node."),
    Parameter("web_query", "web_query", "Name of the node that provides labels and images."),
    Parameter(
        "state_folder",
        "",
        "Folder of the proposals; empty: newfound/<name of the node> below $ROS_HOME.",
    ),
    Parameter(
        "image_folder",
        "",
        "The image_folder of web_query, from which fetched images are read; empty: its default.",
    ),
    # Automation.
    Parameter(
        "auto_confirm",
        1.0,
        "Confidence above which the best label is confirmed automatically; 1: never.",
        0.0,
        1.0,
        live=True,
    ),
    Parameter("max_candidates", 5, "Number of labels to query.", 1, 100, live=True),
    Parameter(
        "fetch_images",
        20,
        "Number of images to fetch for a label; 0: learn from crops alone.",
        0,
        150,
        live=True,
    ),
    # Timeouts and retries.
    Parameter("label_timeout", 30.0, "Time limit of query_label (s).", 0.1, 300.0, live=True),
    Parameter("fetch_timeout", 90.0, "Time limit of fetch_images (s).", 0.1, 300.0, live=True),
    Parameter(
        "answer_timeout",
        10.0,
        "Maximum wait for an answer, beyond the time limit of the service (s).",
        0.1,
        300.0,
        live=True,
    ),
    Parameter("attempts", 3, "Failed attempts after which a step is skipped.", 1, 100, live=True),
    Parameter(
        "retry_delay", 1.0, "Delay after a failed attempt (s); doubled each time.", 0.01, 60.0
    ),
    Parameter("max_retry_delay", 60.0, "Maximum delay between two attempts (s).", 0.01, 3600.0),
    Parameter(
        "status_timeout",
        30.0,
        "Time without a status of a job after which the detector is asked (s).",
        0.1,
        3600.0,
    ),
    # Budget.
    Parameter(
        "questions_per_minute",
        6.0,
        "Maximum number of objects asked about in a minute; others wait in the backlog. 0: any.",
        0.0,
        600.0,
        live=True,
    ),
    Parameter(
        "max_open_questions",
        20,
        "Maximum number of questions without an answer; further objects wait in the backlog.",
        1,
        10000,
        live=True,
    ),
    Parameter(
        "question_delay",
        2.0,
        "Time for which an object waits before it is asked about, in case it is the same as "
        "another one, or a better one comes (s).",
        0.0,
        3600.0,
        live=True,
    ),
)
