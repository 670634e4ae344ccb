# SPDX-License-Identifier: Apache-2.0
import time
from dataclasses import replace

import numpy as np
import pytest

from newfound_core.detection.second_look import looks_of_entries
from newfound_core.detection.tracking import Tracker
from newfound_core.detection.unknowns import (
    Unknowns,
    UnknownsConfig,
    View,
)
from newfound_core.errors import ConfigError

APART = (100, 100, 140, 140)


class World:
    """A tracker and the unknowns, fed frame by frame."""

    def __init__(self, **config):
        self.unknowns = Unknowns(UnknownsConfig(**{"announce_after": 3} | config))
        self.tracker = Tracker()
        self.stamp = 0

    def show(self, *detections, frames=1):
        reports = []
        for _ in range(frames):
            self.stamp += 100
            looks = np.stack([d.look for d in detections]) if detections else np.zeros((0, 8))
            boxes = np.stack([d.box for d in detections]) if detections else np.zeros((0, 4))
            tracks = self.tracker.update(boxes.astype(np.float32), looks.astype(np.float32))
            self.numbers = tracks.tolist()
            view = View(self.stamp, "camera", 640, 480)
            reports += self.unknowns.update(view, detections, self.numbers, self.tracker.tracks)
        return reports


def test_an_unknown_is_announced_once_it_was_seen_often_enough(make_detection):
    world = World()
    assert world.show(make_detection(), frames=2) == []
    assert world.unknowns.id_of(world.numbers[0]) == ""
    (report,) = world.show(make_detection())
    assert (report.state, report.sightings, report.nearest_label) == ("waiting", 3, "mug")
    assert (report.first_seen, report.last_seen) == (100, 300)
    assert report.crops
    assert world.unknowns.id_of(world.numbers[0]) == report.id


def test_over_many_frames_it_is_one_unknown_told_of_ever_more_rarely(make_detection):
    world = World()
    reports = [
        report
        for step in range(500)
        for report in world.show(
            make_detection(noise=0.05, seed=step, box=(step, 0, step + 30, 30))
        )
    ]
    assert len({report.id for report in reports}) == len(world.unknowns) == 1
    assert [report.sightings for report in reports] == [3, 6, 12, 24, 48, 96, 192, 384]
    assert world.unknowns.all()[0].sightings == 500


def test_a_thing_that_is_known_most_of_the_time_is_no_unknown(make_detection):
    world = World()
    for step in range(40):
        assert world.show(make_detection(label="" if step % 3 == 1 else "mug")) == []


def test_it_is_recognised_when_it_comes_back_much_later(make_detection):
    world = World()
    (first,) = world.show(make_detection(noise=0.05), frames=3)
    world.show(frames=100)
    world.show(make_detection(noise=0.05, seed=7, box=APART), frames=5)
    assert len(world.unknowns) == 1
    assert world.unknowns.id_of(world.numbers[0]) == first.id


def test_two_things_are_two_unknowns_even_if_they_look_the_same(make_detection):
    world = World()
    reports = world.show(make_detection(), make_detection(box=APART), frames=3)
    assert len({report.id for report in reports}) == 2


def test_the_number_is_limited_and_the_longest_unseen_expires(make_detection):
    world = World(max_unknowns=2)
    ids = []
    for axis in range(3):
        reports = world.show(make_detection(axis), frames=3)
        ids.append(reports[0].id)
    assert (reports[-1].id, reports[-1].state) == (ids[0], "expired")
    assert [entry.id for entry in world.unknowns.all()] == ids[1:]


def test_what_is_being_learned_does_not_expire(make_detection):
    world = World(max_unknowns=1, max_age=10)
    (report,) = world.show(make_detection(0), frames=3)
    world.unknowns.mark(report.id, "learning", "vase")
    world.show(make_detection(1), frames=3)
    assert world.unknowns.get(report.id).label == "vase"
    assert world.unknowns.expire(time.time() + 100) == []


def test_an_unknown_not_seen_for_long_expires(make_detection):
    world = World(max_age=10)
    (report,) = world.show(make_detection(), frames=3)
    assert world.unknowns.expire(time.time()) == []
    (expired,) = world.unknowns.expire(time.time() + 11)
    assert (expired.id, expired.state, len(world.unknowns)) == (report.id, "expired", 0)


def test_a_dismissed_thing_is_not_announced_again(make_detection):
    world = World()
    (report,) = world.show(make_detection(), frames=3)
    world.unknowns.mark(report.id, "dismissed")
    world.show(frames=100)
    assert world.show(make_detection(), frames=50) == []
    assert len(world.unknowns) == 1


def test_a_learned_thing_has_no_entry_any_more(make_detection):
    world = World()
    (report,) = world.show(make_detection(), frames=3)
    assert world.unknowns.mark(report.id, "learned", "vase").state == "learned"
    assert world.unknowns.mark(report.id, "learned", "vase") is None
    world.show(make_detection(label="vase"), frames=5)
    assert len(world.unknowns) == 0


def test_after_a_restart_and_with_another_network_it_is_the_same_unknown(make_detection):
    world = World()
    (report,) = world.show(make_detection(), frames=3)
    later = World()
    later.unknowns.restore([replace(report)])

    def embed(images):  # another network: this thing looks like axis 5 to it
        return np.repeat(np.eye(8, dtype=np.float32)[5:6], len(images), 0)

    later.unknowns.use_looks(looks_of_entries([report], embed))
    later.show(make_detection(5), frames=4)
    assert [entry.id for entry in later.unknowns.all()] == [report.id]
    assert later.unknowns.get(report.id).sightings == 5


def test_what_other_knowledge_knew_does_not_delay_an_announcement(make_detection):
    world = World()
    world.show(make_detection(label="vase"), frames=50)
    world.unknowns.use_looks({}, same_network=True)  # the vase was forgotten
    (report,) = world.show(make_detection(), frames=3)
    assert report.state == "waiting"


def test_what_other_knowledge_did_not_know_has_its_name_at_once(make_detection):
    world = World()
    world.show(make_detection(), frames=50)
    world.unknowns.use_looks({}, same_network=True)
    world.show(make_detection(label="vase"))
    assert world.unknowns.id_of(world.numbers[0]) == ""


def test_an_entry_that_nobody_looked_at_again_is_still_recognised(make_detection):
    world = World()
    (first,) = world.show(make_detection(0), frames=3)
    world.unknowns.use_looks({}, same_network=True)
    world.show(frames=100)
    world.show(make_detection(0, box=APART), frames=3)
    assert [entry.id for entry in world.unknowns.all()] == [first.id]
    world.unknowns.use_looks({})  # to another network it looks like axis 5
    world.tracker.forget_looks()
    world.show(make_detection(5, box=APART))
    world.show(frames=100)
    world.show(make_detection(5), frames=3)
    assert [entry.id for entry in world.unknowns.all()] == [first.id]


def test_the_best_crops_are_kept(make_detection):
    world = World(crops=2, crop_gap=1)
    for step in range(12):
        world.show(make_detection(sharp=step in (4, 9), seed=step))
    (entry,) = world.unknowns.all()
    assert [crop.frame for crop in sorted(entry.crops, key=lambda c: c.frame)] == [5, 10]


@pytest.mark.parametrize(
    "wrong", [{"announce_after": 0}, {"same_similarity": 0}, {"max_age": float("nan")}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        UnknownsConfig(**wrong)
