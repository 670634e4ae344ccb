# SPDX-License-Identifier: Apache-2.0
"""A class learned by one robot is known by another."""

import hashlib
import json
import shutil
from dataclasses import replace

import cv2
import pytest

from newfound_core import testing
from newfound_core.checkpoint import MEMORY_NAME
from newfound_core.errors import LockedError
from newfound_core.knowledge.contents import from_checkpoint, read_knowledge
from newfound_core.knowledge.knowledge_base import KnowledgeBase
from newfound_core.learning import learn
from newfound_core.learning.job import JobState, LearningOptions
from newfound_core.open_world.memory import Memory
from newfound_core.open_world.memory_store import load_memory
from newfound_core.packages import PackageError, classes, pack, unpack
from newfound_core.packages.__main__ import main
from newfound_core.packages.classes import class_images, export_class, import_class

ANY = LearningOptions(max_accuracy_loss=1.0, max_class_loss=1.0)
PURPLE = (200, 30, 200)


@pytest.fixture
def shipped(tmp_path):
    return testing.tiny_open_world(tmp_path / "shipped")


@pytest.fixture
def make_robot(tmp_path, shipped):
    def make(name):
        root = tmp_path / name
        base = KnowledgeBase(root, read_knowledge)
        base.open(from_checkpoint(shipped))
        base.close()
        return root

    return make


@pytest.fixture
def package(shipped):
    """One of the shipped classes, under another name and with other images."""
    made = export_class(shipped, "red", "robot one")
    return unpack(pack(made))


def purple_package(package):
    files = {}
    for seed in range(8):
        content = cv2.imencode(".png", testing.square(PURPLE, seed)[..., ::-1])[1].tobytes()
        files[f"images/{hashlib.sha256(content).hexdigest()}.png"] = content
    details = {"images": [{"file": name, "held_out": False} for name in files]}
    return replace(package, name="purple", files=files, details=details)


def test_what_is_exported_are_the_remembered_images(shipped, package):
    memory = load_memory(shipped / "memory")
    assert len(class_images(package)) == len(memory.samples("red"))
    assert package.provenance["robot"] == "robot one"


def test_an_image_that_is_remembered_twice_is_exported_once(shipped, monkeypatch):
    once = load_memory(shipped / MEMORY_NAME).samples("red")
    twice = Memory(samples={"red": [*once, *once]})
    monkeypatch.setattr(classes, "load_memory", lambda _: twice)
    package = unpack(pack(export_class(shipped, "red")))
    assert len(class_images(package)) == len(once)


def test_an_imported_class_is_learned_and_can_be_undone(make_robot, package):
    root = make_robot("two")
    status = import_class(root, purple_package(package), ANY)
    assert (status.state, status.version) == (JobState.DONE, 2)
    base = KnowledgeBase(root, read_knowledge)
    opened = base.open()
    assert "purple" in opened.content.labels
    assert "purple" in opened.content.learned_in
    sources = {s.source for s in load_memory(root / "current" / "memory").samples("purple")}
    assert {source.split()[0] for source in sources} == {"package"}
    base.switch(base.copy(1))
    assert "purple" not in base.open().content.labels
    base.close()


def test_one_that_is_known_is_refused_unless_it_is_to_be_extended(make_robot, package):
    root = make_robot("two")
    with pytest.raises(PackageError, match="known already"):
        import_class(root, package, ANY)
    assert import_class(root, package, ANY, extend=True).state is JobState.DONE


def test_what_validation_rejects_changes_nothing(make_robot, package, monkeypatch):
    """As a job of any other kind; what is rejected, and why, is among the tests of validation."""
    verdict = JobState.REJECTED, "forgot_too_much", "mugs would be cups"
    monkeypatch.setattr(learn, "validate", lambda accuracy, options: verdict)
    root = make_robot("two")
    status = import_class(root, purple_package(package), ANY)
    assert (status.state, status.message) == (JobState.REJECTED, "mugs would be cups")
    assert (root / "current").readlink().name == "000001"


def test_a_knowledge_base_in_use_is_not_touched(make_robot, package):
    root = make_robot("two")
    base = KnowledgeBase(root, read_knowledge)
    with pytest.raises(LockedError, match="in use"):
        import_class(root, purple_package(package), ANY)
    base.close()


def test_from_key_to_import_by_command(make_robot, tmp_path, capsys):
    one, two, keys, other = make_robot("one"), make_robot("two"), tmp_path / "k1", tmp_path / "k2"
    file = f"file://{tmp_path / 'red.nfp'}"
    assert main(["keygen", "--keys", str(keys)]) == 0
    public = capsys.readouterr().out.splitlines()[-1]
    assert main(["export", str(one), "red", file, "--keys", str(keys)]) == 0
    capsys.readouterr()
    assert main(["inspect", file, "--keys", str(other)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["name"] == "red"
    assert "not trusted" in shown["trust"]
    load = ["import", str(two), file, "--keys", str(other), "--extend"]
    assert main(load) == 2
    assert "not trusted" in capsys.readouterr().err
    (other / "trusted").mkdir(parents=True)
    (other / "trusted" / "one.pub").write_text(public)
    assert main(load) == 0
    assert "'red': done" in capsys.readouterr().out


def test_what_cannot_be_read_or_written_is_said(make_robot, tmp_path, capsys):
    root = make_robot("one")
    assert main(["inspect", str(tmp_path / "none.nfp")]) == 2
    assert main(["export", str(root), "nobody", str(tmp_path / "x"), "--unsigned"]) == 2
    assert main(["export", str(root), "red", str(root / "lock" / "x"), "--unsigned"]) == 2
    assert main(["export", str(root), "red", str(tmp_path / "x"), "--keys", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    for part in ("cannot be read", "no class 'nobody'", "cannot be written", "signing.pem"):
        assert part in said
    shutil.rmtree(root)
    assert main(["export", str(root), "red", str(tmp_path / "x"), "--unsigned"]) == 2
