# SPDX-License-Identifier: Apache-2.0
import json
import os
import resource
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from safetensors.torch import load_file

from newfound_core.models import load_model
from newfound_core.open_world.job import (
    Job,
    LearningOptions,
    cancel,
    create_job,
    read_progress,
    read_result,
)
from newfound_core.open_world.memory_store import encoded, load_memory
from newfound_core.testing import tiny_open_world
from newfound_training.commands import main
from newfound_training.openworld.verdict import FEWEST_SAMPLES

OPTIONS = LearningOptions(epochs=4, learning_rate=0.01, frozen_stages=2, max_accuracy_loss=1.0)


def purple_squares(count: int) -> dict[str, bytes]:
    """Crops of various shapes, as a detector cuts them out."""
    images = {}
    for number in range(count):
        generator = np.random.default_rng(number)
        pixels = generator.integers(90, 130, (20, 16 + number, 3)).astype(np.uint8)
        pixels[5:15, 3:13] = (200, 30, 200)
        images[f"{number:03d}.png"] = cv2.imencode(".png", pixels)[1].tobytes()
    return images


@pytest.fixture(scope="session")
def knowledge(squares, tmp_path_factory) -> Path:
    """A checkpoint that knows four classes, in a knowledge base."""
    root = tmp_path_factory.mktemp("knowledge")
    flags = ["--data", squares, "--out", root / "run", "--backbone", "cifar_resnet20"]
    flags += ["--weights", "random", "--width", 0.25, "--image-size", 16, "--frozen-stages", 0]
    flags += ["--known-classes", 4, "--memory-size", 30, "--set", "epochs=10", "learning_rate=0.1"]
    assert main(["train-openworld", *map(str, flags)]) == 0
    (root / "versions").mkdir()
    (root / "run" / "checkpoint").rename(root / "versions" / "000001")
    return root


@pytest.fixture
def make_job(knowledge, tmp_path_factory):
    def make(images=None, **changes) -> Path:
        folder = tmp_path_factory.mktemp("jobs", numbered=True) / "1"
        pointer = os.path.relpath(knowledge / "versions" / "000001", folder)
        job = replace(Job("purple", pointer, OPTIONS), **changes)
        return create_job(folder, job, purple_squares(12) if images is None else images)

    return make


def test_a_class_is_learned_and_the_others_are_kept(make_job, knowledge):
    folder = make_job(sources={"001.png": "web"})
    assert main(["learn", "--job", str(folder), "--niceness", "0"]) == 0
    result = read_result(folder)
    assert (result.outcome, result.images_used, result.images_left_out) == ("learned", 12, ())
    before = load_model(knowledge / "versions" / "000001")
    after = load_model(folder / "result", method="bdoc")
    assert after.labels == (*before.labels, "purple")
    memory = load_memory(folder / "result" / "memory")
    assert "purple" in memory.labels
    assert {s.source for s in memory.samples("purple")} <= {"camera", "web"}
    assert set(result.accuracy) == set(after.labels)
    assert result.accuracy["purple"].before is None
    assert all(result.accuracy[label].before is not None for label in before.labels)
    assert read_progress(folder).fraction == pytest.approx(1.0)
    assert not (folder / "state").exists()
    measured = after.metadata.provenance.metrics
    assert measured["new_accuracy"] == result.accuracy["purple"].after
    known = [result.accuracy[label] for label in before.labels]
    assert measured["known_accuracy"] == pytest.approx(np.mean([a.after for a in known]))
    assert measured["known_accuracy_before"] == pytest.approx(np.mean([a.before for a in known]))
    card = (folder / "result" / "README.md").read_text()
    assert "Learned 'purple' from 12 images" in card
    assert "| known_accuracy |" in card


def test_unless_asked_to_a_job_does_not_train_the_network(make_job, knowledge):
    folder = make_job(options=LearningOptions(max_accuracy_loss=1.0))
    assert main(["learn", "--job", str(folder), "--niceness", "0"]) == 0
    before = load_model(knowledge / "versions" / "000001").model
    after = load_model(folder / "result").model
    network = after.backbone.state_dict()
    assert all(network[key].equal(value) for key, value in before.backbone.state_dict().items())
    known = len(before.head.labels)
    assert after.head.means.value[:known].equal(before.head.means.value)
    assert after.head.rejection_threshold[:known].equal(before.head.rejection_threshold)
    assert after.labels == [*before.labels, "purple"]
    assert read_progress(folder).fraction == pytest.approx(1.0)


def test_a_finished_job_is_not_done_again(make_job):
    folder = make_job()
    assert main(["learn", "--job", str(folder), "--niceness", "0"]) == 0
    written = (folder / "result.json").stat().st_mtime_ns
    assert main(["learn", "--job", str(folder), "--niceness", "0"]) == 0
    assert (folder / "result.json").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("spoil", "outcome", "message"),
    [
        (lambda f: (f / "job.json").write_text("{"), "bad_job", "job.json is no job"),
        (cancel, "cancelled", "cancelled"),
        (
            lambda f: [p.write_bytes(b"\x89PNG nothing") for p in (f / "images").iterdir()],
            "bad_images",
            "0 of 12 images",
        ),
    ],
)
def test_what_went_wrong_is_said_by_a_code(make_job, spoil, outcome, message):
    folder = make_job()
    spoil(folder)
    assert main(["learn", "--job", str(folder), "--niceness", "0"]) == 3
    result = read_result(folder)
    assert result.outcome == outcome
    assert message in result.message
    assert not (folder / "result").exists()


def test_knowledge_that_is_not_there_is_said(make_job):
    folder = make_job(knowledge="../nowhere")
    assert main(["learn", "--job", str(folder), "--niceness", "0"]) == 3
    assert read_result(folder).outcome == "bad_knowledge"


def test_a_corrupt_image_is_left_out(make_job):
    images = purple_squares(12) | {"999.png": b"\x89PNG\r\n\x1a\n cut off"}
    folder = make_job(images)
    assert main(["learn", "--job", str(folder), "--niceness", "0"]) == 0
    result = read_result(folder)
    assert (result.images_used, result.images_left_out) == (12, ("999.png",))


def test_a_known_thing_taught_under_another_name_gives_no_new_knowledge(tmp_path):
    """The pictures of red that are held out are taught as crimson, which then is the nearer."""
    known = tiny_open_world(tmp_path / "versions" / "000001", images=12, held_out=0.4)
    red = [s for s in load_memory(known / "memory").samples("red") if s.held_out]
    assert len(red) >= FEWEST_SAMPLES
    pictures = {f"{n:03d}.png": encoded(red[n % len(red)])[0] for n in range(2 * len(red))}
    options = LearningOptions(max_accuracy_loss=0.5)  # one class of three is a third on average
    job = Job("crimson", "../../versions/000001", options)
    folder = create_job(tmp_path / "jobs" / "1", job, pictures)
    assert main(["learn", "--job", str(folder), "--niceness", "0"]) == 3
    result = read_result(folder)
    assert result.outcome == "forgot_too_much"
    assert result.accuracy["red"].lost > options.max_class_loss
    assert "'red' (100 to" in result.message
    assert not (folder / "result").exists()


def test_without_a_folder_the_command_line_is_wrong(capsys):
    assert main(["learn", "--job", "nowhere"]) == 2
    assert "--job must name a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--config", "nowhere.yaml"], "nowhere.yaml cannot be read"),
        (["--preset", "none"], "no preset"),
        (["--niceness", "-1"], "must not be negative"),
        (["--device", "cuda:99"], "cuda:99"),
    ],
)
def test_a_wrong_command_line_is_said_in_one_line(tmp_path, capsys, flags, message):
    assert main(["learn", "--job", str(tmp_path), *flags]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert len(shown.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_by_a_code(make_job, command):
    """No file may grow beyond 20 KB: what the kernel then says is what a full disk says."""
    folder = make_job()
    done = subprocess.run(
        command("learn", "--job", folder, "--niceness", 0),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert read_result(folder).outcome == "disk_full"
    assert not (folder / "result").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_any_moment_it_ends_with_the_same_result(make_job, command):
    whole, folder = make_job(), make_job()
    assert main(["learn", "--job", str(whole), "--niceness", "0", "--threads", "1"]) == 0
    kill_when(
        command("learn", "--job", folder, "--threads", 1, "--niceness", 0),
        folder / "state" / "maps",
    )
    kill_when(
        command("learn", "--job", folder, "--threads", 1, "--niceness", 0),
        folder / "state" / "epoch.safetensors",
    )
    assert read_result(folder) is None
    subprocess.run(
        command("learn", "--job", folder, "--threads", 1, "--niceness", 0), check=True, timeout=280
    )
    one, other = (load_file(f / "result" / "model.safetensors") for f in (whole, folder))
    assert all((other[name] == tensor).all() for name, tensor in one.items())
    indices = [json.loads((f / "result/memory/index.json").read_text()) for f in (whole, folder)]
    assert indices[0] == indices[1]
    assert read_result(whole).accuracy == read_result(folder).accuracy


def kill_when(line: list[str], path: Path) -> None:
    """Starts a job and kills it as soon as a file or folder is there."""
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not path.exists() and process.poll() is None:
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert path.exists()
