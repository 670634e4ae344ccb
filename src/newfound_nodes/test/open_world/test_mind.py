# SPDX-License-Identifier: Apache-2.0
import time

import cv2
import numpy as np
import pytest
from sensor_msgs.msg import CompressedImage

from newfound_core.detection.detector import Detector, DetectorConfig
from newfound_core.detection.unknown_object import UnknownObject
from newfound_core.detection.unknowns import UnknownsConfig, View
from newfound_core.detection.whole_image import WholeImage
from newfound_core.open_world.job import LearningOptions
from newfound_msgs.srv import AddUnknownClass
from newfound_nodes.open_world.learning_queue import LearningQueue, QueueFullError
from newfound_nodes.open_world.mind import Listener, Mind, MindConfig
from newfound_nodes.open_world.requests import RefusedError
from newfound_runtime.testing import eventually

RED, YELLOW = (220, 40, 40), (230, 220, 40)


@pytest.fixture
def make_mind(tmp_path, shipped, learner):
    minds = []

    def make(told=None, regions=None, **options):
        told = [] if told is None else told
        listener = Listener(told.append, told.append, told.append)
        options |= {"unknowns": UnknownsConfig(announce_after=3), "learner": learner}
        config = MindConfig(tmp_path / "base", shipped, **options)
        detector = Detector(WholeImage(), DetectorConfig(**(regions or {})))
        minds.append(Mind(config, detector, listener))
        return minds[-1]

    yield make
    for mind in minds:
        mind.close()


@pytest.fixture
def show(square):
    def show(mind, colour, count=1):
        for number in range(count):
            seen = mind.see(square(colour, number), None, View(number, "camera", 64, 48))
        return seen

    return show


def ask(mind, label, unknown_id):
    request = AddUnknownClass.Request(label=label, unknown_id=unknown_id)
    return mind.learn(request, LearningOptions())[0]


def test_unknown_objects_are_the_same_after_a_restart(make_mind, show):
    told = []
    mind = make_mind(told)
    seen = show(mind, YELLOW, 8)
    assert {entry.id for entry in told} == {seen.unknown_ids[0]}
    mind.close()
    later = make_mind()
    assert [entry.id for entry in later.unknowns()] == seen.unknown_ids
    assert later.unknowns()[0].sightings == 8
    assert show(later, YELLOW, 4).unknown_ids == seen.unknown_ids
    assert show(later, RED).found[0].label == "red"


def test_an_unknown_whose_job_failed_waits_again(make_mind, show):
    mind = make_mind()
    (unknown_id,) = show(mind, YELLOW, 8).unknown_ids
    job = ask(mind, "forgets", unknown_id)
    eventually(lambda: mind.queue.status(job).final)
    eventually(lambda: mind.unknown(unknown_id).state == "waiting")
    assert mind.troubles() == ["learning 'forgets' rejected: 40 points"]
    cancelled = ask(mind, "waits", unknown_id)
    mind.queue.cancel(cancelled)
    eventually(lambda: mind.troubles() == [])


def test_while_it_is_learned_an_unknown_says_so_even_after_a_restart(make_mind, show):
    mind = make_mind()
    (unknown_id,) = show(mind, YELLOW, 8).unknown_ids
    job = ask(mind, "waits", unknown_id)
    assert (mind.unknown(unknown_id).state, mind.unknown(unknown_id).label) == (
        "learning",
        "waits",
    )
    mind.close()
    later = make_mind()
    assert later.unknown(unknown_id).state == "learning"
    later.queue.cancel(job)
    eventually(lambda: later.unknown(unknown_id).state == "waiting")


def test_what_a_job_learns_is_being_learned_though_the_node_died_before_it_noted_that(
    make_mind, show, tmp_path
):
    mind = make_mind()
    (unknown_id,) = show(mind, YELLOW, 8).unknown_ids
    job = ask(mind, "waits", unknown_id)
    mind.close()
    (note,) = (tmp_path / "base" / "unknowns").glob("*/unknown.json")
    note.write_text(note.read_text().replace('"learning"', '"waiting"').replace('"waits"', '""'))
    later = make_mind()
    assert (later.unknown(unknown_id).state, later.unknown(unknown_id).label) == (
        "learning",
        "waits",
    )
    later.queue.cancel(job)
    eventually(lambda: later.unknown(unknown_id).state == "waiting")


def test_a_job_that_ends_before_its_object_is_marked_leaves_it_waiting(make_mind, show):
    mind = make_mind()
    (unknown_id,) = show(mind, YELLOW, 8).unknown_ids
    add = mind.queue.add

    def slow(job, images):
        name, before = add(job, images)
        eventually(lambda: mind.queue.status(name).final)
        time.sleep(0.1)  # for the thread of the queue to go on
        return name, before

    mind.queue.add = slow
    ask(mind, "forgets", unknown_id)
    eventually(lambda: mind.unknown(unknown_id).state == "waiting", patience=10)


def test_a_job_that_ends_while_the_mind_is_made_is_told_of(make_mind, tmp_path, monkeypatch):
    told = []

    class Eager(LearningQueue):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            eventually(lambda: told, "a report", patience=10)

    monkeypatch.setattr("newfound_nodes.open_world.mind.LearningQueue", Eager)
    (tmp_path / "base" / "jobs" / "000001").mkdir(parents=True)  # without job.json
    make_mind(told)
    assert (told[0].job, told[0].stage) == ("000001", "failed")


def test_a_dismissed_unknown_stays_dismissed(make_mind, show):
    mind = make_mind()
    (unknown_id,) = show(mind, YELLOW, 8).unknown_ids
    mind.dismiss(unknown_id)
    with pytest.raises(RefusedError) as refused:
        mind.dismiss("u0")
    assert refused.value.code == "UNKNOWN_ID"
    mind.close()
    assert make_mind().unknown(unknown_id).state == "dismissed"


def test_what_is_being_learned_cannot_be_dismissed_but_the_other_way_round(make_mind, show):
    mind = make_mind()
    (unknown_id,) = show(mind, YELLOW, 8).unknown_ids
    mind.dismiss(unknown_id)
    job = ask(mind, "waits", unknown_id)
    with pytest.raises(RefusedError) as refused:
        mind.dismiss(unknown_id)
    assert refused.value.code == "BUSY"
    mind.queue.cancel(job)


def test_a_known_class_is_given_further_views_only_if_that_was_allowed(make_mind, show):
    mind = make_mind()
    (unknown_id,) = show(mind, YELLOW, 8).unknown_ids
    request = AddUnknownClass.Request(label="red", unknown_id=unknown_id)
    with pytest.raises(RefusedError, match="extend_known") as refused:
        mind.learn(request, LearningOptions())
    assert refused.value.code == "LABEL_EXISTS"
    job, _ = mind.learn(request, LearningOptions(), extend=True)
    assert mind.queue.labels() == {"red"}
    with pytest.raises(RefusedError, match="being learned already"):
        mind.learn(request, LearningOptions(), extend=True)
    mind.queue.cancel(job)


def test_a_full_queue_is_said_before_any_image_is_looked_at(make_mind):
    mind = make_mind(queue_limit=1)
    picture = CompressedImage(
        data=cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
    )
    request = AddUnknownClass.Request(label="waits", images=[picture] * 2)
    job, _ = mind.learn(request, LearningOptions())
    junk = AddUnknownClass.Request(label="vase", images=[CompressedImage(data=b"junk")] * 2)
    with pytest.raises(QueueFullError):
        mind.learn(junk, LearningOptions())
    mind.queue.cancel(job)


def test_new_knowledge_is_used_from_the_next_frame_on(make_mind, show):
    mind = make_mind()
    assert show(mind, RED).found[0].label == "red"
    mind.keeper.forget("red")
    seen = show(mind, RED)
    assert (seen.version, seen.found[0].label == "red") == (2, False)


def test_an_unknown_of_a_class_that_was_learned_otherwise_is_released(make_mind, show):
    told = []
    mind = make_mind(told)
    mind.keeper.forget("red")
    (unknown_id,) = show(mind, RED, 8).unknown_ids
    mind.keeper.restore(1)
    released = [e for e in told if isinstance(e, UnknownObject)][-1]
    assert (released.id, released.state, released.label) == (unknown_id, "learned", "red")
    assert mind.unknowns() == []


def test_an_unknown_that_new_knowledge_does_not_know_either_waits_on(make_mind, show):
    mind = make_mind()
    mind.keeper.forget("red")
    (unknown_id,) = show(mind, YELLOW, 8).unknown_ids
    mind.keeper.restore(1)
    assert mind.unknown(unknown_id).state == "waiting"
    assert show(mind, YELLOW).unknown_ids == [unknown_id]


def test_there_are_tracks_for_all_regions_of_a_frame(make_mind):
    assert make_mind(regions={"max_regions": 200})._tracker.config.max_tracks >= 200
