# SPDX-License-Identifier: Apache-2.0
"""The commands by name. A new command is one line in `COMMANDS` and one function below."""

import sys
from collections.abc import Sequence
from importlib import import_module

from newfound_core.learning.learn import main as learn_main
from newfound_training.running.command import Command, execute

# Imported only when asked for, so that `--help` of one does not pay for all.
COMMANDS = {
    "train-source": "newfound_training.source",
    "evaluate-online": "newfound_training.online.command",
    "train-predictive": "newfound_training.predictive.train",
    "evaluate-predictive": "newfound_training.predictive.evaluate",
    "choose-layers": "newfound_training.online.layers",
    "calibrate": "newfound_training.calibrate",
    "export": "newfound_training.export",
    "train-places": "newfound_training.places.train",
    "evaluate-places": "newfound_training.places.evaluate",
    "train-latent": "newfound_training.latent.train",
    "evaluate-latent": "newfound_training.latent.evaluate",
    "train-openworld": "newfound_training.openworld.train",
    "evaluate-openworld": "newfound_training.openworld.evaluate",
    "train-task": "newfound_training.tasks.train",
    "make-delta": "newfound_training.tasks.make_delta",
    "apply-delta": "newfound_training.tasks.apply_delta",
    "evaluate-tasks": "newfound_training.tasks.evaluate",
    "train-segmentation": "newfound_training.segmentation.train",
    "learn-segment": "newfound_training.segmentation.learn",
    "cut-masks": "newfound_training.segmentation.cut_masks",
    "evaluate-segmentation": "newfound_training.segmentation.evaluate",
    "make-names": "newfound_training.naming.make",
    "train-names": "newfound_training.naming.train",
    "evaluate-names": "newfound_training.naming.evaluate",
    "train-detector": "newfound_training.detector.train",
    "cut-crops": "newfound_training.detector.cut_crops",
    "evaluate-detector": "newfound_training.detector.evaluate",
}


def main(arguments: Sequence[str]) -> int:
    """Run the command that the first argument names; return the exit code of the process."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0 if arguments else 2
    name = arguments[0].replace("_", "-")
    if name == "learn":  # of newfound_core: a robot learns without this package
        return learn_main(arguments[1:])
    if name not in COMMANDS:
        print(f"there is no command {arguments[0]!r}.\n{_overview()}", file=sys.stderr)
        return 2
    return execute(find(name), arguments[1:])


def find(name: str) -> Command:
    """The command of a name with dashes."""
    return import_module(COMMANDS[name]).COMMAND


def train_source() -> int:
    """Entry point of the executable `train_source`."""
    return main(["train-source", *sys.argv[1:]])


def evaluate_online() -> int:
    """Entry point of the executable `evaluate_online`."""
    return main(["evaluate-online", *sys.argv[1:]])


def train_predictive() -> int:
    """Entry point of the executable `train_predictive`."""
    return main(["train-predictive", *sys.argv[1:]])


def evaluate_predictive() -> int:
    """Entry point of the executable `evaluate_predictive`."""
    return main(["evaluate-predictive", *sys.argv[1:]])


def choose_layers() -> int:
    """Entry point of the executable `choose_layers`."""
    return main(["choose-layers", *sys.argv[1:]])


def calibrate() -> int:
    """Entry point of the executable `calibrate`."""
    return main(["calibrate", *sys.argv[1:]])


def export() -> int:
    """Entry point of the executable `export`."""
    return main(["export", *sys.argv[1:]])


def train_places() -> int:
    """Entry point of the executable `train_places`."""
    return main(["train-places", *sys.argv[1:]])


def evaluate_places() -> int:
    """Entry point of the executable `evaluate_places`."""
    return main(["evaluate-places", *sys.argv[1:]])


def train_latent() -> int:
    """Entry point of the executable `train_latent`."""
    return main(["train-latent", *sys.argv[1:]])


def evaluate_latent() -> int:
    """Entry point of the executable `evaluate_latent`."""
    return main(["evaluate-latent", *sys.argv[1:]])


def train_openworld() -> int:
    """Entry point of the executable `train_openworld`."""
    return main(["train-openworld", *sys.argv[1:]])


def evaluate_openworld() -> int:
    """Entry point of the executable `evaluate_openworld`."""
    return main(["evaluate-openworld", *sys.argv[1:]])


def learn() -> int:
    """Entry point of the executable `learn`."""
    return learn_main(sys.argv[1:])


def train_detector() -> int:
    """Entry point of the executable `train_detector`."""
    return main(["train-detector", *sys.argv[1:]])


def cut_crops() -> int:
    """Entry point of the executable `cut_crops`."""
    return main(["cut-crops", *sys.argv[1:]])


def evaluate_detector() -> int:
    """Entry point of the executable `evaluate_detector`."""
    return main(["evaluate-detector", *sys.argv[1:]])


def train_segmentation() -> int:
    """Entry point of the executable `train_segmentation`."""
    return main(["train-segmentation", *sys.argv[1:]])


def learn_segment() -> int:
    """Entry point of the executable `learn_segment`."""
    return main(["learn-segment", *sys.argv[1:]])


def cut_masks() -> int:
    """Entry point of the executable `cut_masks`."""
    return main(["cut-masks", *sys.argv[1:]])


def evaluate_segmentation() -> int:
    """Entry point of the executable `evaluate_segmentation`."""
    return main(["evaluate-segmentation", *sys.argv[1:]])


def train_task() -> int:
    """Entry point of the executable `train_task`."""
    return main(["train-task", *sys.argv[1:]])


def make_delta() -> int:
    """Entry point of the executable `make_delta`."""
    return main(["make-delta", *sys.argv[1:]])


def apply_delta() -> int:
    """Entry point of the executable `apply_delta`."""
    return main(["apply-delta", *sys.argv[1:]])


def evaluate_tasks() -> int:
    """Entry point of the executable `evaluate_tasks`."""
    return main(["evaluate-tasks", *sys.argv[1:]])


def make_names() -> int:
    """Entry point of the executable `make_names`."""
    return main(["make-names", *sys.argv[1:]])


def train_names() -> int:
    """Entry point of the executable `train_names`."""
    return main(["train-names", *sys.argv[1:]])


def evaluate_names() -> int:
    """Entry point of the executable `evaluate_names`."""
    return main(["evaluate-names", *sys.argv[1:]])


def _overview() -> str:
    lines = [f"  {name:<21} {find(name).summary}" for name in COMMANDS]
    return "\n".join(
        [
            "usage: python -m newfound_training <command> [options]",
            "",
            "commands:",
            *lines,
            "",
            "`<command> --help` explains its options and its result.json.",
        ]
    )
