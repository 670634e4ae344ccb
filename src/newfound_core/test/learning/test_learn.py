# SPDX-License-Identifier: Apache-2.0
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from newfound_core import testing
from newfound_core.backbones import build_backbone
from newfound_core.frozen_features import FrozenStages
from newfound_core.knowledge.contents import without_class
from newfound_core.learning.job import Job, JobState, LearningOptions
from newfound_core.learning.job_folder import JobFolder
from newfound_core.learning.learn import PHASES, JobReporter, main
from newfound_core.learning.validation import FEWEST_SAMPLES
from newfound_core.models import load_model, save_model
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.inputs import Inputs
from newfound_core.open_world.learner import learn_step
from newfound_core.open_world.memory import Memory, MemoryConfig, Sample
from newfound_core.open_world.memory_store import encoded, load_memory, save_memory
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.step_config import LearningCancelledError, StepConfig
from newfound_core.preprocessing import Preprocessing
from newfound_core.testing import tiny_blank, tiny_open_world

COLOURS = {
    "black": (5, 5, 5),
    "blue": (30, 60, 220),
    "green": (40, 200, 60),
    "red": (220, 40, 40),
}
COMMAND = [sys.executable, "-m", "newfound_core.learning", "--niceness", "0", "--threads", "1"]
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


def square(colour: tuple[int, int, int], seed: int) -> np.ndarray:
    """A square somewhere on grey noise."""
    generator = np.random.default_rng([seed, *colour])
    pixels = generator.integers(90, 130, (16, 16, 3)).astype(np.uint8)
    top, left = generator.integers(0, 6, 2)
    pixels[top : top + 10, left : left + 10] = colour
    return pixels


@pytest.fixture(scope="session")
def knowledge(tmp_path_factory) -> Path:
    """A knowledge base whose first version was trained on four classes."""
    root = tmp_path_factory.mktemp("knowledge")
    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet20", width=0.25)
    model = OpenWorldModel(backbone, build_head("bdoc", backbone.feature_dim))
    samples = [
        Sample(square(colour, seed), label, f"{label}{seed}")
        for label, colour in COLOURS.items()
        for seed in range(12)
    ]
    config, inputs = StepConfig(epochs=10, learning_rate=0.1), Inputs(Preprocessing(16))
    step = learn_step(model, samples, Memory(MemoryConfig(30)), inputs, config)
    save_model(
        root / "versions" / "000001",
        step.model,
        list(COLOURS),
        Preprocessing(16),
        write_memory=lambda folder: save_memory(step.memory, folder),
    )
    return root


@pytest.fixture
def make_job(knowledge, tmp_path_factory):
    def make(images=None, **changes) -> Path:
        folder = tmp_path_factory.mktemp("jobs", numbered=True) / "1"
        pointer = os.path.relpath(knowledge / "versions" / "000001", folder)
        job = replace(Job("purple", pointer, OPTIONS), **changes)
        return JobFolder.create(folder, job, purple_squares(12) if images is None else images).path

    return make


def test_a_class_is_learned_and_the_others_are_kept(make_job, knowledge):
    folder = make_job(sources={"001.png": "web"})
    assert main(["--job", str(folder), "--niceness", "0"]) == 0
    result = JobFolder(folder).result()
    assert (result.state, result.images_used, result.images_left_out) == (JobState.DONE, 12, ())
    before = load_model(knowledge / "versions" / "000001")
    after = load_model(folder / "result", method="bdoc")
    assert after.labels == (*before.labels, "purple")
    memory = load_memory(folder / "result" / "memory")
    assert "purple" in memory.labels
    assert {s.source for s in memory.samples("purple")} <= {"camera", "web"}
    assert set(result.accuracy) == set(after.labels)
    assert result.accuracy["purple"].before is None
    assert all(result.accuracy[label].before is not None for label in before.labels)
    assert JobFolder(folder).progress().fraction == pytest.approx(1.0)
    assert not (folder / "resume").exists()
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
    assert main(["--job", str(folder), "--niceness", "0"]) == 0
    before = load_model(knowledge / "versions" / "000001").model
    after = load_model(folder / "result").model
    network = after.backbone.state_dict()
    assert all(network[key].equal(value) for key, value in before.backbone.state_dict().items())
    known = len(before.head.labels)
    assert after.head.means.value[:known].equal(before.head.means.value)
    assert after.head.rejection_threshold[:known].equal(before.head.rejection_threshold)
    assert after.labels == [*before.labels, "purple"]
    assert JobFolder(folder).progress().fraction == pytest.approx(1.0)


@pytest.fixture
def count_images(monkeypatch):
    """How many images the network sees."""
    seen, features = [], FrozenStages.features

    def counted(self, images, crops, first=0):
        seen.append(len(images))
        return features(self, images, crops, first)

    monkeypatch.setattr(FrozenStages, "features", counted)
    return seen


def features_in(checkpoint: Path):
    with safe_open(checkpoint / "memory" / "features.safetensors", "numpy") as file:
        names = json.loads(file.metadata()["images"])
        return list(zip(names, file.get_tensor("features"), strict=True))


def forget(checkpoint: Path, target: Path) -> None:
    without_class(checkpoint, "purple")(target)


def test_remembered_images_are_not_computed_again_for_the_next_class(make_job, count_images):
    options = LearningOptions(max_accuracy_loss=1.0, max_class_loss=1.0)
    first = make_job(options=options)
    assert main(["--job", str(first), "--niceness", "0"]) == 0
    remembered = len(load_memory(first / "result" / "memory"))
    assert sum(count_images) > 12, "those of the first version were not there"
    count_images.clear()

    def next_job(label):
        return make_job(label=label, knowledge=str(pointer), options=options)

    pointer = Path("..", "..", first.parent.name, first.name, "result")
    quick = next_job("second")
    assert main(["--job", str(quick), "--niceness", "0"]) == 0
    assert sum(count_images) == 12, "its own alone"
    kept = {s for s, _ in features_in(first / "result")}
    forget(first / "result", quick.parent / "without")
    left = {s for s, _ in features_in(quick.parent / "without")}
    assert left < kept, "what is forgotten leaves no feature behind"
    assert len(left) == len(load_memory(quick.parent / "without" / "memory"))
    cached = load_model(quick / "result").model.head
    for spoil in (Path.unlink, lambda path: path.write_bytes(b"damaged")):
        spoil(first / "result" / "memory" / "features.safetensors")
        count_images.clear()
        slow = next_job("second")
        assert main(["--job", str(slow), "--niceness", "0"]) == 0
        assert sum(count_images) == 12 + remembered
        again = load_model(slow / "result").model.head
        for key, value in cached.state_dict().items():
            torch.testing.assert_close(again.state_dict()[key], value)


def test_a_finished_job_is_not_done_again(make_job):
    folder = make_job()
    assert main(["--job", str(folder), "--niceness", "0"]) == 0
    written = (folder / "result.json").stat().st_mtime_ns
    assert main(["--job", str(folder), "--niceness", "0"]) == 0
    assert (folder / "result.json").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("spoil", "reason", "message"),
    [
        (lambda f: (f / "job.json").write_text("{"), "bad_job", "job.json is no job"),
        (lambda f: JobFolder(f).cancel(), "", "cancelled"),
        (
            lambda f: [p.write_bytes(b"\x89PNG nothing") for p in (f / "images").iterdir()],
            "bad_images",
            "0 of 12 images",
        ),
    ],
)
def test_what_went_wrong_is_said_by_a_code(make_job, spoil, reason, message):
    folder = make_job()
    spoil(folder)
    assert main(["--job", str(folder), "--niceness", "0"]) == 3
    result = JobFolder(folder).result()
    assert result.reason == reason
    assert message in result.message
    assert not (folder / "result").exists()


def test_knowledge_that_is_not_there_is_said(make_job):
    folder = make_job(knowledge="../nowhere")
    assert main(["--job", str(folder), "--niceness", "0"]) == 3
    assert JobFolder(folder).result().reason == "bad_knowledge"


def test_an_image_that_was_sent_several_times_counts_once(make_job):
    images = purple_squares(3)
    first = images[min(images)]
    folder = make_job(images | {f"again{number}.png": first for number in range(9)})
    main(["--job", str(folder), "--niceness", "0"])
    assert JobFolder(folder).result().images_used == 3
    folder = make_job({f"{number}.png": first for number in range(12)})
    assert main(["--job", str(folder), "--niceness", "0"]) == 3
    assert "1 of 12 images can be decoded and differ" in JobFolder(folder).result().message


def test_a_corrupt_image_is_left_out(make_job):
    images = purple_squares(12) | {"999.png": b"\x89PNG\r\n\x1a\n cut off"}
    folder = make_job(images)
    assert main(["--job", str(folder), "--niceness", "0"]) == 0
    result = JobFolder(folder).result()
    assert (result.images_used, result.images_left_out) == (12, ("999.png",))


def test_a_known_thing_taught_under_another_name_gives_no_new_knowledge(tmp_path):
    """The pictures of red that are held out are taught as crimson, which then is the nearer."""
    known = tiny_open_world(tmp_path / "versions" / "000001", images=12, held_out=0.4)
    red = [s for s in load_memory(known / "memory").samples("red") if s.held_out]
    assert len(red) >= FEWEST_SAMPLES
    pictures = {f"{n:03d}.png": encoded(red[n % len(red)])[0] for n in range(2 * len(red))}
    options = LearningOptions(max_accuracy_loss=0.5)  # one class of three is a third on average
    job = Job("crimson", "../../versions/000001", options)
    folder = JobFolder.create(tmp_path / "jobs" / "1", job, pictures).path
    assert main(["--job", str(folder), "--niceness", "0"]) == 3
    result = JobFolder(folder).result()
    assert result.reason == "forgot_too_much"
    assert result.accuracy["red"].lost > options.max_class_loss
    assert "'red' (100 to" in result.message
    assert not (folder / "result").exists()


def test_without_a_folder_the_command_line_is_wrong(capsys):
    assert main(["--job", "nowhere"]) == 2
    assert "--job must name a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--niceness", "-1"], "must not be negative"),
        (["--device", "cuda:99"], "cuda:99"),
    ],
)
def test_a_wrong_command_line_is_said_in_one_line(tmp_path, capsys, flags, message):
    assert main(["--job", str(tmp_path), *flags]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert len(shown.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_by_a_code(make_job):
    """No file may grow beyond 20 KB: what the kernel then says is what a full disk says."""
    folder = make_job()
    done = subprocess.run(
        [*COMMAND, "--job", str(folder)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert JobFolder(folder).result().reason == "disk_full"
    assert not (folder / "result").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_any_moment_it_ends_with_the_same_result(make_job):
    whole, folder = make_job(), make_job()
    assert main(["--job", str(whole), "--niceness", "0", "--threads", "1"]) == 0
    kill_when(
        [*COMMAND, "--job", str(folder)],
        folder / "resume" / "features",
    )
    kill_when(
        [*COMMAND, "--job", str(folder)],
        folder / "resume" / "epoch.safetensors",
    )
    assert JobFolder(folder).result() is None
    subprocess.run([*COMMAND, "--job", str(folder)], check=True, timeout=280)
    one, other = (load_file(f / "result" / "model.safetensors") for f in (whole, folder))
    assert all((other[name] == tensor).all() for name, tensor in one.items())
    indices = [json.loads((f / "result/memory/index.json").read_text()) for f in (whole, folder)]
    assert indices[0] == indices[1]
    assert JobFolder(whole).result().accuracy == JobFolder(folder).result().accuracy


def kill_when(line: list[str], path: Path) -> None:
    """Starts a job and kills it as soon as a file or folder is there."""
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not path.exists() and process.poll() is None:
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert path.exists()


def lines(folder):
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("trains", [True, False])
def test_the_fraction_rises_over_the_phases_to_one(tmp_path, trains):
    reporter = JobReporter(JobFolder(tmp_path), trains=trains)
    for phase in PHASES if trains else [p for p in PHASES if p != "training"]:
        reporter.report(phase)
        reporter.report(phase, 5, 5)
    fractions = [line["fraction"] for line in lines(tmp_path)]
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1.0)
    assert JobFolder(tmp_path).progress().state is JobState.VALIDATING


def test_a_job_that_does_not_train_is_mostly_features(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("newfound_core.learning.learn.time.monotonic", lambda: now[0])
    reporter = JobReporter(JobFolder(tmp_path), trains=False)
    reporter.report("loading")
    now[0] += 50
    reporter.report("features", 9, 9)  # 0.5 of 0.65 in 50 s
    found = JobFolder(tmp_path).progress()
    assert found.fraction == pytest.approx(0.5 / 0.65, abs=1e-3)
    assert found.seconds_left == pytest.approx(15, abs=0.2)
    reporter.report("means")
    assert JobFolder(tmp_path).progress().fraction == found.fraction, (
        "no leap over a phase that is none"
    )


def test_batches_in_quick_succession_make_few_lines(tmp_path):
    reporter = JobReporter(JobFolder(tmp_path), trains=True)
    for done in range(5000):
        reporter.report("training", done, 100_000)
    assert len(lines(tmp_path)) < 2500


def test_the_time_left_is_estimated_from_the_speed_of_this_process(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("newfound_core.learning.learn.time.monotonic", lambda: now[0])
    reporter = JobReporter(JobFolder(tmp_path), trains=True)
    reporter.report("training", 0, 10)  # half of the job was done before a crash
    assert JobFolder(tmp_path).progress().seconds_left is None
    now[0] += 35
    reporter.report("training", 10, 10)  # 0.35 of the job in 35 s, 0.15 to go
    assert JobFolder(tmp_path).progress().seconds_left == pytest.approx(15, abs=0.2)


def test_a_cancelled_job_stops_at_the_next_report(tmp_path):
    reporter = JobReporter(JobFolder(tmp_path), trains=True)
    reporter.report("training", 1, 9)
    JobFolder(tmp_path).cancel()
    with pytest.raises(LearningCancelledError):
        reporter.report("training", 2, 9)


def test_a_blank_start_learns_a_first_class_and_a_second_from_four_images_each(tmp_path):
    tiny_blank(tmp_path / "versions" / "0")
    start, colours = "../../versions/0", {"red": (230, 20, 20), "blue": (10, 10, 240)}
    for number, (label, colour) in enumerate(colours.items()):
        views = [Sample(testing.square(colour, seed), label) for seed in range(4)]
        images = {f"{seed}.png": encoded(view)[0] for seed, view in enumerate(views)}
        folder = JobFolder.create(tmp_path / "jobs" / str(number), Job(label, start), images)
        assert main(["--job", str(folder.path), "--niceness", "0"]) == 0, folder.result()
        start = f"../../jobs/{number}/result"
    loaded = load_model(tmp_path / "jobs" / "1" / "result")
    assert loaded.labels == ("red", "blue")
    shown = [testing.square(colour, 9) for colour in (*colours.values(), (120, 250, 120))]
    decision = loaded.model.decide(loaded.prepare(shown))
    assert decision.label.tolist() == [0, 1, -1]
    assert ((decision.confidence > 0.5) & (decision.confidence <= 1)).all()
