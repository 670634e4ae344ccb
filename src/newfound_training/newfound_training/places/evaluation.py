# SPDX-License-Identifier: Apache-2.0
"""`evaluate_places`: every method on every unseen domain with several seeds, beside BN."""

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
from tqdm import tqdm

from newfound_core.errors import ConfigError
from newfound_core.storage import write_bytes
from newfound_training.places.cells import Cells
from newfound_training.places.command import open_place_images
from newfound_training.places.evaluation_options import EvaluationOptions
from newfound_training.places.figures import draw_differences, draw_weights
from newfound_training.places.table import accuracy_of, markdown, rows_of, summary
from newfound_training.places.task import PlaceData
from newfound_training.running.command import Command
from newfound_training.running.distributed import Team
from newfound_training.running.run import Run

_log = logging.getLogger(__name__)
Found = dict[tuple[str, str, int], dict[str, Any]]  # by target, method and seed


def run_evaluate_places(options: EvaluationOptions, run: Run) -> dict[str, Any]:
    """The cells, shared out among the processes; then the whole table and its figures."""
    training = options.training()
    images = open_place_images(training, run)
    targets = options.targets or tuple(images.domain_names)
    if len(images.domain_names) < 3:
        raise ConfigError(
            f"{images.pixels.images.root} has the domains {', '.join(images.domain_names)}: at "
            "least three are needed, one to test on and two to train on"
        )
    images.require_every_place(images.domain_names)
    data = PlaceData(images, training, run)
    found = _fill(Cells(data, training, run.alone()), targets, options, run.team)
    if not run.team.leads:
        return {}
    result = _result(found, targets, options)
    write_bytes(run.out / "table.md", markdown(result).encode())
    _log.info("%s", markdown(result))
    draw_differences(result, run.out / "differences.png")
    _draw_weights(found, targets, options, run)
    data.discard()
    return result | {"corrupt_images": list(images.pixels.corrupt)}


def _fill(cells: Cells, targets: tuple[str, ...], options: EvaluationOptions, team: Team) -> Found:
    """Seed after seed, so that an interrupted table has all methods and targets."""
    if "wbn" in options.methods:  # first, since all seeds of a target need it
        for target in team.mine(targets):
            cells.softening(target)
        team.wait()
    wanted = [
        (target, method, seed)
        for seed in range(options.seed, options.seed + options.seeds)
        for target in targets
        for method in options.methods
    ]
    for key in tqdm(team.mine(wanted), "cells", disable=None if team.leads else True):
        cells.cell(*key)
    team.wait()
    return {key: cells.cell(*key) for key in wanted}


def _result(found: Found, targets: tuple[str, ...], options: EvaluationOptions) -> dict[str, Any]:
    rows = rows_of(options.methods)
    seeds = range(options.seed, options.seed + options.seeds)

    def table(measure: str) -> dict[str, Any]:
        return summary(
            {
                row: {
                    target: [
                        accuracy_of(
                            row, found[target, row.removesuffix("-printed"), seed], measure
                        )
                        for seed in seeds
                    ]
                    for target in targets
                }
                for row in rows
            }
        )

    softening = {
        target: found[target, "wbn", options.seed]["softening"]
        for target in targets
        if "wbn" in options.methods
    }
    return {
        "methods": rows,
        **table("accuracy"),
        "place_accuracy": table("place_accuracy"),
        "validation": _validation(found, options.methods),
        "softening": softening,
        "images": {t: found[t, "bn", options.seed]["images"] for t in targets},
    }


def _validation(found: Found, methods: Iterable[str]) -> dict[str, dict[str, float]]:
    """Means over targets and seeds of what was measured on the sources."""
    result: dict[str, dict[str, float]] = {}
    for method in methods:
        cells = [cell for key, cell in found.items() if key[1] == method]
        names = [n for n in ("validation_accuracy", "domain_accuracy") if n in cells[0]]
        result[method] = {n: float(np.mean([cell[n] for cell in cells])) for n in names}
    return result


def _draw_weights(
    found: Found, targets: tuple[str, ...], options: EvaluationOptions, run: Run
) -> None:
    """Domain weights of WBN* with the first seed, one figure for each target."""
    if "wbn" not in options.methods:
        return
    for target in targets:
        cell = found[target, "wbn", options.seed]
        histograms = {f"{f} (unseen)": h for f, h in cell["weights"]["target"].items()}
        histograms |= cell["weights"]["sources"]
        draw_weights(histograms, cell["sources"], run.out / f"domain_weights_{target}.png")


COMMAND = Command(
    "evaluate-places",
    "Compares BN, WBN and BSF on domains they have not seen.",
    EvaluationOptions,
    run_evaluate_places,
    {
        "methods": "rows of the table: key and name",
        "targets": "for each unseen domain and row the mean accuracy over seeds, and above_bn: "
        "mean of the\n      paired differences to BN, its 95 % interval by Student's t, and the "
        "number of pairs.\n      A pair is one target and one seed",
        "average": "the same over all targets and seeds",
        "accuracies, differences": "single values, by row, target and seed",
        "place_accuracy": "the same for accuracy averaged over places instead of images",
        "validation": "by method, on held-out images of the sources: validation_accuracy and "
        "domain_accuracy\n      (the share whose domain the branch names, if labelled)",
        "softening": "of WBN*, by target: smoothing and temperature, and the candidates they were "
        "chosen from with\n      their accuracy on held-out sources",
        "images": "number of images of each target",
        "corrupt_images": "names of those left out",
    },
)
