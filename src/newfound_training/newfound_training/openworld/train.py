# SPDX-License-Identifier: Apache-2.0
"""`train_openworld`: images in, a checkpoint with memory out, measured after every step."""

import logging
from typing import Any

import cv2
import numpy as np

from newfound_core.frozen_features import split_frozen
from newfound_core.models import save_model, write_model_card
from newfound_core.open_world.memory import Memory, Sample
from newfound_core.open_world.memory_store import save_memory
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.ridge_lda import RidgeLda
from newfound_core.open_world.step_config import EpochState
from newfound_core.preprocessing import default_preprocessing
from newfound_training.openworld.dataset import (
    ImageGroups,
    build_network,
    chosen_classes,
    load_dataset,
    load_groups,
    make_protocol,
)
from newfound_training.openworld.incremental import Incremental, Outcome
from newfound_training.openworld.options import TrainOpenWorldOptions, make_setting, parse_values
from newfound_training.openworld.tables import draw_steps, draw_trade_off
from newfound_training.running.command import Command, Run, require_same_images
from newfound_training.running.figures import draw_confusions
from newfound_training.running.training import TrainingLog

_log = logging.getLogger(__name__)


class Training:
    """One run of the command: data, network, and what becomes of them."""

    def __init__(self, options: TrainOpenWorldOptions, run: Run) -> None:
        self.options, self.run = options, run
        given = {"precision": options.precision, **parse_values(options.set)}
        self.setting = make_setting(options.method, options.method, given)
        with run.process_group.main_process_first():
            self.groups = load_groups(options)
        require_same_images(self.groups.pixels.images, run)
        self.backbone = build_network(options, run.seed).to(run.device)

    def incremental(self, log: TrainingLog) -> Incremental:
        """The steps of the protocol, ready to run."""
        protocol = make_protocol(
            chosen_classes(self.groups.pixels.images.class_names, self.options),
            known=self.options.known_classes,
            unknown=self.options.unknown_classes,
            initial=self.options.initial_classes,
            per_step=self.options.classes_per_step,
            order=self.options.class_order,
        )

        def log_epoch(step: int, state: EpochState) -> None:
            log.scalars(f"step{step + 1}", state.losses, state.epochs_done)

        with self.run.process_group.main_process_first():
            dataset = load_dataset(
                self.options,
                self.groups,
                protocol.known,
                self.run.device,
                backbone=self.backbone,
                never_learned=protocol.unknown,
            )
        return Incremental(
            dataset,
            protocol.joint() if self.setting.joint else protocol,
            self.setting,
            self.options.memory_size,
            self.run.seed,
            self.run.out / "state",
            self.run.device,
            self.backbone.feature_dim,
            log_epoch,
            self.run.process_group,
        )

    def save(self, outcome: Outcome) -> None:
        """The whole network, the frozen trunk included, with its memory as images."""
        _, rest = split_frozen(self.backbone, self.options.frozen_stages)
        rest.load_state_dict(outcome.model.backbone.state_dict())
        model = OpenWorldModel(self.backbone, outcome.model.head, outcome.model.embedding).eval()
        memory = image_memory(outcome.memory, self.groups, self.options.memory_quality)
        trained_on = ", ".join(model.labels)
        metrics = _numbers(chosen(outcome.records[-1]))
        if self.options.blank:
            metrics = {}  # they are of classes that it no longer knows
            assert isinstance(model.head, RidgeLda), "options refuse other heads"
            model.head.forget_names()
            memory = Memory(memory.config)
        checkpoint = save_model(
            self.run.out / "checkpoint",
            model,
            model.labels,
            default_preprocessing(self.options.backbone, self.options.image_size),
            provenance=self.run.provenance(metrics),
            write_memory=lambda folder: save_memory(memory, folder),
            replace=True,
        )
        about = (
            f"A start for a robot: it knows no class and learns each from a few views. How "
            f"objects and their views differ, and what is how likely, it has from: {trained_on}."
            if self.options.blank
            else "Names what it knows, says so when it does not, and learns new classes from its "
            "memory and new images (`learn`)."
        )
        title = f"Open-world recognition of {len(model.labels)} classes"
        write_model_card(checkpoint, title, about, {"remembered images": len(memory)})
        _log.info("checkpoint written to %s", checkpoint)

    def draw(self, outcome: Outcome) -> None:
        """Metrics over the steps; confusion and trade-off of rejection after the last one."""
        method, out = self.options.method, self.run.out
        draw_steps({method: [outcome.records]}, out / "steps.png")
        names = [*outcome.model.labels, "unknown"]
        counts = np.array(outcome.records[-1]["confusion"])
        draw_confusions({"after the last step": counts}, names, out / "confusion.png")
        draw_trade_off({method: [outcome.records[-1]]}, out / "trade_off.png")


def run_train_openworld(options: TrainOpenWorldOptions, run: Run) -> dict[str, Any]:
    """Learn step by step, and write `<out>/checkpoint` with its memory."""
    training = Training(options, run)
    with TrainingLog(run, None) as log:  # what was finished is not repeated
        outcome = training.incremental(log).run()
        for number, record in enumerate(outcome.records):
            log.scalars("step", _numbers(chosen(record)), number + 1)
    if run.process_group.is_main_process:
        training.save(outcome)
        training.draw(outcome)
    return {
        "checkpoint": "checkpoint",
        "classes": outcome.model.labels,
        "steps": [_report(record) for record in outcome.records],
        "final": chosen(outcome.records[-1]),
        "remembered": len(outcome.memory),
        "corrupt_images": list(training.groups.pixels.corrupt),
    }


def chosen(record: dict[str, Any]) -> dict[str, float | None]:
    """The metrics of a step by the rule that the method decides by."""
    metrics = record["metrics"]
    return metrics[metrics["chosen"]]


def _numbers(metrics: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if value is not None}


def _report(record: dict[str, Any]) -> dict[str, Any]:
    """A step's record without the large tables of the last one."""
    return {k: v for k, v in record.items() if k not in ("confusion", "trade_off")}


def image_memory(memory: Memory, groups: ImageGroups, quality: int = 0) -> Memory:
    """The memory with images instead of cached features; as JPEG of a quality if that is not 0."""
    indices = {
        (label, groups.name(index)): index
        for label, members in groups.training.items()
        for index in members
    }

    def as_image(sample: Sample) -> Sample:
        image = groups.pixels[indices[sample.label, sample.source]]
        if quality:
            return Sample(_jpeg(image, quality), sample.label, sample.source, sample.held_out)
        return Sample(image, sample.label, sample.source, sample.held_out)

    return Memory(
        memory.config, {k: [as_image(s) for s in memory.samples(k)] for k in memory.labels}
    )


def _jpeg(image: np.ndarray, quality: int) -> bytes:
    bgr = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2BGR)
    return cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()


COMMAND = Command(
    "train-openworld",
    "Trains open-world recognition step by step, and measures it beside unknown classes.",
    TrainOpenWorldOptions,
    run_train_openworld,
    {
        "checkpoint": "the model with its memory, a folder relative to result.json",
        "classes": "names, in the order in which they were learned",
        "steps": "for each step new_classes, known_classes, remembered, and metrics by both rules "
        "of rejection,\n      nearest_beyond and all_beyond; chosen names the one the method "
        "uses; with bdoc also rejection:\n      other ways to set its thresholds",
        "final": "metrics after the last step: closed_world_without_rejection, "
        "closed_world_with_rejection,\n      open_set, owr, owr_harmonic, auroc, "
        "correct_knowns_rejected, unknowns_rejected,\n      rejection_difference, "
        "calibration_error; null where there was nothing to measure",
        "remembered": "samples in the memory",
        "corrupt_images": "names of those left out",
    },
)
