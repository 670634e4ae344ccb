# SPDX-License-Identifier: Apache-2.0
"""`evaluate_detector`: the whole detector on pictures whose objects are known."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from tqdm import tqdm

from newfound_core.detection.depth_relief import DepthRelief
from newfound_core.detection.detector import Detector, DetectorConfig
from newfound_core.detection.proposals import Proposer
from newfound_core.detection.region_proposer import load_region_proposer
from newfound_core.errors import ConfigError, DataError
from newfound_core.knowledge.contents import Knowledge, read_knowledge
from newfound_training.detector.coco import Picture
from newfound_training.detector.figures import draw_outcomes
from newfound_training.detector.measures import Scene, measure
from newfound_training.detector.options import PictureOptions
from newfound_training.detector.task import read_rgb
from newfound_training.running.command import Command
from newfound_training.running.options import RunOptions, option
from newfound_training.running.run import Run

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EvaluateDetectorOptions(RunOptions, PictureOptions):
    """A model, pictures, and the parameters of the node."""

    checkpoint: str = option("", "open-world model, a folder", required=True)
    proposers: tuple[Literal["depth", "rpn"], ...] = option(
        ("depth",), "each is measured; depth needs a folder depth/ beside that of the images"
    )
    proposer_checkpoint: str = option("", "model of the region network, for rpn")
    max_regions: int = option(10, "objects looked at in a picture, at most")
    min_objectness: float = option(
        -1.0, "regions below this are no objects; negative: 0.3 of depth, 0.5 of rpn"
    )
    max_overlap: float = option(0.5, "IoU above which two boxes are one object")
    crop_margin: float = option(0.15, "added around a box, as a share of its side")

    def __post_init__(self) -> None:
        if "rpn" in self.proposers and not self.proposer_checkpoint:
            raise ConfigError("the proposer rpn needs --proposer-checkpoint, see train-detector")


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
        if name == "rpn"
        else DepthRelief()
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


def read_depth(picture: Picture) -> np.ndarray:
    """The depth of a picture in metres, from `depth/` beside `images/`."""
    path = picture.path.parents[1] / "depth" / f"{picture.path.stem}.png"
    millimetres = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if millimetres is None or millimetres.dtype != np.uint16 or millimetres.ndim != 2:
        raise DataError(f"{path} is no 16-bit PNG with the depth of {picture.path.name}")
    return millimetres.astype(np.float32) * 1e-3


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
