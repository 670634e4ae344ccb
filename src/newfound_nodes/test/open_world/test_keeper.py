# SPDX-License-Identifier: Apache-2.0
import shutil

import pytest

from newfound_core.errors import (
    ConfigError,
    DamagedError,
    DataError,
    LockedError,
    UnknownVersionError,
)
from newfound_core.knowledge.contents import without_class
from newfound_core.testing import COLOURS, tiny_open_world
from newfound_nodes.open_world.job_folders import JobFolders
from newfound_nodes.open_world.keeper import KnowledgeKeeper


@pytest.fixture
def make_keeper(tmp_path, shipped):
    keepers = []

    def make(**options):
        keepers.append(KnowledgeKeeper(tmp_path / "base", shipped, **options))
        return keepers[-1]

    yield make
    for keeper in keepers:
        keeper.close()


def test_forgetting_and_restoring_are_told_to_whoever_listens(make_keeper):
    told = []
    keeper = make_keeper(changed=told.append)
    assert keeper.forget("green") == 2
    assert keeper.restore(1) == 3
    assert [now.knowledge.labels for now in told] == [("red", "blue"), ("red", "green", "blue")]
    assert [now.restorable for now in told] == [[1], [1, 2]]
    assert told[-1].classes["green"].since_version == 1
    with pytest.raises(DataError, match="no class"):
        keeper.forget("yellow")
    with pytest.raises(UnknownVersionError):
        keeper.restore(77)
    assert keeper.now.version == 3


def test_a_result_with_other_classes_than_it_should_have_is_not_used(
    make_keeper, tmp_path, shipped
):
    keeper = make_keeper()
    result = tmp_path / "result"
    without_class(shipped, "blue")(result)
    with pytest.raises(DamagedError, match="cannot be used"):
        keeper.adopt("1", "lemon", result)
    assert keeper.now.version == 1
    keeper.close()
    assert make_keeper().now.version == 1


def test_a_result_of_a_job_is_used_once(make_keeper, tmp_path, shipped):
    keeper = make_keeper()
    result = tmp_path / "result"
    shutil.copytree(shipped, result)
    assert keeper.adopt("1", "blue", result) == 2
    assert keeper.adopt("1", "blue", result) == 2


def test_a_class_that_was_forgotten_since_is_not_brought_back_by_its_job(
    make_keeper, tmp_path, shipped
):
    keeper = make_keeper()
    result = tmp_path / "result"
    colours = COLOURS | {"lemon": (230, 220, 40)}
    assert keeper.adopt("000001", "lemon", tiny_open_world(result, colours)) == 2
    keeper.forget("lemon")
    keeper.close()
    later = make_keeper()
    assert later.adopt("000001", "lemon", result) == 2, "its status could not be written then"
    assert (later.now.version, later.now.knowledge.labels) == (3, tuple(COLOURS))


def test_with_an_emptied_folder_of_jobs_nothing_that_is_known_is_lost(
    make_keeper, tmp_path, make_job
):
    keeper, jobs = make_keeper(), tmp_path / "base" / "jobs"
    colours = dict(COLOURS)
    for version, (label, colour) in enumerate(
        {"lemon": (230, 220, 40), "sky": (0, 200, 230)}.items(), 2
    ):
        colours[label] = colour
        job = JobFolders(jobs).create(*make_job(label))
        assert job == "000001"
        result = tiny_open_world(jobs / job / "result", colours)
        assert keeper.adopt(job, label, result) == version
        shutil.rmtree(jobs)
    assert keeper.now.knowledge.labels == tuple(colours)
    assert keeper.now.restorable == [1, 2]


def test_looks_are_asked_for_before_knowledge_is_used(make_keeper):
    asked = []
    keeper = make_keeper(look=lambda knowledge: asked.append(knowledge.labels) or {"u1": 1})
    keeper.forget("red")
    assert asked == [("red", "green", "blue"), ("green", "blue")]
    assert keeper.now.looks == {"u1": 1}


def test_a_keeper_that_cannot_begin_leaves_no_lock(tmp_path, shipped, make_keeper):
    with pytest.raises(DamagedError):
        KnowledgeKeeper(tmp_path / "base", None)
    keeper = make_keeper()
    with pytest.raises(LockedError):
        make_keeper()
    keeper.close()


def test_a_memory_that_the_disk_does_not_give_back_falls_back_to_an_earlier_version(make_keeper):
    keeper = make_keeper()
    keeper.forget("blue")
    index = keeper._base.folder(2) / "memory" / "index.json"
    keeper.close()
    index.unlink()
    index.mkdir()  # cannot be read, and is there
    later = make_keeper()
    assert later.now.version == 1
    assert "version 2 cannot be read" in later.complaints[0]


def test_a_device_that_is_not_there_says_nothing_about_the_knowledge(make_keeper):
    keeper = make_keeper()
    keeper.forget("blue")
    keeper.close()
    for device in ("cuda:77", "no such thing"):
        with pytest.raises(ConfigError, match=f"device '{device}'"):
            make_keeper(device=device)
    later = make_keeper()
    assert (later.now.version, later.now.restorable, later.complaints) == (2, [1], [])
