# SPDX-License-Identifier: Apache-2.0
import shutil
import time

import numpy as np
import pytest
import torch

from newfound_core.detection.detector import Detector, DetectorConfig
from newfound_core.detection.proposals import WholeImage
from newfound_core.detection.same_object import View
from newfound_core.detection.unknown_objects import UnknownObject
from newfound_core.detection.unknown_store import UnknownsConfig
from newfound_core.errors import (
    ConfigError,
    DamagedError,
    LockedError,
    StorageError,
    UnknownVersionError,
)
from newfound_core.inference import InferenceConfig
from newfound_core.knowledge.contents import without_class
from newfound_core.learning.job import LearningOptions
from newfound_core.learning.job_folder import JobFolders
from newfound_core.testing import COLOURS, tiny_open_world
from newfound_nodes.knowledge.learning_queue import LearningQueue
from newfound_nodes.open_world.session import OpenWorldSession, SessionConfig
from newfound_runtime.services import RequestError
from newfound_runtime.testing import eventually

RED, YELLOW = (220, 40, 40), (230, 220, 40)


class Events:
    """Collects what a session reports, in order."""

    def __init__(self, reports=None):
        report = ([] if reports is None else reports).append
        self.knowledge_changed = self.unknown_changed = self.job_changed = report
        self.storage_failed = print


@pytest.fixture
def make_session(tmp_path, shipped, learner):
    sessions = []

    def make(told=None, regions=None, **options):
        options = {"unknowns": UnknownsConfig(announce_after=3), "learner": learner} | options
        config = SessionConfig(tmp_path / "base", options.pop("shipped", shipped), **options)
        detector = Detector(WholeImage(), DetectorConfig(**(regions or {})))
        sessions.append(OpenWorldSession(config, detector, Events(told)))
        return sessions[-1]

    yield make
    for session in sessions:
        session.close()


@pytest.fixture
def show(square):
    def show(session, colour, count=1):
        for number in range(count):
            seen = session.process(square(colour, number), None, View(number, "camera", 64, 48))
        return seen

    return show


def no_images():
    return {}, ""


def ask(session, label, unknown_id, **options):
    return session.learn(label, unknown_id, no_images, LearningOptions(), **options)[0]


def test_unknown_objects_are_the_same_after_a_restart(make_session, show):
    told = []
    session = make_session(told)
    seen = show(session, YELLOW, 8)
    assert {entry.id for entry in told} == {seen.unknown_ids[0]}
    session.close()
    later = make_session()
    assert [entry.id for entry in later.unknowns()] == seen.unknown_ids
    assert later.unknowns()[0].sightings == 8
    assert show(later, YELLOW, 4).unknown_ids == seen.unknown_ids
    assert show(later, RED).detections[0].label == "red"


def test_an_unknown_whose_job_failed_waits_again(make_session, show):
    session = make_session()
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    job = ask(session, "forgets", unknown_id)
    eventually(lambda: session.jobs.status(job).state.final)
    eventually(lambda: session.unknown(unknown_id).state == "waiting")
    assert session.problems() == ["learning 'forgets' rejected: 40 points"]
    cancelled = ask(session, "waits", unknown_id)
    session.jobs.cancel(cancelled)
    eventually(lambda: session.problems() == [])


def test_while_it_is_learned_an_unknown_says_so_even_after_a_restart(make_session, show):
    session = make_session()
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    job = ask(session, "waits", unknown_id)
    assert (session.unknown(unknown_id).state, session.unknown(unknown_id).label) == (
        "learning",
        "waits",
    )
    session.close()
    later = make_session()
    assert later.unknown(unknown_id).state == "learning"
    later.jobs.cancel(job)
    eventually(lambda: later.unknown(unknown_id).state == "waiting")


def test_what_a_job_learns_is_being_learned_though_the_node_died_before_it_noted_that(
    make_session, show, tmp_path
):
    session = make_session()
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    job = ask(session, "waits", unknown_id)
    session.close()
    (note,) = (tmp_path / "base" / "unknowns").glob("*/unknown.json")
    note.write_text(note.read_text().replace('"learning"', '"waiting"').replace('"waits"', '""'))
    later = make_session()
    assert (later.unknown(unknown_id).state, later.unknown(unknown_id).label) == (
        "learning",
        "waits",
    )
    later.jobs.cancel(job)
    eventually(lambda: later.unknown(unknown_id).state == "waiting")


def test_a_job_that_ends_before_its_object_is_marked_leaves_it_waiting(make_session, show):
    session = make_session()
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    add = session.jobs.add

    def slow(job, images):
        name, before = add(job, images)
        eventually(lambda: session.jobs.status(name).state.final)
        time.sleep(0.1)  # for the thread of the queue to go on
        return name, before

    session.jobs.add = slow
    ask(session, "forgets", unknown_id)
    eventually(lambda: session.unknown(unknown_id).state == "waiting", timeout=10)


def test_a_job_that_ends_while_the_session_is_made_is_reported(
    make_session, tmp_path, monkeypatch
):
    told = []

    class Eager(LearningQueue):
        def start(self):
            super().start()
            eventually(lambda: told, "a report", timeout=10)

    monkeypatch.setattr("newfound_nodes.knowledge.owner.LearningQueue", Eager)
    (tmp_path / "base" / "jobs" / "000001").mkdir(parents=True)  # without job.json
    make_session(told)
    assert (told[0].job, told[0].state) == ("000001", "failed")


def test_a_dismissed_unknown_stays_dismissed(make_session, show):
    session = make_session()
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    session.dismiss(unknown_id)
    with pytest.raises(RequestError) as refused:
        session.dismiss("u0")
    assert refused.value.code == "UNKNOWN_ID"
    session.close()
    assert make_session().unknown(unknown_id).state == "dismissed"


def test_what_is_being_learned_cannot_be_dismissed_but_the_other_way_round(make_session, show):
    session = make_session()
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    session.dismiss(unknown_id)
    job = ask(session, "waits", unknown_id)
    with pytest.raises(RequestError) as refused:
        session.dismiss(unknown_id)
    assert refused.value.code == "BUSY"
    session.jobs.cancel(job)


def test_a_known_class_is_given_further_views_only_if_that_was_allowed(make_session, show):
    session = make_session()
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    with pytest.raises(RequestError, match="`extend` in the request") as refused:
        ask(session, "RED", unknown_id)
    assert refused.value.code == "LABEL_EXISTS"
    job = ask(session, "Red", unknown_id, extend=True)
    assert session.jobs.labels() == {"red"}, "the class as it is spelled already"
    with pytest.raises(RequestError, match="being learned already"):
        ask(session, "red", unknown_id, extend=True)
    session.jobs.cancel(job)


def test_a_full_queue_is_said_before_any_image_is_decoded(make_session):
    session = make_session(queue_limit=1)
    two = {"0.jpg": b"0", "1.jpg": b"1"}
    job, _ = session.learn("waits", "", lambda: (two, ""), LearningOptions())
    with pytest.raises(RequestError) as refused:
        session.learn("vase", "", lambda: pytest.fail("decoded"), LearningOptions())
    assert refused.value.code == "BUSY"
    session.jobs.cancel(job)


def test_requests_that_cannot_be_granted_have_a_code(make_session, show):
    session = make_session()
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    job = ask(session, "waits caf\u00e9", unknown_id)

    def code(label="vase", unknown_id="", images=no_images):
        with pytest.raises(RequestError) as refused:
            session.learn(label, unknown_id, images, LearningOptions())
        return refused.value.code

    assert code(label="../mug") == "INVALID_LABEL"
    assert code(label="red") == code(label="rEd") == "LABEL_EXISTS"
    assert code(label="WAITS cafe\u0301") == "LABEL_EXISTS", "composed otherwise, in capitals"
    assert code(unknown_id=unknown_id) == "LABEL_EXISTS"
    assert code(unknown_id="u2") == "UNKNOWN_ID"
    assert code() == code(images=lambda: ({"0.jpg": b"one"}, "")) == "BAD_IMAGES"
    session.jobs.cancel(job)


def test_what_is_wrong_with_images_is_said_but_crops_are_enough(make_session, show):
    session = make_session()
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids

    def junk():
        return {}, "Image 0: not a JPEG"

    with pytest.raises(RequestError, match=r"0 usable images.*Image 0: not a JPEG"):
        session.learn("waits", "", junk, LearningOptions())
    job, _ = session.learn("waits", unknown_id, junk, LearningOptions())
    session.jobs.cancel(job)


def test_crops_of_an_unknown_and_images_are_both_used(make_session, show, tmp_path):
    session = make_session()
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    given = {"image_000.png": b"0"}
    job, _ = session.learn("waits", unknown_id, lambda: (given, ""), LearningOptions())
    written = session.jobs.folders.job(job)
    assert {"crop_000.jpg", "image_000.png"} <= set(written.sources)
    assert (written.unknown_id, written.knowledge) == (unknown_id, "../../current")
    session.jobs.cancel(job)


def test_a_deleted_knowledge_base_is_a_storage_error(make_session, show, tmp_path):
    session = make_session()
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    assert session.errors() == []
    (tmp_path / "base").rename(tmp_path / "elsewhere")
    assert "was deleted" in session.errors()[0]
    for request in (
        lambda: ask(session, "vase", unknown_id),
        lambda: session.forget("red"),
        lambda: session.restore(1),
        lambda: session.dismiss(unknown_id),
    ):
        with pytest.raises(StorageError, match="was deleted"):
            request()
    assert show(session, RED).detections[0].label == "red", "what is known is in memory"


def test_new_knowledge_is_used_from_the_next_frame_on(make_session, show):
    session = make_session()
    assert show(session, RED).detections[0].label == "red"
    session.forget("red")
    seen = show(session, RED)
    assert (seen.version, seen.detections[0].label == "red") == (2, False)


def test_an_unknown_of_a_class_that_was_learned_otherwise_is_released(make_session, show):
    told = []
    session = make_session(told)
    session.forget("red")
    (unknown_id,) = show(session, RED, 8).unknown_ids
    session.restore(1)
    released = [e for e in told if isinstance(e, UnknownObject)][-1]
    assert (released.id, released.state, released.label) == (unknown_id, "learned", "red")
    assert session.unknowns() == []


def test_an_unknown_that_a_new_class_names_but_that_looks_different_waits_on(make_session, show):
    session = make_session(unknowns=UnknownsConfig(announce_after=3, same_similarity=1.0))
    session.forget("red")
    (unknown_id,) = show(session, RED, 8).unknown_ids
    session.restore(1)
    assert show(session, RED).detections[0].label == "red"
    assert [entry.id for entry in session.unknowns()] == [unknown_id], "its views are not lost"


def test_an_unknown_that_new_knowledge_does_not_know_either_waits_on(make_session, show):
    session = make_session()
    session.forget("red")
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    session.restore(1)
    assert session.unknown(unknown_id).state == "waiting"
    assert show(session, YELLOW).unknown_ids == [unknown_id]


def test_a_back_end_says_what_pytorch_says_and_outlives_new_classes(make_session, show):
    plain = make_session()
    expected = [show(plain, colour).detections[0] for colour in (RED, YELLOW)]
    plain.close()
    session = make_session(inference=InferenceConfig("onnx", threads=1))
    engine = session.in_use.embedder
    for colour, wanted in zip((RED, YELLOW), expected, strict=True):
        [found] = show(session, colour).detections
        assert (found.label, found.nearest_label) == (wanted.label, wanted.nearest_label)
        np.testing.assert_allclose(found.embedding, wanted.embedding, atol=1e-4)
    session.forget(session.in_use.knowledge.labels[-1])
    assert session.in_use.embedder is engine


def test_there_are_tracks_for_all_regions_of_a_frame(make_session):
    assert make_session(regions={"max_regions": 200})._tracker.config.max_tracks >= 200


def test_forgetting_and_restoring_are_reported(make_session):
    told = []
    session = make_session(told)
    session.forget("green")
    session.restore(1)
    assert [used.knowledge.labels for used in told] == [("red", "blue"), ("red", "green", "blue")]
    assert [used.restorable for used in told] == [[1], [1, 2]]
    assert told[-1].classes["green"].since_version == 1
    with pytest.raises(RequestError, match="no class"):
        session.forget("yellow")
    with pytest.raises(UnknownVersionError):
        session.restore(77)
    assert session.in_use.version == 3


def test_a_result_with_other_classes_than_it_should_have_is_not_used(
    make_session, tmp_path, shipped
):
    session = make_session()
    result = tmp_path / "result"
    without_class(shipped, "blue")(result)
    with pytest.raises(DamagedError, match="cannot be used"):
        session.adopt("1", "lemon", result)
    assert session.in_use.version == 1
    session.close()
    assert make_session().in_use.version == 1


def test_a_result_of_a_job_is_used_once(make_session, tmp_path, shipped):
    session = make_session()
    result = tmp_path / "result"
    shutil.copytree(shipped, result)
    assert session.adopt("1", "blue", result) == 2
    assert session.adopt("1", "blue", result) == 2


def test_a_class_that_was_forgotten_since_is_not_brought_back_by_its_job(
    make_session, tmp_path, shipped
):
    session = make_session()
    result = tmp_path / "result"
    colours = COLOURS | {"lemon": (230, 220, 40)}
    assert session.adopt("000001", "lemon", tiny_open_world(result, colours)) == 2
    session.forget("lemon")
    session.close()
    later = make_session()
    assert later.adopt("000001", "lemon", result) == 2, "its status could not be written then"
    assert (later.in_use.version, later.in_use.knowledge.labels) == (3, tuple(COLOURS))


def test_with_an_emptied_folder_of_jobs_nothing_that_is_known_is_lost(
    make_session, tmp_path, make_job
):
    session, jobs = make_session(), tmp_path / "base" / "jobs"
    colours = dict(COLOURS)
    for version, (label, colour) in enumerate(
        {"lemon": (230, 220, 40), "sky": (0, 200, 230)}.items(), 2
    ):
        colours[label] = colour
        job = JobFolders(jobs).create(*make_job(label))
        assert job == "000001"
        result = tiny_open_world(jobs / job / "result", colours)
        assert session.adopt(job, label, result) == version
        shutil.rmtree(jobs)
    assert session.in_use.knowledge.labels == tuple(colours)
    assert session.in_use.restorable == [1, 2]


def test_a_session_that_cannot_begin_leaves_no_lock(tmp_path, shipped, make_session):
    with pytest.raises(DamagedError):
        make_session(shipped=None)
    session = make_session()
    with pytest.raises(LockedError):
        make_session()
    session.close()


def test_a_memory_that_the_disk_does_not_give_back_falls_back_to_an_earlier_version(make_session):
    session = make_session()
    session.forget("blue")
    index = session._base.folder(2) / "memory" / "index.json"
    session.close()
    index.unlink()
    index.mkdir()  # cannot be read, and is there
    later = make_session()
    assert later.in_use.version == 1
    assert "version 2 cannot be read" in later.warnings[0]


def test_a_device_that_is_not_there_says_nothing_about_the_knowledge(make_session):
    session = make_session()
    session.forget("blue")
    session.close()
    for device in ("cuda:77", "no such thing"):
        with pytest.raises(ConfigError, match=f"device '{device}'"):
            make_session(device=device)
    later = make_session()
    assert (later.in_use.version, later.in_use.restorable, later.warnings) == (2, [1], [])


def test_a_request_with_the_id_of_a_merged_object_is_for_the_one_it_became(make_session, show):
    session = make_session()
    found = show(session, YELLOW, 4).unknown_ids[0]
    session._unknowns._merged["u0younger"] = found
    session.dismiss("u0younger")
    assert session.unknown(found).state == "dismissed"
    job, _ = session.learn("lemon", "u0younger", lambda: ({}, ""), LearningOptions(epochs=0))
    assert session.jobs.folders.unfinished()[job].unknown_id == found
    assert session.unknown("u0younger").label == "lemon"


def test_what_is_not_announced_is_counted(make_session, show):
    config = UnknownsConfig(announce_after=3, region_of_interest=(0.0, 0.0, 0.4, 1.0))
    session = make_session(unknowns=config)
    assert show(session, YELLOW, 6).unknown_ids == [""]
    assert session.held_back() == {"outside": 1}


def test_a_job_carries_the_light_of_its_images_over_a_restart(make_session, show):
    session = make_session(adapt=True)
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    light = torch.linspace(0, 1, session.in_use.knowledge.model.head.dimension)
    session.light._shift.value = light
    job = ask(session, "waits", unknown_id)
    session.close()
    later = make_session()
    recorded = later._learned_in(job, "waits")
    assert torch.equal(recorded["waits"], light)
    assert set(recorded) == {"waits"}, "shipped classes have none"
    later.jobs.cancel(job)
    eventually(lambda: later.jobs.status(job).state.final)


def test_a_job_without_adaptation_was_learned_without_a_shift(make_session, show):
    session = make_session()
    (unknown_id,) = show(session, YELLOW, 8).unknown_ids
    job = ask(session, "waits", unknown_id)
    assert not session._learned_in(job, "waits")["waits"].any()
    session.jobs.cancel(job)
    eventually(lambda: session.jobs.status(job).state.final)
