# SPDX-License-Identifier: Apache-2.0
"""`evaluate_detector`: the whole detector on pictures whose objects are known."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from tqdm import tqdm

from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.detector import Detector, DetectorConfig
from newfound_core.detection.proposals import Proposer
from newfound_core.detection.region_proposer import load_region_proposer
from newfound_core.errors import ConfigError
from newfound_core.knowledge.contents import Knowledge, read_knowledge
from newfound_training.detector.coco import Picture, PictureOptions, read_depth, read_rgb
from newfound_training.detector.measures import OUTCOMES, Scene, measure
from newfound_training.running.command import Command, Run
from newfound_training.running.figures import pyplot, save_figure
from newfound_training.running.options import RunOptions, option

_COLOURS = {"right": "#2a9d5c", "unknown": "#e9a13b", "wrong": "#c8443f", "missed": "#c9c9c9"}
Outcomes = Mapping[str, Mapping[str, int]]  # by class


def draw_outcomes(panels: Mapping[str, Outcomes], known: Collection[str], path: Path) -> None:
    """Draw one panel per proposer, one bar per class; unknown classes come first."""
    classes = {label for outcomes in panels.values() for label in outcomes}
    order = [*sorted(classes & set(known), reverse=True), *sorted(classes - set(known))]
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(4.2 * len(panels) + 1, 1.6 + 0.2 * len(order)),
        sharey=True, squeeze=False, layout="constrained",
    )  # fmt: skip
    for panel, (title, outcomes) in zip(axes[0], panels.items(), strict=True):
        _bars(panel, outcomes, order)
        panel.set_title(title, fontsize=10)
    names = [label if label in known else f"{label} (unknown)" for label in order]
    axes[0, 0].set_yticks(range(len(order)), names, fontsize=8)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=len(OUTCOMES), fontsize=8)
    figure.supxlabel("objects, %", fontsize=9)
    save_figure(figure, path)


def _bars(panel: Axes, outcomes: Outcomes, order: list[str]) -> None:
    counts = np.array([[outcomes.get(c, {}).get(o, 0) for o in OUTCOMES] for c in order], float)
    shares = 100 * counts / counts.sum(1, keepdims=True).clip(min=1)
    left = np.zeros(len(order))
    for column, outcome in enumerate(OUTCOMES):
        name = {"right": "named right", "wrong": "named wrong"}.get(outcome, outcome)
        panel.barh(order, shares[:, column], left=left, color=_COLOURS[outcome], label=name)
        left += shares[:, column]
    panel.tick_params(labelsize=8)
    panel.set_xlim(0, 100)


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EvaluateDetectorOptions(RunOptions, PictureOptions):
    """A model, pictures, and the parameters of the node."""

    checkpoint: str = option("", "open-world model, a folder", required=True)
    proposers: tuple[Literal["depth", "regions"], ...] = option(
        ("depth",), "each is measured; depth needs a folder depth/ beside that of the images"
    )
    proposer_checkpoint: str = option("", "model of the region network, for regions")
    max_regions: int = option(10, "objects looked at in a picture, at most")
    min_objectness: float = option(
        -1.0, "regions below this are no objects; negative: the proposer's own"
    )
    max_overlap: float = option(0.5, "IoU above which two boxes are one object")
    crop_margin: float = option(0.15, "added around a box, as a share of its side")

    def __post_init__(self) -> None:
        if "regions" in self.proposers and not self.proposer_checkpoint:
            raise ConfigError(
                "the proposer regions needs --proposer-checkpoint, see train-detector"
            )


def run_evaluate_detector(options: EvaluateDetectorOptions, run: Run) -> dict[str, Any]:
    """Every proposer with the same knowledge on the same pictures."""
    knowledge = read_knowledge(Path(options.checkpoint), options.device)
    pictures = options.pictures()
    found = {
        name: measure(_scenes(name, knowledge, pictures, options), knowledge.labels)
        for name in options.proposers
    }
    draw_outcomes(
        {name: result["classes"] for name, result in found.items()},
        knowledge.labels,
        run.out / "outcomes.png",
    )
    for name, result in found.items():
        _log.info("%s: %s", name, _sentence(result))
    return {"pictures": len(pictures), "known_classes": list(knowledge.labels), "proposers": found}


def _scenes(
    name: str, knowledge: Knowledge, pictures: list[Picture], options: EvaluateDetectorOptions
) -> list[Scene]:
    proposer: Proposer = (
        load_region_proposer(options.proposer_checkpoint, options.device)
        if name == "regions"
        else DepthSegments()
    )
    config = DetectorConfig(
        options.max_regions,
        options.min_objectness,
        options.max_overlap,
        options.crop_margin,
    )
    detector = Detector(proposer, config)
    return [_scene(detector, knowledge, picture) for picture in tqdm(pictures, name, disable=None)]


def _scene(detector: Detector, knowledge: Knowledge, picture: Picture) -> Scene:
    depth = read_depth(picture) if detector.proposer.needs_depth else None
    found = detector.detect(read_rgb(picture), depth, knowledge)
    return Scene(
        picture.boxes,
        picture.labels,
        np.array([d.box for d in found], np.float32).reshape(-1, 4),
        tuple(d.label for d in found),
        tuple(d.score for d in found),
    )


def _sentence(result: dict[str, Any]) -> str:
    parts = {
        "objects found": result["recall"],
        "mAP of known classes": result["known_map"],
        "unknowns reported": result["unknown_recall"],
        "unknowns called known": result["unknown_called_known"],
        "wilderness impact": result["wilderness_impact"],
    }
    return ", ".join(f"{name} {value:.3f}" for name, value in parts.items() if value is not None)


COMMAND = Command(
    "evaluate-detector",
    "Measures the whole detector: proposals, known classes, and what it says of unknown ones.",
    EvaluateDetectorOptions,
    run_evaluate_detector,
    {
        "pictures, known_classes": "what it was measured on, and what the model knows",
        "proposers": "for each proposer objects (how many, known and unknown), and at an IoU of "
        "0.5: recall,\n      known_recall and unknown_class_recall (objects covered by a region); "
        "known_map;\n      known_named_right and known_called_unknown (of all known objects); "
        "unknown_recall\n      (unknown objects reported as such) and unknown_called_known; "
        "wilderness_impact\n      (detections named after a known class that lie on unknown "
        "objects, over all other\n      named ones); average_precision by class; classes (by "
        "class how many were named right,\n      called unknown, named wrong or missed)",
    },
)
