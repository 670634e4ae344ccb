# SPDX-License-Identifier: Apache-2.0
"""The runs behind a table, each kept in a small file as soon as it is done.

An interrupted table goes on with the first cell that has no file, and within that cell with
the last finished epoch.
"""

import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from newfound_training.data import ImageSet
from newfound_training.openworld.incremental import Incremental
from newfound_training.openworld.material import (
    ImageGroups,
    Material,
    build_network,
    cut,
    load_groups,
    load_material,
)
from newfound_training.openworld.options import EvaluateOpenWorldOptions
from newfound_training.openworld.protocol import (
    Protocol,
    choice_classes,
    make_protocol,
    reported_classes,
)
from newfound_training.openworld.settings import Setting
from newfound_training.running.files import read_json, write_json
from newfound_training.running.run import Run

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cell:
    """One run: a setting, an order of the classes, a seed."""

    setting: Setting
    order: int
    seed: int

    def path(self, folder: Path) -> Path:
        """Where its result is kept."""
        name = f"order{self.order}-seed{self.seed}.json"
        return folder / "cells" / self.setting.folder / name


class Cells:
    """Results of cells, computed when they are not there yet."""

    def __init__(self, options: EvaluateOpenWorldOptions, run: Run) -> None:
        self._options, self._run = options, run
        self._loaded: tuple[ImageGroups, Material, int] | None = None

    def fill(self, wanted: Sequence[Cell]) -> None:
        """Computes what is missing; of several processes each does some of the cells."""
        missing = [cell for cell in wanted if not cell.path(self._run.out).exists()]
        if missing:
            with self._run.team.leader_first():
                self._data()
        for cell in self._run.team.mine(missing):
            self.records(cell)
        self._run.team.wait()

    def records(self, cell: Cell) -> list[dict[str, Any]]:
        """What was measured after each step."""
        path = cell.path(self._run.out)
        if not path.exists():
            records = self._compute(cell, path.with_suffix(".state"))
            write_json(path, {"row": cell.setting.name, "steps": records})
            shutil.rmtree(path.with_suffix(".state"), ignore_errors=True)
            _report(cell, records)
        return read_json(path)["steps"]

    def _data(self) -> tuple[ImageGroups, Material, int]:
        """Images, samples and the length of a feature; loaded once."""
        if self._loaded is None:
            groups = load_groups(self._options)
            backbone = build_network(self._options, self._run.seed)
            classes = chosen_classes(groups.pixels.images, self._options)
            material = load_material(
                self._options, groups, classes, self._run.device, backbone=backbone
            )
            self._loaded = groups, material, backbone.feature_dim
        return self._loaded

    def _compute(self, cell: Cell, folder: Path) -> list[dict[str, Any]]:
        groups, material, feature_dim = self._data()
        protocol = self._protocol(groups.pixels.images, cell.order)
        if self._options.weights == "random":
            network = build_network(self._options, cell.seed)
            material = replace(material, network=cut(network, 0)[1])
        return (
            Incremental(
                material,
                protocol.joint() if cell.setting.joint else protocol,
                cell.setting,
                self._options.memory_size,
                cell.seed,
                folder,
                self._run.device,
                feature_dim,
            )
            .run()
            .records
        )

    def _protocol(self, images: ImageSet, order: int) -> Protocol:
        return make_protocol(
            chosen_classes(images, self._options),
            known=self._options.known_classes,
            unknown=self._options.unknown_classes,
            initial=self._options.initial_classes,
            per_step=self._options.classes_per_step,
            order=order,
        )


def chosen_classes(images: ImageSet, options: EvaluateOpenWorldOptions) -> list[str]:
    """The classes of the protocol: those for choices, those for reporting, or all."""
    if options.classes == "all":
        return list(images.class_names)
    pick = choice_classes if options.classes == "choice" else reported_classes
    return pick(images.class_names, options.choice_classes)


def _report(cell: Cell, records: list[dict[str, Any]]) -> None:
    metrics = records[-1]["metrics"]
    reached = metrics[metrics["chosen"]]["owr_harmonic"]
    shown = "none" if reached is None else f"{100 * reached:.1f} %"
    name, order, seed = cell.setting.name, cell.order, cell.seed
    _log.info("%s, order %d, seed %d: OWR-H %s after the last step", name, order, seed, shown)
