# SPDX-License-Identifier: Apache-2.0
"""What a perception node adds to its model: image in to message out, 640x480, EfficientNet-Lite0.

The bare model prepares and predicts the same image in the benchmark's own process; the nodes
run in processes of their own and take turns with it. Target: a median within the model's
time plus 6 ms, adaptation on.
"""

import statistics
import tempfile
from pathlib import Path

import torch

from newfound_core.inference import build_inference
from newfound_core.models import load_model
from newfound_core.testing import usual
from newfound_msgs.msg import Classification, PlaceCategory
from newfound_runtime.images import to_rgb
from newfound_runtime.testing import Harness, image
from tests.bench._stream import SIZE, RoundTrip, executable, parameters
from tests.bench._timing import interleaved, median_ms, percentile_ms

NODES = {  # contestant: node, parameters
    "classifier, frozen": ("adaptive_classifier", {"freeze": True}),
    "classifier, streaming": (
        "adaptive_classifier",
        {"estimator": "streaming", "balanced": False},
    ),
    "classifier, batch": ("adaptive_classifier", {"estimator": "batch"}),
    "places": ("place_categorizer", {}),
}
OUTPUTS = {  # node: method of its model, message, topic
    "adaptive_classifier": ("source", Classification, "classification"),
    "place_categorizer": ("wbn", PlaceCategory, "place"),
}


def bare(folder: Path):
    """The model alone on an image of the camera's size."""
    inference = build_inference(load_model(folder))
    rgb = to_rgb(image(*SIZE))
    return lambda: inference([rgb])


def node(harness: Harness, number: int, name: str, folder: Path, options: dict) -> RoundTrip:
    """A node in a process of its own, ready."""
    _, message, output = OUTPUTS[name]
    topic = f"/camera_{number}/image"
    values = {"checkpoint": folder, "image_topic": topic, **options}
    arguments = [*parameters(**values), "-r", f"__ns:=/camera_{number}"]
    harness.process(*executable(name), *arguments)
    return RoundTrip(harness, topic, message, f"/camera_{number}/{name}/{output}")


def run(quick: bool) -> list[dict]:
    torch.set_num_threads(2)
    harness, rows = Harness(), []
    try:
        with tempfile.TemporaryDirectory() as place:
            folders = {m: usual(Path(place) / m, m) for m, _, _ in OUTPUTS.values()}
            for number, (contestant, (name, options)) in enumerate(NODES.items()):
                folder = folders[OUTPUTS[name][0]]
                turns = {"model": bare(folder)}
                turns["node"] = node(harness, number, name, folder, options)
                seconds = interleaved(turns, rounds=20 if quick else 200)
                harness.processes[-1].kill()
                pairs = zip(seconds["node"], seconds["model"], strict=True)
                rows.append({
                    "node": contestant,
                    "model_ms": median_ms(seconds["model"]),
                    "node_ms": median_ms(seconds["node"]),
                    "added_ms": median_ms(seconds["node"]) - median_ms(seconds["model"]),
                    "ratio": statistics.median(a / b for a, b in pairs),
                    "node_p95_ms": percentile_ms(seconds["node"], 95),
                    "target_added_ms": "<= 6",
                })  # fmt: skip
    finally:
        harness.close()
    return rows
