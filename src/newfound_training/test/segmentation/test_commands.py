# SPDX-License-Identifier: Apache-2.0
"""Networks trained, compared and taught one class by the commands, on tiny networks."""

import json
import shutil
import subprocess
import sys
import time

import cv2
import numpy as np
import pytest

from newfound_core.models import load_model
from newfound_core.packages.segments import export_segment
from newfound_core.segmentation.segmenter import Segmenter
from newfound_training.commands import main
from newfound_training.segmentation.options import TrainSegmentationOptions
from newfound_training.segmentation.train import trained_layers

from .conftest import NAMES, scene, write

TINY = [
    *("--backbone", "cifar_resnet20", "--weights", "random", "--stages", "0", "--low-stride", "2"),
    *("--output-stride", "2", "--width", "16", "--frozen-stages", "0", "--image-size", "32"),
    *("--variants", "1", "--batch-size", "4", "--block", "2", "--first-iterations", "12"),
]
STEPS = ["--steps", "red,green", "blue", "--iterations", "6"]


def result_of(out):
    return json.loads((out / "result.json").read_text())


def train(data, out, *more):
    return main(["train-segmentation", "--data", str(data), "--out", str(out), *TINY, *more])


def evaluate(data, out, *more):
    arguments = ["--data", str(data), "--out", str(out), *TINY, *STEPS, *more]
    return main(["evaluate-segmentation", *arguments])


def test_labelled_images_become_a_checkpoint_and_a_graph(labelled, tmp_path, undocumented):
    out = tmp_path / "out"
    assert train(labelled, out, "--classes", "red", "blue", "--reject", "0.4") == 0
    result = result_of(out)
    assert not undocumented("train-segmentation", result, NAMES)
    assert result["classes"] == ["background", "red", "blue"]
    assert (result["training_images"], result["test_images"]) == (18, 6)
    segmenter = Segmenter.load(out / "checkpoint")
    assert segmenter.min_confidence == 0.4
    assert segmenter.loaded.model.source_confidence == pytest.approx(result["confidence"])
    assert segmenter.segment(scene(99)[0]).mask.shape == (48, 64)

    graph = ["--checkpoint", str(out / "checkpoint"), "--out", str(tmp_path / "graph")]
    assert main(["export", *graph]) == 0
    assert result_of(tmp_path / "graph")["outputs"] == ["pixels", "logits"]


def test_onda_may_move_what_was_trained():
    network = TrainSegmentationOptions(data="x", weights="random").build(3)
    assert trained_layers(network, 7) == "last:7"  # three of the last stage, four of the head
    assert trained_layers(network, 8) == "last:4"
    assert trained_layers(network, 0) == "all"


def test_every_row_is_trained_measured_and_kept(labelled, tmp_path, undocumented):
    out = tmp_path / "out"
    assert evaluate(labelled, out) == 0
    result = result_of(out)
    assert not undocumented("evaluate-segmentation", result, NAMES)
    assert set(result["rows"]) == {"before", "ft", "lwf", "ce", "kd", "mib", "joint"}
    assert set(result["rows"]["mib"]) == {"old", "new", "all", "background"}
    assert "new" not in result["rows"]["before"]
    assert result["training_images"] == [18, 18]
    assert set(result["by_seed"]["mib"][0]["iou"]) == {"background", "red", "green", "blue"}
    assert "| + start = MiB |" in (out / "table.md").read_text()

    shutil.rmtree(out / "samples")  # as if interrupted: what is there is not computed again
    (out / "runs" / "lwf_0.json").unlink()
    kept = (out / "runs" / "mib_0.json").stat().st_mtime_ns
    assert evaluate(labelled, out, "--resume") == 0
    assert (out / "runs" / "mib_0.json").stat().st_mtime_ns == kept
    assert result_of(out)["rows"] == result["rows"]


def test_reference_frames_are_a_row_of_their_own(labelled, tmp_path):
    out = tmp_path / "out"
    assert evaluate(labelled, out, "--rows", "mib", "reference", "--reference", "3") == 0
    found = result_of(out)["by_seed"]
    assert found["reference"][0]["iou"] != found["mib"][0]["iou"]
    assert "| MiB with reference frames |" in (out / "table.md").read_text()


def test_settings_are_chosen_on_training_pictures(labelled, tmp_path):
    more = ["--choice", "--balance", "0.5", "--test-every", "3", "--rows", "mib"]
    assert evaluate(labelled, tmp_path / "out", *more) == 0
    result = result_of(tmp_path / "out")
    assert (result["training_images"], result["test_images"]) == ([10, 10], 6)


def test_pictures_of_a_disjoint_step_show_no_later_class(tmp_path):
    pictures = {f"{n:03d}": scene(n, (1, 2) if n % 2 else (1, 2, 3)) for n in range(20)}
    data = write(tmp_path / "data", pictures)
    (data / "classes.json").write_text(json.dumps({"classes": NAMES}))
    counts = {}
    for protocol in ("overlapped", "disjoint"):
        out = tmp_path / protocol
        assert evaluate(data, out, "--protocol", protocol, "--rows", "ft") == 0
        counts[protocol] = result_of(out)["training_images"]
    assert counts == {"overlapped": [16, 8], "disjoint": [8, 8]}


def test_a_step_may_have_pictures_without_its_classes(tmp_path):
    pictures = {f"{n:03d}": scene(n, (1, 2) if n % 2 else (1, 2, 3)) for n in range(20)}
    data = write(tmp_path / "data", pictures)
    (data / "classes.json").write_text(json.dumps({"classes": NAMES}))
    assert evaluate(data, tmp_path / "out", "--negatives", "5", "--rows", "ft") == 0
    assert result_of(tmp_path / "out")["training_images"] == [16, 13]


def masks(folder, numbers):
    """Pictures with masks of the colour blue."""
    pictures = {}
    for number in numbers:
        rgb, labels = scene(number)
        pictures[f"{number:03d}"] = rgb, np.where(labels == 4, 255, labels == 3).astype(np.uint8)
    return write(folder, pictures)


def test_one_class_is_taught_from_a_few_masks(labelled, tmp_path, undocumented):
    assert train(labelled, tmp_path / "first", "--classes", "red", "green") == 0
    data = masks(tmp_path / "new", range(100, 106))
    arguments = [
        *("--checkpoint", tmp_path / "first" / "checkpoint", "--label", "blue", "--data", data),
        *("--out", tmp_path / "out", "--iterations", 6, "--frozen-stages", 0, "--variants", 1),
        *("--max-accuracy-loss", 1),
    ]
    assert main(["learn-segment", *map(str, arguments)]) == 0
    result = result_of(tmp_path / "out")
    assert not undocumented("learn-segment", result, NAMES)
    assert result["images_used"] == 6
    assert result["accuracy"]["blue"]["before"] is None
    assert result["state"] == "done"
    loaded = load_model(tmp_path / "out" / "checkpoint", "segmentation")
    assert loaded.labels == ("background", "red", "green", "blue")
    assert len(export_segment(tmp_path / "out" / "checkpoint", "blue").details["images"]) == 6


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--steps", "red"], "at least two steps"),
        (["--steps", "red", "red"], "in one step only"),
        (["--steps", "red", "purple"], "no class 'purple'"),
        (["--test-every", "1"], "at least 2"),
        (["--steps", "red", ","], "of a class or more"),
        (["--images-per-step", "-5"], "images_per_step must not be negative"),
        (["--further-frozen-stages", "-4"], "further_frozen_stages must not be negative"),
        (["--least-share", "2"], "least_share must be in [0, 1]"),
        (["--distillation", "-1"], "distillation must not be negative"),
        (["--first-lr", "-1"], "learning_rate must not be negative"),
    ],
)
def test_options_that_make_no_sense_are_refused_at_once(labelled, tmp_path, capsys, more, message):
    assert evaluate(labelled, tmp_path / "out", *more) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "samples").exists()


def relabel(data, change):
    for path in (data / "labels").glob("*.png"):
        labels = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        cv2.imwrite(str(path), change(labels))


def test_data_that_show_no_class_are_refused(labelled, tmp_path, capsys):
    relabel(labelled, lambda labels: np.full_like(labels, 255))
    assert train(labelled, tmp_path / "out", "--balance", "0.5") == 1
    assert "no pixel of the pictures trained on is labelled" in capsys.readouterr().err


def test_a_class_that_no_picture_shows_is_told(labelled, tmp_path, caplog):
    relabel(labelled, lambda labels: np.where(labels == 3, 0, labels).astype(np.uint8))
    assert train(labelled, tmp_path / "out", "--balance", "0.5") == 0
    assert "no picture trained on shows it: blue" in caplog.text


def test_a_learner_that_is_killed_goes_on_and_ends_with_the_same_weights(labelled, tmp_path):
    assert train(labelled, tmp_path / "first", "--classes", "red", "green") == 0
    data = masks(tmp_path / "new", range(100, 106))
    common = [
        *("--checkpoint", tmp_path / "first" / "checkpoint", "--label", "blue", "--data", data),
        *("--iterations", 60, "--frozen-stages", 0, "--variants", 1, "--max-accuracy-loss", 1),
    ]
    common = ["learn-segment", *map(str, common)]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main([*common, "--out", str(whole)]) == 0

    process = subprocess.Popen(
        [sys.executable, "-m", "newfound_training", *common, "--out", str(killed)]
    )
    while not (killed / "state.safetensors").exists() and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert main([*common, "--out", str(killed), "--resume"]) == 0
    results = [result_of(out) for out in (whole, killed)]
    assert results[0]["accuracy"] == results[1]["accuracy"]
    assert results[0]["state"] == results[1]["state"]
